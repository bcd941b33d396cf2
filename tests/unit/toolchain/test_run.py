import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import fill

from gpubuild.errors import GpubuildError, NoRoomError, StepError, ToolNotFoundError
from gpubuild.toolchain import run as run_module
from gpubuild.toolchain.run import run_tool

SH = "/bin/sh"


def script(text: str) -> tuple[str, ...]:
    return (SH, "-c", text)


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


def eventually(condition) -> bool:
    for _ in range(6000):
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_returns_what_the_tool_printed_and_its_exit(tmp_path: Path) -> None:
    """It runs in the given folder, and without a text for it reads nothing of ours."""
    run = run_tool(script("cat; pwd >&2; exit 3"), cwd=tmp_path, stdin=b"in" * 100_000)
    assert (run.returncode, run.stdout, run.stderr) == (3, b"in" * 100_000, f"{tmp_path}\n".encode())
    assert run.command[0] == SH
    assert run.seconds > 0
    assert run_tool(("/bin/cat",), cwd=tmp_path).stdout == b""


def test_environment_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPATH", "/evil")
    run = run_tool(("/usr/bin/env",), cwd=tmp_path, environment={"SOME": "thing"})
    names = {line.split("=")[0] for line in run.stdout.decode().splitlines()}
    assert names == {"LC_ALL", "TZ", "PATH", "ZERO_AR_DATE", "SOME"}


@pytest.mark.parametrize(
    ("text", "message", "output"),
    [
        ("echo bad >&2; exit 4", "linking x failed: sh exited with 4", "bad\n"),
        ("echo only here; exit 1", "sh exited with 1", "only here\n"),  # where stderr is silent
        ("kill -SEGV $$", "killed by SIGSEGV (Segmentation fault)", ""),
    ],
)
def test_check_names_the_end_and_carries_what_was_printed(
    tmp_path: Path, text: str, message: str, output: str
) -> None:
    with pytest.raises(StepError, match=re.escape(message)) as caught:
        run_tool(script(text), cwd=tmp_path).check("linking x")
    assert caught.value.output == output
    run_tool(script("exit 0"), cwd=tmp_path).check("linking x")


def test_a_tool_on_a_full_disk(tmp_path: Path) -> None:
    told = "echo 'as: note' >&2; echo 'as: a.o: No space left on device' >&2; exit {}"
    with pytest.raises(NoRoomError, match="could not write: there is no room") as caught:
        run_tool(script(told.format(1)), cwd=tmp_path)
    assert caught.value.output == "as: a.o: No space left on device"
    assert "/tmp" in caught.value.hint
    assert run_tool(script(told.format(0)), cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("how", "said"),
    [("echo 'a.o could not be opened'; exit 255", "a.o could not be opened"),
     ("kill -BUS $$", "killed by SIGBUS (Bus error)")],
    ids=["message", "signal"],
)  # fmt: skip
def test_a_tool_that_does_not_say_that_the_disk_is_full(small_disk: Path, how: str, said: str) -> None:
    assert run_tool(script(how), cwd=small_disk).returncode
    fill(small_disk)
    with pytest.raises(NoRoomError, match="could not write: there is no room") as caught:
        run_tool(script(how), cwd=small_disk)
    assert caught.value.output == said
    assert [path.name for path in small_disk.iterdir()] == ["filling"]


@pytest.mark.parametrize(
    ("command", "folder", "error", "message"),
    [
        ("TMP/nothing", ".", ToolNotFoundError, "No such file"),
        ("TMP/tool", ".", ToolNotFoundError, "Permission denied"),  # it is not executable
        ("sh", ".", ToolNotFoundError, "never looked up in PATH"),  # even when PATH has it
        (SH, "nowhere", StepError, "folder .* is gone"),  # the tool is not blamed
    ],
)
def test_what_cannot_be_started(
    tmp_path: Path, command: str, folder: str, error: type[GpubuildError], message: str
) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(error, match=message):
        run_tool((command.replace("TMP", str(tmp_path)), "-c", "exit 0"), cwd=tmp_path / folder)


def test_timeout_kills_the_tool_and_its_children(tmp_path: Path) -> None:
    command = script("sleep 600 & echo $! > child; echo started >&2; wait")
    with pytest.raises(StepError, match=r"stopped after 0\.3 s") as caught:
        run_tool(command, cwd=tmp_path, timeout_seconds=0.3)
    assert "started" in caught.value.output
    child = int((tmp_path / "child").read_text())
    assert eventually(lambda: gone(child))


# In a process of its own: the one that runs the tests may have children of other tests.
KILLING = """
import threading, time
from pathlib import Path
from gpubuild.toolchain.run import kill_children, run_tool
command = ("/bin/sh", "-c", "sleep 600 & echo $! > child; wait")
thread = threading.Thread(target=lambda: print(run_tool(command, cwd=Path.cwd()).returncode))
thread.start()
while not Path("child").exists() or not Path("child").read_text():
    time.sleep(0.005)
kill_children()
thread.join()
"""


def test_children_of_all_threads_are_killed(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLING], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert int(done.stdout) == -signal.SIGKILL
    assert eventually(lambda: gone(int((tmp_path / "child").read_text())))


def test_endless_output_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "MAX_OUTPUT_BYTES", 1 << 20)
    with pytest.raises(StepError, match="printed more than 1 MiB"):
        run_tool(script("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done"), cwd=tmp_path)


def test_works_without_pidfd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert run_tool(script("echo ok"), cwd=tmp_path).stdout == b"ok\n"
    with pytest.raises(StepError, match="stopped after"):
        run_tool(script("sleep 600"), cwd=tmp_path, timeout_seconds=0.2)


def test_a_grandchild_that_stays_does_not_keep_us_waiting(tmp_path: Path) -> None:
    run = run_tool(script("sleep 600 & echo $!"), cwd=tmp_path)
    os.kill(int(run.stdout), signal.SIGKILL)
    assert run.returncode == 0


def test_the_tool_dies_with_its_parent(tmp_path: Path) -> None:
    code = (
        "from gpubuild.toolchain.run import run_tool; from pathlib import Path; import sys\n"
        f"run_tool(('/bin/sh', '-c', 'echo $$ > pid; exec sleep 600'), cwd=Path({str(tmp_path)!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", code])
    pid_file = tmp_path / "pid"
    assert eventually(lambda: pid_file.exists() and pid_file.read_text().strip() != "")
    parent.kill()
    parent.wait()
    pid = int(pid_file.read_text())
    assert eventually(lambda: gone(pid))


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    run_tool(script("exit 0"), cwd=tmp_path)
    with pytest.raises(ToolNotFoundError):
        run_tool((tmp_path / "nothing",), cwd=tmp_path)
    assert set(Path("/proc/self/fd").iterdir()) == before
