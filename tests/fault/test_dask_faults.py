"""Builds on a cluster in which something fails at a random point: right bytes, no hang, no process left.

GPUBUILD_TEST_FAULTS is the number of points of each fault; without it, some faults have one.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from conftest import fill
from fault.dask_builds import arguments, outputs, project_for
from fault.dask_cluster import Cluster, children, wait_until
from fault.test_dask_commands import certificates
from unit.cache.servers import free_port

POINTS = int(os.environ.get("GPUBUILD_TEST_FAULTS", "0"))
_QUICK = ("disk", "tcp")  # test_dask kills and stops processes
SEED = os.environ.get("GPUBUILD_TEST_SEED", "17")
NO_WORKER, STEP = 3, 8  # seconds
HANG = 100.0  # seconds: connecting, both time-outs, and a build on a busy machine
_MARK = "GPUBUILD_TEST_BUILD"
_CAN_ADMINISTER = os.geteuid() == 0
# For Python's start, so for agents, too. It also names compiled modules, of which none shall be left.
FAKE_PYTHON = "import sys\nsys.dont_write_bytecode = True\nsys.implementation.cache_tag = 'cpython-399'\n"


class Build:
    """A build that runs on a cluster alone, as far as it can."""

    def __init__(self, project: Path, cluster: Cluster, name: str, *more: str, **variables: str) -> None:
        self.project = project
        file = project_for(
            project, cluster, name, timeouts={"connect": 5, "no_worker": NO_WORKER, "step": STEP}
        )
        self._name = name
        self._mark = f"{_MARK}={project}/{name}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpubuild", *arguments(file), "--json", *more],
            cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **variables, _MARK: f"{project}/{name}"},
        )  # fmt: skip

    def check(self) -> dict[str, set[str | None]]:
        """Check its end, and return which targets each worker ran steps for."""
        try:
            out, err = self.process.communicate(timeout=HANG)
        finally:
            self.process.kill()
        assert self.process.returncode == 0, err + out
        assert outputs(self.project / self._name) == outputs(self.project / "build")
        wait_until(lambda: not self._left(), 20)
        ran: dict[str, set[str | None]] = {}
        for step in json.loads(out)["steps"]:
            if "worker" in step:
                ran.setdefault(step["worker"], set()).add(step.get("target"))
        shutil.rmtree(self.project / self._name)
        shutil.rmtree(self.project / f"of-{self._name}")
        return ran

    def _left(self) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdigit() and self._mark.encode() in (entry / "environ").read_bytes():
                    found.append(entry.name)
        return found


@contextmanager
def started(folder: Path) -> Iterator[tuple[Cluster, subprocess.Popen[bytes]]]:
    """Start a cluster of two workers, and return it and the first nanny; check that all ends with it."""
    with Cluster(folder) as cluster:
        nanny = cluster.start_worker("w1")
        cluster.start_worker("w2")
        cluster.wait_for_workers(2)
        yield cluster, nanny
        cluster.end_by_force()


def workers_of(nanny: subprocess.Popen[bytes]) -> list[int]:
    return [pid for pid in children(nanny.pid) if "spawn_main" in _line(pid)]


def agents_of(nanny: subprocess.Popen[bytes]) -> list[int]:
    found = (pid for worker in workers_of(nanny) for pid in children(worker))
    return [pid for pid in found if "gpubuild.execute.agent" in _line(pid)]


def forkers_of(nanny: subprocess.Popen[bytes]) -> list[int]:
    return [pid for agent in agents_of(nanny) for pid in children(agent)]


def steps_of(nanny: subprocess.Popen[bytes]) -> list[int]:
    return [pid for forker in forkers_of(nanny) for pid in children(forker)]


def _line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def _signal(number: int, pids: list[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, number)


Find = Callable[[Cluster, subprocess.Popen[bytes]], list[int]]
PROCESSES: dict[str, Find] = {
    "worker": lambda _, nanny: workers_of(nanny),
    "nanny": lambda _, nanny: [nanny.pid],
    "agent": lambda _, nanny: agents_of(nanny),
    "forker": lambda _, nanny: forkers_of(nanny),
    "step": lambda _, nanny: steps_of(nanny),
    "scheduler": lambda cluster, _: [cluster.scheduler.pid],
    "machine": lambda _, nanny: [nanny.pid, *workers_of(nanny), *agents_of(nanny), *forkers_of(nanny)],
}


STOPPED = ("machine", "scheduler", "agent", "step")


def _cases(names: Iterable[str]) -> list[tuple[str, int]]:
    """Return each fault with its points."""
    names = [name for name in names if POINTS or name in _QUICK]
    return [(name, point) for name in names for point in range(POINTS or 1)]


def wait_at_random(build: Build, name: str, point: int) -> None:
    """Wait for a moment of the build; many of its seconds are start and link."""
    time.sleep(random.Random(f"{SEED} {name} {point}").uniform(0.3, 7.0))
    if build.process.poll() is not None:  # a fast machine
        assert build.process.returncode == 0


@pytest.mark.parametrize(("what", "point"), _cases(PROCESSES))
def test_a_killed_process(local: Path, tmp_path: Path, what: str, point: int) -> None:
    with started(tmp_path / "cluster") as (cluster, nanny):
        build = Build(local, cluster, f"killed_{what}_{point}")
        wait_at_random(build, f"kill {what}", point)
        _signal(signal.SIGKILL, PROCESSES[what](cluster, nanny))
        build.check()


@pytest.mark.parametrize(("what", "point"), _cases(STOPPED))
def test_a_stopped_process(local: Path, tmp_path: Path, what: str, point: int) -> None:
    """It neither answers nor ends."""
    stopped: list[int] = []
    try:
        with started(tmp_path / "cluster") as (cluster, nanny):
            build = Build(local, cluster, f"stopped_{what}_{point}")
            wait_at_random(build, f"stop {what}", point)
            stopped = PROCESSES[what](cluster, nanny)
            _signal(signal.SIGSTOP, stopped)
            build.check()
            _signal(signal.SIGCONT, stopped)
    finally:
        _signal(signal.SIGCONT, stopped)


@pytest.mark.parametrize(("scheme", "point"), _cases(("tcp", "tls")))
def test_latency_and_losses(local: Path, tmp_path: Path, scheme: str, point: int) -> None:
    """50 ms each way and 1 % of the segments lost between the scheduler and everything else."""
    variables = {}
    if scheme == "tls":
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed")
        variables = certificates(tmp_path)
    with Cluster(tmp_path / "cluster", **variables) as cluster:
        port, far = cluster.address.rpartition(":")[2], free_port()
        seed = str(random.Random(f"{SEED} {scheme} {point}").randrange(1 << 30))
        cluster.run("fault.relay", str(far), port, "50", "0.01", seed)
        relayed = tmp_path / "relayed.json"
        relayed.write_text(cluster.file.read_text().replace(f"127.0.0.1:{port}", f"127.0.0.1:{far}"))
        cluster.file = relayed
        for name in ("w1", "w2"):
            cluster.start_worker(name, "--no-nanny")
        cluster.wait_for_workers(2)
        assert cluster.address == f"{scheme}://127.0.0.1:{far}"
        assert Build(local, cluster, f"{scheme}_{point}", **variables).check()
        cluster.end_by_force()


@pytest.mark.parametrize(("what", "point"), _cases(("ptxas", "python")))
def test_a_worker_with_other_tools_joins(local: Path, tmp_path: Path, what: str, point: int) -> None:
    (tmp_path / "sitecustomize.py").write_text(FAKE_PYTHON)
    with Cluster(tmp_path / "cluster") as cluster:
        first = cluster.start_worker("w1")
        cluster.wait_for_workers(1)
        build = Build(local, cluster, f"joins_{what}_{point}")
        wait_at_random(build, f"join {what}", point)
        if what == "ptxas":
            cluster.start_worker("other", GPUBUILD_PTXAS=shutil.which("true") or "")
        else:
            cluster.start_worker("other", PYTHONPATH=str(tmp_path))
        cluster.wait_for_workers(2)
        first.kill()  # its steps must go to this machine, not to the other worker
        allowed = {"gfx90a", "cpu", None} if what == "ptxas" else set()
        assert build.check().get("other", set()) <= allowed
        cluster.end_by_force()


@pytest.mark.parametrize(("what", "point"), _cases(("disk",)))
def test_a_full_disk(local: Path, tmp_path: Path, small_disk: Path, what: str, point: int) -> None:
    with Cluster(tmp_path / "cluster") as cluster:
        cluster.start_worker("w1", TMPDIR=str(small_disk))
        cluster.start_worker("w2")
        cluster.wait_for_workers(2)
        build = Build(local, cluster, f"{what}_{point}")
        wait_at_random(build, what, point)
        fill(small_disk)
        build.check()
        cluster.end_by_force()


class Network:
    """A network name space with a link to this machine, which can be cut."""

    def __init__(self, number: int) -> None:
        self.name = f"gpubuild{os.getpid() % 10000}"
        self.here, self.there = (f"10.213.{number}.{end}" for end in (1, 2))
        link = f"gb{os.getpid() % 10000}"
        self._link = link
        for command in (
            f"netns add {self.name}",
            f"link add {link}a type veth peer name {link}b netns {self.name}",
            f"addr add {self.here}/24 dev {link}a",
            f"link set {link}a up",
            f"-n {self.name} addr add {self.there}/24 dev {link}b",
            f"-n {self.name} link set {link}b up",
            f"-n {self.name} link set lo up",
        ):
            self._ip(command)

    def set_link(self, state: str) -> None:
        """Set the link ``up`` or ``down``."""
        self._ip(f"link set {self._link}a {state}")

    def close(self) -> None:
        """Remove it, and the link first: the kernel would do that later, when the name is needed again."""
        self._ip(f"link del {self._link}a")
        self._ip(f"netns del {self.name}")

    def _ip(self, arguments: str) -> None:
        subprocess.run(["ip", *arguments.split()], check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    """A network of its own."""
    if not _CAN_ADMINISTER or shutil.which("ip") is None:
        pytest.skip("only root with iproute2 makes a network")
    try:
        made = Network(os.getpid() % 250)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"cannot make a network here: {error.stderr}")
    yield made
    made.close()


@pytest.mark.parametrize(("what", "point"), _cases(("for good", "for a while")))
def test_a_partition(local: Path, tmp_path: Path, network: Network, what: str, point: int) -> None:
    with Cluster(tmp_path / "cluster", host=network.here) as cluster:
        cluster.start_worker("near")
        cluster.start_worker("far", "--host", network.there, before=["ip", "netns", "exec", network.name])
        cluster.wait_for_workers(2)
        build = Build(local, cluster, f"partition_{what[-4:].strip()}_{point}", "--insecure-remote")
        wait_at_random(build, what, point)
        network.set_link("down")
        if what == "for a while":
            time.sleep(4)
            network.set_link("up")
        build.check()
        network.set_link("up")
        cluster.end_by_force()
