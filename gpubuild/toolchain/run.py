"""Run external tools: closed environment, no stdin, bounded output, killed with this process.

``Foreground`` runs the user's program beside this process on the same terminal; ``collect_later``
starts a process that outlives this one.

A process that no other supervises lets the kernel kill its tools: each tool requests that between
fork and exec. Such a fork copies the page tables of a process that has loaded LLVM, and later every
page that either of the two writes: 5 to 8 ms per tool.

The process of a job avoids this. It leads a process group, which its parent kills when the job
ends. If the parent dies, the kernel signals the job: with SIGKILL while it computes, when it may not
handle signals, and with a signal that ends the whole group while it waits for a tool.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import select
import shlex
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from gpubuild.errors import NoRoomError, StepError, ToolNotFoundError, UsageError
from gpubuild.settings import NO_USER_CACHE, Settings, closed_environment, python_command
from gpubuild.support.files import why_full
from gpubuild.support.fork import interrupts_blocked
from gpubuild.support.frozen import frozen

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_PARENT_DIED = signal.SIGUSR1
_leaders: set[int] = set()  # this process, once it has called supervised_from_now


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel to send this process a signal when the thread that forked it ends."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)


def supervised_from_now() -> None:
    """Note that this process leads a group that its parent will kill. For the main thread."""
    signal.signal(_PARENT_DIED, _end_group)
    die_with_parent()
    _leaders.add(os.getpid())


def is_supervised() -> bool:
    """Whether another process kills the children of this one. False in its forks."""
    return os.getpid() in _leaders


@contextmanager
def group_dies_with_parent() -> Iterator[None]:
    """End the whole group if the parent dies while a supervised process waits for a tool."""
    die_with_parent(_PARENT_DIED)
    try:
        yield
    finally:
        die_with_parent()


def _end_group(_number: int, _frame: FrameType | None) -> None:
    os.killpg(0, signal.SIGKILL)


MAX_OUTPUT_BYTES = 64 << 20  # of stdout or stderr; a tool that prints more is stuck in a loop
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded")  # tools run in the C locale
_MAX_LINES = 5
_WATCH_SECONDS = 0.25  # how often a running tool's output and deadline are looked at


@frozen
class ToolRun:
    """How a tool ended. A negative ``returncode`` is minus the number of the signal that killed it."""

    command: tuple[str, ...]
    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def output(self) -> str:
        """Its output for people: stderr, or stdout if that is empty."""
        return (self.stderr if self.stderr.strip() else self.stdout).decode(errors="replace")

    def check(self, what: str) -> None:
        """Raise ``StepError`` unless the tool succeeded. ``what`` is such as ``assembling k.ptx``."""
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

    ``environment`` is added to :func:`gpubuild.settings.closed_environment`. The child stays in the
    caller's process group and ends with the calling thread (see the module). It and its descendants
    are killed at the time-out (``None`` or 0: none), on too much output, and when this call is
    interrupted.

    Raises ``ToolNotFoundError`` when the executable vanished or cannot be executed, ``StepError``
    on a time-out or more than ``MAX_OUTPUT_BYTES`` of output. For a non-zero exit see
    :meth:`ToolRun.check`.
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
        _refuse_no_room(run, cwd)
        return run
    finally:
        for descriptor in files:
            os.close(descriptor)


def _refuse_no_room(run: ToolRun, cwd: Path) -> None:
    """Raise if a tool failed because of a full disk: the caller would blame its input.

    Not every tool reports it: ptxas gives no reason, and ld.lld, which maps its output, dies of a signal.
    """
    if run.returncode == 0:
        return
    lines = run.output.splitlines()
    reasons = [line for line in lines if _NO_ROOM.search(line)]
    if reasons or why_full(cwd):
        if not lines and run.returncode < 0:
            lines = [f"killed by {_signal_name(-run.returncode)}"]
        raise NoRoomError(
            f"{Path(run.command[0]).name} could not write: there is no room",
            output="\n".join((reasons or lines)[:_MAX_LINES]),
            hint="free some space, in the build folder or in /tmp, or choose another folder with --build-dir",
        )


def _start(
    argv: tuple[str, ...], cwd: Path, environment: dict[str, str], files: list[int]
) -> subprocess.Popen[bytes]:
    if not Path(argv[0]).is_absolute():
        raise ToolNotFoundError(f"{argv[0]} is not an absolute path; tools are never looked up in PATH")
    # Without a function to run in the child, the tool shares our memory until exec (vfork).
    start = subprocess.Popen if is_supervised() else _start_with_death_signal
    try:
        return start(
            argv,
            executable=argv[0],
            cwd=cwd,
            env=environment,
            stdin=files[0],
            stdout=files[1],
            stderr=files[2],
        )
    except (OSError, subprocess.SubprocessError) as error:
        if not cwd.is_dir():
            raise StepError(f"cannot run {argv[0]}: the folder {cwd} is gone") from error
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolNotFoundError(
            f"cannot run {argv[0]}: {reason}",
            hint="it was there when tools were looked for; run `gpubuild doctor` to look again",
        ) from error


def _start_with_death_signal(argv: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:  # noqa: ANN401 - Popen's
    """Start a program that the kernel kills when this process ends."""
    parent = os.getpid()

    def before_exec() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        die_with_parent()
        if os.getppid() != parent:  # it died between fork and prctl
            os._exit(127)

    with interrupts_blocked() as mask:
        # These are two system calls, and take no locks.
        return subprocess.Popen(argv, preexec_fn=before_exec, **options)  # noqa: PLW1509


def _wait(
    process: subprocess.Popen[bytes],
    argv: tuple[str, ...],
    outputs: list[int],
    start: float,
    timeout_seconds: float | None,
) -> None:
    name = Path(argv[0]).name
    deadline = math.inf if timeout_seconds is None else start + timeout_seconds
    with _exit_of(process) as exited_within:
        while not exited_within(max(0.0, min(_WATCH_SECONDS, deadline - time.monotonic()))):
            if time.monotonic() >= deadline:
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


@contextmanager
def _exit_of(process: subprocess.Popen[bytes]) -> Iterator[Callable[[float], bool]]:
    """Yield a function that waits for a child, at most some seconds: whether it has ended."""

    def poll_process(seconds: float) -> bool:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    try:
        pidfd = os.pidfd_open(process.pid)
    except OSError:  # a sandbox without the call
        yield poll_process  # wakes up often
        return
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        yield lambda seconds: bool(poll.poll(seconds * 1000)) and process.wait() is not None
    finally:
        os.close(pidfd)


def _kill_tree(pid: int) -> None:
    """Kill a process and its descendants (a compiler driver's own children), parents first."""
    _kill([pid, *_descendants(pid)])


def kill_children() -> None:
    """Kill all descendants of this process, for an interrupt while other threads wait for tools."""
    _kill(_descendants(os.getpid()))


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    """Return the descendants of a process, parents first."""
    pids = [pid]
    for parent in pids:
        with suppress(OSError):  # it has ended
            for thread in Path(f"/proc/{parent}/task").iterdir():
                pids.extend(map(int, (thread / "children").read_text(encoding="utf-8").split()))
    return pids[1:]


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
    """A running program in our process group, with our streams, so that Ctrl-C reaches both.

    The kernel kills it when this process ends. Raises ``UsageError`` when it cannot be started.
    """

    def __init__(self, executable: Path, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = _start_with_death_signal([executable, *arguments], env=dict(environment))
        except (OSError, subprocess.SubprocessError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise UsageError(f"cannot run {executable}: {reason}") from error

    def ended(self) -> int | None:
        """Return its exit code, minus a signal's number if one killed it; ``None`` while it runs."""
        return self._process.poll()

    def stop(self) -> None:
        """Send SIGTERM, then SIGKILL. Harmless when it has ended."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self._process.poll() is not None:
                return
            with suppress(ProcessLookupError):
                self._process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)


def collect_later(directory: Path, size_bytes: int) -> None:
    """Start garbage collection of the cache ``directory`` in another session: a user waits for the build."""
    gc = ("cache", "gc", "--background", "--cache-dir", str(directory), "--max-size", str(size_bytes))
    with suppress(OSError):
        process = subprocess.Popen(
            (*python_command(), *gc),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=closed_environment(),
            cwd="/",
            start_new_session=True,
        )
        process.returncode = 0  # init reaps it when this process has ended


def zig_environment(command: Sequence[str]) -> dict[str, str]:
    """Return variables to add when ``command`` starts zig, which has no HOME in a closed environment.

    zig's cache has its own build of crt files and compiler-rt, seconds of work, so it is the user's
    and outlives a build. Empty for any other tool.
    """
    if Path(command[0]).name != "zig":
        return {}
    cache = str(_zig_cache(Settings.from_environ().user_cache))
    return {"ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}


def _zig_cache(user_cache: Path) -> Path:
    """Create and return the cache folder: in ``user_cache``, else per user in /tmp.

    Raises ``ToolNotFoundError`` when neither is writable.
    """
    fallback = Path("/tmp") / f"gpubuild-{os.getuid()}"  # noqa: S108 - ownership is checked
    for base in (user_cache, fallback):
        if base == NO_USER_CACHE:
            continue
        folder = base / "zig"
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # In a shared /tmp another user may have made the folder first, to plant objects in it.
            entry = base.lstat() if base is fallback else None
        except OSError:
            continue
        if entry and (entry.st_uid != os.getuid() or not stat.S_ISDIR(entry.st_mode)):
            continue
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    raise ToolNotFoundError(
        f"zig has no folder for its cache: neither {user_cache} nor {fallback} is writable by this user",
        hint="set XDG_CACHE_HOME to a writable folder",
    )
