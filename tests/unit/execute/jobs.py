"""Jobs that misbehave, by name: a job's ``step_id`` says what its process does."""

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.execute.channel import Channel
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import OutlineParams, StepKind
from gpubuild.toolchain.run import run_tool


def make_job(workdir: Path, what: str, *, timeout_seconds: float = 0.0) -> Job:
    workdir.mkdir(parents=True, exist_ok=True)
    return Job(
        step_id=what,
        kind=StepKind.OUTLINE,
        params=OutlineParams(source_name=what),
        inputs=(),
        output_names=(),
        tools={},
        workdir=workdir,
        timeout_seconds=timeout_seconds,
    )


def run(job: Job) -> JobResult:
    """What workers call in these tests, instead of the engine."""
    io = StepIO(job)
    with io.stage(f"stage of {job.step_id}"):
        WHAT[job.step_id](job, io)
    return io.finish()


def fill_the_disk(job: Job, io: StepIO) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", "/somewhere")


def recurse(job: Job, io: StepIO) -> None:
    recurse(job, io)


def nothing(part: str) -> None:
    """A preload for jobs that need no engine."""


def say(text: str) -> None:
    os.write(2, text.encode())


def describe(job: Job, io: StepIO) -> None:
    print("printed")
    say("written")
    io.write("cwd", str(Path.cwd()))
    io.write("umask", oct(os.umask(0o022)))
    io.write("stdin", os.read(0, 10))
    io.write("fds", " ".join(entry.name for entry in Path("/proc/self/fd").iterdir()))
    io.write("pids", f"{os.getpid()} {os.getpgid(0)} {os.getppid()}")


def llvm_abort(job: Job, io: StepIO) -> None:
    say("warning: something before\n")
    say("LLVM ERROR: Cannot select: 0x55d0c0ffee00: f32 = fsin 0x55d0c0ffee10\n")
    say("PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/\nStack dump:\n")
    say("0.\tProgram arguments: python\n #0 0x00007f0000000000 llvm::sys::PrintStackTrace\n")
    os.abort()


def sleep_in_c(job: Job, io: StepIO) -> None:
    ctypes.PyDLL(None).sleep(600)  # holds the GIL: no Python code of the process runs any more


def unpicklable(job: Job, io: StepIO) -> None:
    raise Stubborn("stubborn")


class Stubborn(StepError):
    """Pickles, and does not unpickle."""

    def __reduce__(self):
        return (int, ("not a number",))


def big_answer(job: Job, io: StepIO) -> None:
    for n in range(2000):
        io.warn(f"{n} " + "x" * 2000)


def die_while_answering(job: Job, io: StepIO) -> None:
    """Kill this process when part of its answer is in the channel."""
    real = Channel.send_bytes

    def send(channel: Channel, data: bytes) -> None:
        real(channel, data[:100_000])
        os.kill(os.getpid(), signal.SIGKILL)

    Channel.send_bytes = send
    big_answer(job, io)


def tool(job: Job) -> list[str]:
    """A tool with children of its own: in its group, in the background, and in another session."""
    sleeper = str(job.workdir.parent / "sleeper")
    return ["/bin/sh", "-c", f"{sleeper} 600 & setsid {sleeper} 600 & echo $$ > started; {sleeper} 600"]


def run_tool_tree(job: Job, io: StepIO) -> None:
    subprocess.run(tool(job), cwd=job.workdir, check=False)


def run_tool_as_the_engine_does(job: Job, io: StepIO) -> None:
    sleeper = str(job.workdir.parent / "sleeper")
    command = f"{sleeper} 600 & echo $$ > started; {sleeper} 600"
    run_tool(("/bin/sh", "-c", command), cwd=job.workdir)


def leave_a_tool_behind(job: Job, io: StepIO) -> None:
    subprocess.Popen(tool(job), cwd=job.workdir)
    wait_for(job.workdir / "started")


def wait_for(path: Path) -> None:
    while not path.exists() or not path.read_text():
        time.sleep(0.005)


WHAT: dict[str, Callable[[Job, StepIO], object]] = {
    "describe": describe,
    "quick": lambda job, io: io.write("out", b"quick"),
    "slow": lambda job, io: (time.sleep(0.4), io.write("out", b"slow")),
    "hold": lambda job, io: (io.write("out", b""), wait_for(job.workdir / "go")),
    "fail": lambda job, io: (_ for _ in ()).throw(StepError("no", hint="hint", output="output")),
    "fill the disk": fill_the_disk,
    "recurse": recurse,
    "exit": lambda job, io: sys.exit(0),
    "exit 0 at once": lambda job, io: os._exit(0),
    "exit 7 at once": lambda job, io: os._exit(7),
    "segfault": lambda job, io: os.kill(os.getpid(), signal.SIGSEGV),
    "null pointer": lambda job, io: ctypes.string_at(0),
    "abort": llvm_abort,
    "killed": lambda job, io: os.kill(os.getpid(), signal.SIGKILL),
    "sleep": lambda job, io: time.sleep(600),
    "sleep in C": sleep_in_c,
    "ignore SIGTERM": lambda job, io: (signal.signal(signal.SIGTERM, signal.SIG_IGN), time.sleep(600)),
    "unpicklable": unpicklable,
    "big answer": big_answer,
    "die while answering": die_while_answering,
    "tool": run_tool_tree,
    "tool of the engine": run_tool_as_the_engine_does,
    "leave a tool": leave_a_tool_behind,
}
