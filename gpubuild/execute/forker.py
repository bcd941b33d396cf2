"""Forker: a small single-threaded process that forks one process per job.

It stands between the build and its jobs for three reasons. A fork is safe only in a process without
threads and without an MLIR context, which the build cannot promise. It loads MLIR once, so that jobs
need not. And it outlives a killed build by the moment it takes to kill what that build started.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import resource
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gpubuild.execute.child import Channel, JobEnded, JobStarted, RunJob, run_child
from gpubuild.model.job import Job, JobResult
from gpubuild.support.frozen import frozen

_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_POLL_SECONDS = 1.0  # how often to look whether the parent is still there, besides end of stream


class _Running:
    """A job's process. ``pipe`` carries its answer, ``deadline`` is a ``time.monotonic()`` or infinite."""

    def __init__(self, *, number: int, pid: int, pipe: int, deadline: float) -> None:
        self.number = number
        self.pid = pid
        self.pipe = pipe
        self.deadline = deadline
        self.answer = bytearray()
        self.timed_out = False


@frozen
class Preload:
    """``load`` imports a part of the engine into the forker, before the first job that needs it.

    ``part_for`` returns its name, or an empty string.
    """

    load: Callable[[str], None]
    part_for: Callable[[Job], str]


def run_forker(channel: Channel, workers: int, run: Callable[[Job], JobResult], preload: Preload) -> NoReturn:
    """Serve ``channel`` until its end, then kill every descendant and exit. Runs right after a fork."""
    status = 1
    try:
        parent = os.getppid()
        _detach(channel)
        Forker(channel, workers, run, preload, parent).serve()
        status = 0
    finally:
        os._exit(status)


class Forker:
    """Queues jobs, runs at most ``workers`` of them, reports how each ended."""

    def __init__(
        self,
        channel: Channel,
        workers: int,
        run: Callable[[Job], JobResult],
        preload: Preload,
        parent: int,
    ) -> None:
        self._channel = channel
        self._workers = workers
        self._run = run
        self._preload = preload
        self._loaded = {""}
        self._parent = parent
        self._queue: deque[RunJob] = deque()
        self._running: dict[int, _Running] = {}  # by the read end of the pipe
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._poll.register(self._wake_read, select.POLLIN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Work until the channel ends or the parent is gone; then leave no descendant."""
        try:
            while os.getppid() == self._parent and self._handle_events():
                pass
        except OSError:
            pass  # the parent is gone
        finally:
            self._kill_everything()

    def _handle_events(self) -> bool:
        """Wait for events and handle them; false at the end of the channel."""
        for handle, _events in self._poll.poll(self._patience() * 1000):
            if handle == self._channel.fileno():
                try:
                    message = self._channel.receive()
                except EOFError:
                    return False
                assert isinstance(message, RunJob)  # noqa: S101 - the executor sends nothing else
                self._queue.append(message)
            elif handle == self._wake_read:
                os.read(self._wake_read, 4096)
            elif handle in self._running:
                self._drain(self._running[handle])
        self._stop_late_jobs()
        # There are few, so all are checked.
        for running in list(self._running.values()):
            if os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None:
                self._conclude(running)
        while self._queue and len(self._running) < self._workers:
            self._start(self._queue.popleft())
        return True

    def _patience(self) -> float:
        soonest = min((r.deadline for r in self._running.values()), default=float("inf"))
        return max(0.0, min(_POLL_SECONDS, soonest - time.monotonic()))

    def _start(self, message: RunJob) -> None:
        if (part := self._preload.part_for(message.job)) not in self._loaded:
            self._loaded.add(part)
            _attempt(lambda: self._preload.load(part))
            gc.collect()
            gc.freeze()  # children then share these pages instead of copying them
        read, write = os.pipe()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(read)
            os.close(write)
            self._channel.send(
                JobEnded(
                    number=message.number, answer=b"", exit_code=1, fork_error=error.strerror or "fork failed"
                )
            )
            return
        if pid == 0:
            self._channel.close()
            for handle in (read, self._wake_read, self._wake_write, *self._running):
                os.close(handle)
            run_child(message.job, self._run, write, os.getppid())
        os.close(write)
        os.set_blocking(read, False)
        _attempt(lambda: os.setpgid(pid, pid))  # the child does so, too
        limit = message.job.timeout_seconds
        self._running[read] = _Running(
            number=message.number,
            pid=pid,
            pipe=read,
            deadline=time.monotonic() + limit if limit > 0 else float("inf"),
        )
        self._poll.register(read, select.POLLIN)
        self._channel.send(JobStarted(number=message.number, pid=pid))

    def _drain(self, running: _Running) -> None:
        """Read the answer so far, without waiting."""
        try:
            while part := os.read(running.pipe, 1 << 20):
                running.answer += part
        except BlockingIOError:
            return
        # End of stream stays readable for ever; SIGCHLD reports the job's death.
        _attempt(lambda: self._poll.unregister(running.pipe))

    def _stop_late_jobs(self) -> None:
        now = time.monotonic()
        for running in self._running.values():
            if running.deadline <= now:
                running.timed_out = True
                running.deadline = float("inf")
                _kill_group(running.pid)

    def _conclude(self, running: _Running) -> None:
        """End the group of a dead leader, then reap it: until then no other process has its number."""
        self._drain(running)
        _kill_group(running.pid)
        _pid, status = os.waitpid(running.pid, 0)
        _reap(-running.pid)
        _attempt(lambda: self._poll.unregister(running.pipe))
        os.close(running.pipe)
        del self._running[running.pipe]
        self._channel.send(
            JobEnded(
                number=running.number,
                answer=bytes(running.answer),
                exit_code=os.waitstatus_to_exitcode(status),
                timed_out=running.timed_out,
            )
        )

    def _kill_everything(self) -> None:
        for running in self._running.values():
            _kill_group(running.pid)
        # Descendants that left their group became our children when their parents died.
        while children := _children():
            for pid in children:
                _attempt(lambda pid=pid: os.kill(pid, signal.SIGKILL))  # type: ignore[misc]
            _attempt(lambda: os.waitpid(-1, 0))
        _reap(-1)


def _detach(channel: Channel) -> None:
    """Close the parent's files, and leave its terminal and working directory."""
    os.setpgid(0, 0)  # the parent handles the terminal's signals
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir("/")
    os.umask(0o022)
    gc.disable()
    gc.freeze()  # so that no finaliser of the parent's objects closes a descriptor of ours
    faulthandler.disable()
    null = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(null, handle)
    sys.stdin = None  # as Python does without a terminal
    for handle in [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]:
        if handle > 2 and handle != channel.fileno():
            _attempt(lambda handle=handle: os.close(handle))  # type: ignore[misc]


def _attempt(action: Callable[[], object]) -> None:
    """Do what may fail because another process was faster, or fails again with a better message."""
    try:
        action()
    except Exception:
        return


def _kill_group(pid: int) -> None:
    _attempt(lambda: os.killpg(pid, signal.SIGKILL))


def _reap(which: int) -> None:
    """Wait for every child that ``which`` (see waitpid) describes; all were killed."""
    while True:
        try:
            os.waitpid(which, 0)
        except OSError:
            return


def _children() -> list[int]:
    try:
        return [
            int(pid)
            for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
        ]
    except (OSError, ValueError):
        return []
