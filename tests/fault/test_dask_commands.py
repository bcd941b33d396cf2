"""``gpubuild worker`` and ``gpubuild doctor --remote`` with real schedulers, and certificates."""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.command import ROOT, Outcome, gpubuild, saxpy_project
from fault.dask_builds import SOURCES, remote
from fault.dask_cluster import PATIENCE, Cluster, wait_until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster") / "c") as made:
        yield made


@pytest.fixture(scope="module")
def other(cluster: Cluster) -> subprocess.Popen[bytes]:
    """A worker with another ptxas."""
    started = cluster.start_worker("other-ptxas", GPUBUILD_PTXAS=shutil.which("true") or "")
    cluster.wait_for_workers(1)
    return started


@pytest.fixture(scope="module")
def nannies(cluster: Cluster, other: subprocess.Popen[bytes]) -> list[subprocess.Popen[bytes]]:
    """A worker like this machine, and the other one."""
    started = cluster.start_worker("like-us")
    cluster.wait_for_workers(2)
    return [started, other]


@pytest.mark.usefixtures("other")
def test_workers_with_another_tool_get_no_step_of_it(local: Path, cluster: Cluster) -> None:
    done = remote(local, cluster, "other_ptxas")
    assert done.code == 0, done.err
    by_target = {step.get("target") for step in done.document["steps"] if "worker" in step}
    assert by_target == {None, "gfx90a", "cpu"}
    assert f"{SOURCES} steps ran on this machine: no worker has the same tools" in done.err
    refused = remote(local, cluster, "no_fallback", "--no-fallback")
    assert refused.code == 1
    assert "no worker ran the step: no worker has the same tools" in refused.err + refused.out


def doctor(cwd: Path, address: str, *more: str, **variables: str) -> Outcome:
    if not (cwd / "targets.yaml").exists():
        (cwd / "targets.yaml").write_text(
            "version: 1\ntargets: {cpu: {}, sm_90: {}, gfx90a: {}}\nprograms: {p: {sources: [p.mlir]}}\n"
            "execute: {dask: 'tcp://localhost:1', timeouts: {connect: 2}}\n"
        )
        (cwd / "p.mlir").write_text("")
    return gpubuild("doctor", "--remote", "--executor", f"dask:{address}", *more, cwd=cwd, env=variables)


@pytest.mark.usefixtures("nannies")
def test_doctor_compares_tools(cluster: Cluster, tmp_path: Path) -> None:
    done = doctor(tmp_path, cluster.address, "--json")
    assert done.code == 0, done.err
    remote = done.document["remote"]
    assert remote["ok"]
    assert 0 < remote["round_trip_ms"] < 5_000
    same, other = remote["workers"]
    assert (same["name"], same["differing"], same["kinds"]) == (
        "like-us",
        [],
        ["nvvm", "rocdl", "spirv", "cpu"],
    )
    assert (other["name"], other["differing"], other["kinds"]) == (
        "other-ptxas",
        ["ptxas"],
        ["rocdl", "spirv", "cpu"],
    )
    assert min(same["round_trip_ms"], other["round_trip_ms"]) > 0


@pytest.mark.usefixtures("nannies")
def test_doctor_where_no_worker_is_like_this_machine(cluster: Cluster, tmp_path: Path) -> None:
    project = saxpy_project(tmp_path / "project")
    # Constants are folded with other functions of libm.
    done = doctor(project, cluster.address, GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX2,-FMA,-AVX,-FMA4,-AVX512F")
    if "differ from here: host-math" not in done.out:
        pytest.skip("the CPU has one variant of libm's functions")
    assert done.code == 2
    assert "no worker runs steps for cpu, nvvm, rocdl: such steps run on this machine" in done.out


def test_doctor_with_a_worker_that_does_not_answer(
    cluster: Cluster, nannies: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    cluster.stop(nannies[0])
    try:
        done = doctor(tmp_path, cluster.address)
    finally:
        cluster.stop(nannies[0], signal.SIGCONT)
    assert done.code == 2, done.out
    assert re.search(r"unused +like-us +1 step at once +no answer after 2 s", done.out)
    able = r"partly +other-ptxas +1 step at once +cpython-\d+ +[\d.]+ ms +rocdl, spirv, cpu"
    assert re.search(able, done.out), done.out
    assert "differ from here: ptxas" in done.out
    assert "no worker runs steps for nvvm: such steps run on this machine" in done.out


WITH_A_PASSWORD = "contains a user name or a password: Dask has neither"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("doctor", "--remote"), "no cluster is named"),
        (("doctor", "--remote", "--executor", "dask:tcp://192.0.2.1:1"), "is not encrypted"),
        (("worker",), "name either the ADDRESS of a scheduler or its --scheduler-file"),
        (("worker", "tcp://192.0.2.1:1"), "is not encrypted"),
        (("worker", "tls://h:1", "--memory", "much"), "'much'"),
        (("doctor", "--remote", "--executor", "dask:tls://me:s3cret@host:8786"), WITH_A_PASSWORD),
        (("build", "--executor", "dask:tls://me:s3cret@host:8786"), WITH_A_PASSWORD),
        (("worker", "tls://me:s3cret@host:8786"), WITH_A_PASSWORD),
    ],
)
def test_usage(arguments: tuple[str, ...], text: str, tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(
        "version: 1\ntargets: {cpu: {}}\nprograms: {p: {sources: [p.mlir]}}\n"
    )
    (tmp_path / "p.mlir").write_text("")
    done = gpubuild(*arguments, cwd=tmp_path)
    assert done.code == 2
    assert text in done.err
    assert "s3cret" not in done.out + done.err


def test_doctor_without_a_scheduler(tmp_path: Path) -> None:
    done = doctor(tmp_path, "tcp://127.0.0.1:1", "--json")
    assert done.code == 2
    assert "no Dask scheduler answers at tcp://127.0.0.1:1" in done.document["remote"]["problem"]


def test_a_signal_ends_a_worker_cleanly(cluster: Cluster, nannies: list[subprocess.Popen[bytes]]) -> None:
    for nanny, number in zip(nannies, (signal.SIGINT, signal.SIGTERM), strict=True):
        nanny.send_signal(number)
        assert nanny.wait(PATIENCE) == 0
    cluster.scheduler.kill()
    wait_until(lambda: not cluster.processes("dask_worker") and not cluster.processes("agent"))


def certificates(folder: Path) -> dict[str, str]:
    """Run the recipe of docs/how-to/cluster.md, and return the variables that it names."""
    page = (ROOT / "docs" / "how-to" / "cluster.md").read_text()
    recipe, variables = re.findall(r"```sh\n(openssl .*?|export DASK.*?)```", page, re.DOTALL)
    subprocess.run(["bash", "-euc", recipe], cwd=folder, check=True, capture_output=True)
    script = f"{variables}\nenv -0"
    listed = subprocess.run(["bash", "-euc", script], cwd=folder, check=True, capture_output=True).stdout
    found = dict(line.split("=", 1) for line in listed.decode().split("\0") if line.startswith("DASK_"))
    return {name: value.replace("/shared/tls", str(folder)) for name, value in found.items()}


def test_certificates_of_the_recipe(tmp_path: Path) -> None:
    """Workers and clients with the certificates are let in, others are not."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    variables = certificates(tmp_path)
    with Cluster(tmp_path / "cluster", **variables) as made:
        assert made.address.startswith("tls://")
        made.start_worker("w1")
        made.wait_for_workers(1)
        done = doctor(tmp_path, made.address, "--json", **variables)
        assert done.code == 0, done.out
        assert [row["name"] for row in done.document["remote"]["workers"]] == ["w1"]
        outsider = doctor(tmp_path, made.address, "--json")
        assert outsider.code == 2
        assert "needs certificates" in outsider.document["remote"]["problem"]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1",
             "-subj", "/CN=stranger", "-out", tmp_path / "strange.pem",
             "-keyout", tmp_path / "strange-key.pem"],
            check=True, capture_output=True,
        )  # fmt: skip
        stranger = {
            name: str(tmp_path / ("strange-key.pem" if name.endswith("KEY") else "strange.pem"))
            for name in variables
            if name.endswith(("__CERT", "__KEY"))
        }
        refused = doctor(tmp_path, made.address, "--json", **(variables | stranger))
        assert refused.code == 2
        assert "no Dask scheduler answers" in refused.document["remote"]["problem"]


def test_the_worker_command_without_dask(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "import importlib.util as u; find = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'distributed' else find(n, *a)\n"
        "from gpubuild.cli.main import main\nsys.exit(main(['worker', 'tls://h:1']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert 'pip install "distributed>=2026.8"' in done.stderr
