"""No process of a build outlives it, however the build ends."""

import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from fault.dask_cluster import PATIENCE, wait_until
from unit.execute.jobs import make_job, nothing, run, wait_for
from variants import few

from gpubuild.errors import StepCrashedError
from gpubuild.execute.local import LocalExecutor

# The whole of a build that matters here: what it does on Ctrl-C and otherwise does not do.
BUILD = """
import os, sys
from pathlib import Path
from unit.execute.jobs import make_job, nothing, run
from gpubuild.execute.local import LocalExecutor

folder = Path(sys.argv[1])
executor = LocalExecutor(2, run=run, preload=nothing)
try:
    futures = [executor.submit(make_job(folder / what, what)) for what in sys.argv[2:]]
    for future in futures:
        future.exception()
except KeyboardInterrupt:
    executor.cancel()
    left = Path("/proc/self/task", str(os.getpid()), "children").read_text()
    sys.exit(f"left after cancel: {left}" if left else 130)
sys.exit("the jobs ended")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name is on the command line of every process that a test here starts."""
    (tmp_path / "sleeper").symlink_to("/bin/sleep")
    return tmp_path


def processes(folder: Path, command: str = "") -> list[int]:
    """Processes that run ``command`` and have ``folder`` on their command line; zombies have none."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_text() if entry.name.isdigit() else ""
            if str(folder) in line and line.startswith(command):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants_of(pid: int) -> list[int]:
    direct = children_of(pid)
    return direct + [g for child in direct for g in descendants_of(child)]


def alive(folder: Path, *pids: int) -> list[int]:
    return [pid for pid in {*processes(folder), *pids} if _alive(pid)]


def assert_none_left(folder: Path, pids: list[int]) -> None:
    wait_until(lambda: not alive(folder, *pids))


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def run_build(folder: Path, *jobs: str) -> subprocess.Popen[str]:
    """A build as a shell would start it."""
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(folder), *jobs],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_build(folder: Path) -> tuple[subprocess.Popen[str], list[int]]:
    """A build with its jobs under way, and all its descendants."""
    build = run_build(folder, "tool", "sleep in C", "sleep")
    wait_for(folder / "tool" / "started")
    wait_for(folder / "sleep in C" / "stage")
    wait_until(lambda: len(processes(folder, str(folder / "sleeper"))) == 3)  # setsid has done its work too
    descendants = descendants_of(build.pid)
    assert len(descendants) == 7  # forker, two jobs, shell, three sleepers
    return build, [build.pid, *descendants]


def test_ctrl_c(folder: Path) -> None:
    build, pids = start_build(folder)
    os.killpg(build.pid, signal.SIGINT)  # what a terminal does
    stderr = build.communicate(timeout=PATIENCE)[1]
    assert build.returncode == 130, stderr
    # Not "soon": cancel promises that they are gone when it returns.
    assert alive(folder, *pids) == []
    assert stderr == ""


@pytest.mark.parametrize("group", [False, True], ids=["alone", "with its group"])
@pytest.mark.parametrize("number", few([signal.SIGKILL, signal.SIGTERM, signal.SIGHUP]), ids=lambda n: n.name)
def test_a_build_that_a_signal_kills(folder: Path, number: signal.Signals, group: bool) -> None:
    build, pids = start_build(folder)
    (os.killpg if group else os.kill)(build.pid, number)
    assert build.wait(PATIENCE) == -number
    assert_none_left(folder, pids)
    build.communicate()


def test_jobs_end_even_when_nobody_is_left_to_kill_them(folder: Path) -> None:
    build, pids = start_build(folder)
    forker, *others = descendants_of(build.pid)
    jobs = children_of(forker)
    os.kill(build.pid, signal.SIGSTOP)
    os.kill(forker, signal.SIGKILL)
    os.kill(build.pid, signal.SIGKILL)
    wait_until(lambda: not any(_alive(pid) for pid in jobs))
    for pid in others:  # tools run in a way of their own; for those of the engine see below
        if _alive(pid):
            os.kill(pid, signal.SIGKILL)
    build.communicate()
    assert_none_left(folder, pids)


def test_the_engines_tools_and_their_children_end_even_then(folder: Path) -> None:
    build = run_build(folder, "tool of the engine")
    wait_for(folder / "tool of the engine" / "started")
    wait_until(lambda: len(processes(folder, str(folder / "sleeper"))) == 2)
    forker, *others = descendants_of(build.pid)
    assert len(others) == 4  # job, shell, two sleepers
    os.kill(build.pid, signal.SIGSTOP)
    os.kill(forker, signal.SIGKILL)
    os.kill(build.pid, signal.SIGKILL)
    build.communicate()
    assert_none_left(folder, others)


def test_a_killed_forker_takes_everything_along(folder: Path) -> None:
    build, pids = start_build(folder)
    forker = children_of(build.pid)[0]
    escaped = [pid for pid in pids if os.getsid(pid) not in (os.getsid(forker), os.getsid(build.pid))]
    os.kill(forker, signal.SIGKILL)
    assert "the jobs ended" in build.communicate(timeout=PATIENCE)[1]
    for pid in escaped:  # only a living forker can follow a process into a session of its own
        os.kill(pid, signal.SIGKILL)
    assert_none_left(folder, pids)


@pytest.fixture
def executor():
    with closing(LocalExecutor(2, run=run, preload=nothing)) as made:
        yield made


@pytest.mark.parametrize(("what", "seconds"), [("tool", 0.3), ("leave a tool", 0.0)])
def test_a_tool_ends_with_its_job(executor: LocalExecutor, folder: Path, what: str, seconds: float) -> None:
    """At the time-out, or when it was left behind."""
    error = executor.submit(make_job(folder / "w", what, timeout_seconds=seconds)).exception(PATIENCE)
    assert not seconds or (isinstance(error, StepCrashedError) and "timed out" in error.message)
    assert len(alive(folder)) <= 1, "only what has left the group may still be there"
    executor.close()
    assert alive(folder) == []


def test_cancel_waits_for_the_end_of_all(executor: LocalExecutor, folder: Path) -> None:
    future = executor.submit(make_job(folder / "w", "tool"))
    wait_for(folder / "w" / "started")
    assert processes(folder)
    executor.cancel()
    assert alive(folder) == []
    assert future.done()
