"""Run external tools: closed environment, no stdin, bounded output, killed with this process.

``Foreground`` runs the user's program beside us on the same terminal; ``start_detached`` starts
something of ours that outlives this process.

Supervision: what ends a tool when the process that runs it is killed.

An unwatched process has the kernel end the tool: each tool asks for that between fork and
exec. Such a fork copies the page tables of a process that has loaded LLVM, and after it every page
that either of the two writes: 5 to 8 ms per tool.

The process of a job leads a process group, which its parent kills when the job ends, in whatever
way. What is left is the death of that parent, of which the kernel can tell the job: with SIGKILL
while it computes, when it may be deaf to anything else, and with a signal that it passes on to its
group while it waits for a tool.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from gpubuild.errors import NoRoomError, StepError, ToolNotFoundError, UsageError
from gpubuild.settings import closed_environment, python_command
from gpubuild.toolchain.zig import zig_environment

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_TOLD = signal.SIGUSR1  # the parent has died
_leaders: set[int] = set()  # this process, once it has called supervised_from_now


def die_with_parent(told_by: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the thread that forked it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, told_by, 0, 0, 0)


def supervised_from_now() -> None:
    """Called by the leader of a process group that its parent will kill; main thread only."""
    signal.signal(_TOLD, _end_group)
    die_with_parent()
    _leaders.add(os.getpid())


def is_supervised() -> bool:
    """Whether another process ends what this process starts. False in its forks."""
    return os.getpid() in _leaders


@contextmanager
def group_dies_with_parent() -> Iterator[None]:
    """While a supervised process waits for a tool: its parent's death ends the whole group."""
    die_with_parent(_TOLD)
    try:
        yield
    finally:
        die_with_parent()


def _end_group(_number: int, _frame: FrameType | None) -> None:
    os.killpg(0, signal.SIGKILL)


MAX_OUTPUT_BYTES = 64 << 20  # of stdout or stderr; a tool that prints more is stuck in a loop
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")  # tools run in the C locale
_MAX_TOLD = 5
_WATCH_SECONDS = 0.25  # how often a running tool's output and deadline are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """How a tool ended. ``returncode`` is negative, minus the signal's number, when one killed it."""

    command: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def output(self) -> str:
        """What it printed, for people: stderr, or stdout when it kept silent there."""
        return (self.stderr if self.stderr.strip() else self.stdout).decode(errors="replace")

    def check(self, what: str) -> None:
        """Raise ``StepError`` unless the tool succeeded. ``what`` was tried: ``assembling k.ptx``."""
        if self.returncode == 0:
            return
        name = Path(self.command[0]).name
        if self.returncode < 0:
            raise StepError(
                f"{what} failed: {name} was killed by {_signal_name(-self.returncode)}",
                output=self.output,
                hint=f"the command was: {shlex.join(self.command)}",
            )
        raise StepError(f"{what} failed: {name} exited with {self.returncode}", output=self.output)


def run_tool(
    command: Sequence[str | Path],
    *,
    cwd: Path,
    stdin: bytes = b"",
    timeout_seconds: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> ToolRun:
    """Run ``command`` (an absolute path and its arguments, never a shell line) and wait for it.

    ``environment`` is added to :func:`gpubuild.settings.closed_environment`. The child stays in
    the caller's process group, so that whoever made the caller a group leader can end both; it ends
    when the calling thread does (see :mod:`gpubuild.toolchain.run`). It and its descendants
    are killed at the time-out (``None`` or 0: none), on too much output, and when this call is
    interrupted.

    Raises ``ToolNotFoundError`` when the executable vanished or cannot be executed, ``StepError``
    on a time-out or more than ``MAX_OUTPUT_BYTES`` of output. A non-zero exit raises nothing here:
    see :meth:`ToolRun.check`.
    """
    argv = tuple(str(part) for part in command)
    extra = {**zig_environment(argv), **(environment or {})}
    # Memory files instead of pipes: no reader threads, and a grandchild that outlives the tool
    # cannot keep us waiting for the end of a pipe.
    files = [os.memfd_create(name) for name in ("stdin", "stdout", "stderr")]
    try:
        _write_all(files[0], stdin)
        start = time.monotonic()
        with group_dies_with_parent() if is_supervised() else nullcontext():
            process = _start(argv, cwd, closed_environment(extra), files)
            try:
                _wait(process, argv, files[1:], start, timeout_seconds or None)
            except BaseException:
                _kill_tree(process.pid)
                process.wait()
                raise
        seconds = time.monotonic() - start
        run = ToolRun(
            command=argv,
            returncode=process.returncode,
            stdout=_read_all(files[1]),
            stderr=_read_all(files[2]),
            seconds=seconds,
        )
        _refuse_no_room(run)
        return run
    finally:
        for descriptor in files:
            os.close(descriptor)


def _refuse_no_room(run: ToolRun) -> None:
    """Raise where a tool failed over a full disk, which its caller would take for a fault of its input."""
    told = [line for line in run.output.splitlines() if _NO_ROOM.search(line)] if run.returncode else []
    if told:
        raise NoRoomError(
            f"{Path(run.command[0]).name} could not write: there is no room",
            output="\n".join(told[:_MAX_TOLD]),
            hint="free some space, in the build folder or in /tmp, or choose another folder with --build-dir",
        )


def _start(
    argv: tuple[str, ...], cwd: Path, environment: dict[str, str], files: list[int]
) -> subprocess.Popen[bytes]:
    if not Path(argv[0]).is_absolute():
        raise ToolNotFoundError(f"{argv[0]} is not an absolute path; tools are never looked up in PATH")
    try:
        return subprocess.Popen(
            argv,
            executable=argv[0],
            cwd=cwd,
            env=environment,
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
            # Without a function to run in the child, Python has the tool share our memory until exec.
            preexec_fn=None if is_supervised() else _die_with(os.getpid()),  # noqa: PLW1509 - one prctl call
        )
    except (OSError, subprocess.SubprocessError) as error:
        if not cwd.is_dir():
            raise StepError(f"cannot run {argv[0]}: the folder {cwd} is gone") from error
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolNotFoundError(
            f"cannot run {argv[0]}: {reason}",
            hint="it was there when tools were looked for; run `gpubuild doctor` to look again",
        ) from error


def _die_with(parent: int) -> Callable[[], None]:
    def before_exec() -> None:
        die_with_parent()
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(127)

    return before_exec


def _wait(
    process: subprocess.Popen[bytes],
    argv: tuple[str, ...],
    outputs: list[int],
    start: float,
    timeout_seconds: float | None,
) -> None:
    name = Path(argv[0]).name
    with _Exit(process) as exited:
        while not exited.within(_WATCH_SECONDS, start, timeout_seconds):
            if timeout_seconds is not None and time.monotonic() - start >= timeout_seconds:
                raise StepError(
                    f"{name} was stopped after {timeout_seconds:g} s",
                    output=_read_all(outputs[1])[-4096:].decode(errors="replace"),
                    hint=f"the command was: {shlex.join(argv)}",
                )
            if any(os.fstat(descriptor).st_size > MAX_OUTPUT_BYTES for descriptor in outputs):
                raise StepError(
                    f"{name} was stopped: it printed more than {MAX_OUTPUT_BYTES >> 20} MiB",
                    hint=f"the command was: {shlex.join(argv)}",
                )


class _Exit:
    """Waits for a child with a deadline, through a pidfd where the kernel has them."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._poll = select.poll()
        try:
            self._pidfd = os.pidfd_open(process.pid)
        except OSError:  # an old kernel, or a sandbox without the call
            self._pidfd = -1
        else:
            self._poll.register(self._pidfd, select.POLLIN)

    def __enter__(self) -> _Exit:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)

    def within(self, seconds: float, start: float, timeout_seconds: float | None) -> bool:
        """Whether the child ended within ``seconds``, or before the time-out if that is sooner."""
        if timeout_seconds is not None:
            seconds = max(0.0, min(seconds, start + timeout_seconds - time.monotonic()))
        if self._pidfd >= 0:
            return bool(self._poll.poll(seconds * 1000)) and self._process.wait() is not None
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True


def _kill_tree(pid: int) -> None:
    """Kill a process and its descendants (a compiler driver's own children), parents first."""
    pids = [pid]
    for parent in pids:
        try:
            children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8")
        except OSError:
            continue
        pids.extend(int(child) for child in children.split())
    for each in pids:
        try:
            os.kill(each, signal.SIGKILL)
        except OSError:
            continue


def _signal_name(number: int) -> str:
    try:
        return f"{signal.Signals(number).name} ({signal.strsignal(number)})"
    except ValueError:
        return f"signal {number}"


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)


def _read_all(descriptor: int) -> bytes:
    size = min(os.fstat(descriptor).st_size, MAX_OUTPUT_BYTES)
    # The child shares the file offset, so read by position.
    parts, at = [], 0
    while at < size and (part := os.pread(descriptor, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


_STOP_SECONDS = 3.0


class Foreground:
    """A running program. It shares our streams and our process group, so that Ctrl-C reaches both.

    The kernel kills it when we end. Raises ``UsageError`` when it cannot be started.
    """

    def __init__(self, executable: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                [executable, *arguments],
                env=dict(environment),
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - one prctl call, no locks taken
            )
        except (OSError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"cannot run {executable}: {reason}") from error

    def ended(self) -> int | None:
        """Its exit code, minus a signal's number when one killed it; ``None`` while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Ask it to end, and make it end when it does not. Harmless when it has ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)


def collect_later(directory: Path, size_bytes: int) -> None:
    """Have another process collect garbage in the cache ``directory``: a build has a user waiting."""
    gc = ("cache", "gc", "--background", "--cache-dir", str(directory), "--max-size", str(size_bytes))
    with suppress(OSError):
        start_detached((*python_command(), *gc))


def start_detached(command: Sequence[str]) -> None:
    """Start ``command`` in a session of its own, without output; it outlives us.

    Raises ``OSError`` when it cannot be started.
    """
    import subprocess  # most builds start nothing

    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=closed_environment(),
        cwd="/",
        start_new_session=True,
    )
    process.returncode = 0  # init reaps it when we are gone; no code here waits for it
