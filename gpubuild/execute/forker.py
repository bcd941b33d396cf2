"""Forker: a small single-threaded process that forks the processes of jobs.

It stands between the build and its jobs for three reasons. A fork is safe only in a process without
threads and without an MLIR context, which the build cannot promise. It loads MLIR once, so that jobs
need not. And it outlives a killed build by the moment it takes to kill what that build started.

A process runs jobs, one after the other, whose part of the engine was loaded before the fork, until one
fails (``child.run_child``). A job that crashes, hangs or is killed takes its own process along and no other
job.
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
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

from gpubuild.execute.channel import Channel, ExpectJobs, JobEnded, JobStarted, RunJob, channel_pair
from gpubuild.execute.child import MOST_JOBS, run_child, split_answer
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import Params
from gpubuild.support.frozen import frozen

_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEVER = float("inf")
_POLL_SECONDS = 1.0  # how often to look whether the parent is still there, besides end of stream


class _Child:
    """A process that runs jobs of the ``loaded`` parts of the engine; without a ``number`` it is idle."""

    def __init__(self, *, pid: int, channel: Channel, loaded: frozenset[str]) -> None:
        self.pid = pid
        self.channel = channel
        self.loaded = loaded
        self.number: int | None = None  # of its job
        self.deadline = _NEVER  # time.monotonic()
        self.answer = bytearray()
        self.timed_out = False
        self.ends = False  # it takes no other job


@frozen
class Preload:
    """``load`` imports a part of the engine into the forker, before the first job that needs it.

    ``part_for`` returns its name, or an empty string. ``prepare`` makes what so many jobs of a process need.
    """

    load: Callable[[str], None]
    prepare: Callable[[int], None]
    part_for: Callable[[Params], str]


def run_forker(
    channel: Channel,
    workers: int,
    run: Callable[[Job], JobResult],
    preload: Preload,
    mask: Iterable[int],
) -> NoReturn:
    """Serve ``channel`` until its end, then kill every descendant and exit. Runs right after a fork.

    ``mask`` are the signals to block, once those of the terminal are ignored.
    """
    status = 1
    try:
        parent = os.getppid()
        _detach(channel)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
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
        self._started = 0  # jobs
        self._expected: deque[str] = deque()  # parts to load while no job can be started
        self._parent = parent
        self._queue: deque[RunJob] = deque()
        self._children: dict[int, _Child] = {}  # by the descriptor of their channel
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
                if isinstance(message, RunJob):
                    self._queue.append(message)
                elif isinstance(message, ExpectJobs):
                    self._expected.extend(map(self._preload.part_for, message.params))
            elif handle == self._wake_read:
                os.read(self._wake_read, 4096)
            elif handle in self._children:
                self._drain(self._children[handle])
        self._stop_late_jobs()
        # There are few, so all are checked.
        for child in list(self._children.values()):
            if _is_dead(child):
                self._conclude(child)
            elif child.number is not None and not child.ends:
                self._take_answer(child)
        while self._queue and sum(c.number is not None for c in self._children.values()) < self._workers:
            self._start(self._queue.popleft())
        if self._expected:
            self._load(self._expected.popleft())
        return True

    def _patience(self) -> float:
        if self._expected:
            return 0.0
        soonest = min((child.deadline for child in self._children.values()), default=_NEVER)
        return max(0.0, min(_POLL_SECONDS, soonest - time.monotonic()))

    def _start(self, message: RunJob) -> None:
        part = self._preload.part_for(message.job.params)
        self._load(part)
        idle = [child for child in self._children.values() if child.number is None and not child.ends]
        able = [child for child in idle if part in child.loaded and not _is_dead(child)]
        child = max(able, key=lambda child: len(child.loaded), default=None)  # what it lacks, it loads alone
        if child is None:
            if len(idle) >= self._workers:
                self._end(idle[0])
            try:
                child = self._fork()
            except OSError as error:
                reason = error.strerror or "fork failed"
                ended = JobEnded(number=message.number, answer=b"", exit_code=1, fork_error=reason)
                self._channel.send(ended)
                return
        child.number = message.number
        self._started += 1
        limit = message.job.timeout_seconds
        child.deadline = time.monotonic() + limit if limit > 0 else _NEVER
        self._channel.send(JobStarted(number=message.number, pid=child.pid))
        _attempt(lambda: child.channel.send(message.job))  # if it is dead, that is noticed next

    def _load(self, part: str) -> None:
        if part not in self._loaded:
            self._loaded.add(part)
            _attempt(lambda: self._preload.load(part))
            gc.freeze()  # children then share these pages; a collection first takes 5 ms and finds little

    def _fork(self) -> _Child:
        """Return a new process. Raises ``OSError``."""
        # As many as were started will probably follow.
        _attempt(lambda: self._preload.prepare(min(self._started + 1, MOST_JOBS)))
        ours, theirs = channel_pair()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            for channel in (self._channel, ours, *(child.channel for child in self._children.values())):
                channel.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            run_child(theirs, self._run, os.getppid())
        theirs.close()
        _attempt(lambda: os.setpgid(pid, pid))  # the child does so, too
        # Parts are named by modules, and one may have imported others.
        child = _Child(pid=pid, channel=ours, loaded=frozenset(self._loaded | sys.modules.keys()))
        self._children[ours.fileno()] = child
        self._poll.register(ours.fileno(), select.POLLIN)
        return child

    def _drain(self, child: _Child) -> None:
        """Read the answer so far, without waiting."""
        try:
            while data := child.channel.read_available():
                child.answer += data
        except BlockingIOError:
            return
        except OSError:
            pass
        # End of stream stays readable for ever; SIGCHLD reports the process's death.
        _attempt(lambda: self._poll.unregister(child.channel.fileno()))

    def _take_answer(self, child: _Child) -> None:
        """Report the job of ``child`` if its answer is complete and nothing that it started is left."""
        found = split_answer(child.answer)
        if found is None:
            return
        more, answer = found
        if not more or _strays(child.pid):
            self._end(child)
            return
        number, child.number = child.number, None
        child.deadline = _NEVER
        child.answer.clear()
        assert number is not None  # noqa: S101 - the caller looked
        self._channel.send(JobEnded(number=number, answer=answer, exit_code=0))

    def _end(self, child: _Child) -> None:
        """Let ``child`` end after its answer; its death is handled like any other."""
        child.ends = True
        child.channel.finish()

    def _stop_late_jobs(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            if child.deadline <= now:
                child.timed_out = True
                child.deadline = _NEVER
                _kill_group(child.pid)

    def _conclude(self, child: _Child) -> None:
        """End the group of a dead leader, then reap it: until then no other process has its number."""
        self._drain(child)
        _kill_group(child.pid)
        _pid, status = os.waitpid(child.pid, 0)
        _reap(-child.pid)
        handle = child.channel.fileno()
        _attempt(lambda: self._poll.unregister(handle))
        child.channel.close()
        del self._children[handle]
        if child.number is None:
            return
        found = split_answer(child.answer)
        self._channel.send(
            JobEnded(
                number=child.number,
                answer=found[1] if found else b"",
                exit_code=os.waitstatus_to_exitcode(status),
                timed_out=child.timed_out,
            )
        )

    def _kill_everything(self) -> None:
        for child in self._children.values():
            _kill_group(child.pid)
        # Descendants that left their group became our children when their parents died.
        while children := _children(os.getpid()):
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


def _is_dead(child: _Child) -> bool:
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _strays(pid: int) -> bool:
    """Return whether a job in process ``pid`` left other processes: its own, or orphans of its group."""
    orphans = (other for other in _children(os.getpid()) if other != pid)
    return bool(_children(pid)) or any(_group(other) == pid for other in orphans)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return 0


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    except OSError:
        return []
    return [int(each) for each in text.split()]
