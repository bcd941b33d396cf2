"""The process that runs jobs, one after the other, and the messages between executor, forker and jobs.

Messages go over a private socket.
"""

from __future__ import annotations

import gc
import io
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gpubuild.engine.ir.step_io import no_room
from gpubuild.errors import GpubuildError, StepError
from gpubuild.model.job import Job, JobResult
from gpubuild.support.frozen import frozen
from gpubuild.toolchain.run import supervised_from_now

_LENGTH = struct.Struct(">Q")


class Channel:
    """One end of a stream of values. Raises ``OSError`` when the other end is gone."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        """For polling."""
        return self._socket.fileno()

    def send(self, value: object) -> None:
        """Send ``value``; blocks while the other end is behind."""
        data = pickle.dumps(value)
        self.send_bytes(_LENGTH.pack(len(data)) + data)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes in a form of the caller's."""
        self._socket.sendall(data)

    def read_available(self) -> bytes:
        """Return what has arrived, without waiting. Raises ``BlockingIOError``; empty at the end."""
        return self._socket.recv(1 << 20, socket.MSG_DONTWAIT)

    def receive(self) -> object:
        """Return the next value. Raises ``EOFError`` at the end of the stream, even inside a value."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(length))  # noqa: S301 - see above

    def finish(self) -> None:
        """Signal the end of the stream; the other end can still answer."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            return  # it is gone already

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _read(self, length: int) -> bytes:
        data = bytearray()
        while len(data) < length:
            try:
                part = self._socket.recv(min(length - len(data), 1 << 20))
            except ConnectionError as error:
                raise EOFError from error
            if not part:
                raise EOFError
            data += part
        return bytes(data)


def channel_pair() -> tuple[Channel, Channel]:
    """Two connected ends."""
    one, other = socket.socketpair()
    return Channel(one), Channel(other)


@frozen
class RunJob:
    """Executor to forker: run ``job``; call it ``number``."""

    number: int
    job: Job


@frozen
class JobStarted:
    """Forker to executor: the job runs as the leader of process group ``pid``."""

    number: int
    pid: int


@frozen
class JobEnded:
    """Forker to executor: the job and all its descendants are gone.

    ``answer`` is the pickled ``JobResult`` or ``GpubuildError``, empty or cut off after a crash.
    ``exit_code`` is negative, minus the signal's number, when a signal ended the process.
    """

    number: int
    answer: bytes
    exit_code: int
    timed_out: bool = False
    fork_error: str = ""  # why the process could not be made at all


Answer = JobResult | GpubuildError


LOG_FILE = "log"  # in the workdir: what the job wrote to stdout and stderr
_MOST_JOBS = 16  # of one process: memory that LLVM and MLIR do not free stays small
_MOST_MEMORY_KB = 512 << 10
_HEADER = struct.Struct(">?Q")  # whether the process takes another job, and the size of the answer


def run_child(jobs: Channel, run: Callable[[Job], JobResult], parent: int) -> NoReturn:
    """Run jobs from ``jobs``, send each pickled answer there, and end this process.

    It ends after a failure, after some jobs, or when it has grown: then nothing that a compiler left behind
    reaches another job. Never returns, raises or runs exit handlers: MLIR and LLVM may be in any state.
    """
    status = 1
    try:
        _isolate(parent)
        more, count = True, 0
        while more:
            job = jobs.receive()
            assert isinstance(job, Job)  # noqa: S101 - the forker sends nothing else
            answer = _answer(job, run)
            count += 1
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _MOST_MEMORY_KB
            more = isinstance(answer, JobResult) and count < _MOST_JOBS and not grown
            data = _pickled(answer)
            jobs.send_bytes(_HEADER.pack(more, len(data)) + data)
            del answer, job
        status = 0
    except EOFError:
        status = 0
    finally:
        os._exit(status)


def split_answer(data: bytes | bytearray) -> tuple[bool, bytes] | None:
    """Return whether the process takes another job, and the answer; ``None`` if it is not complete."""
    if len(data) < _HEADER.size:
        return None
    more, size = _HEADER.unpack_from(data)
    answer = bytes(data[_HEADER.size : _HEADER.size + size])
    return (more, answer) if len(answer) == size else None


def _isolate(parent: int) -> None:
    """Lead a process group of its own, which dies with the forker and gets no Ctrl-C."""
    os.setpgid(0, 0)
    supervised_from_now()
    if os.getppid() != parent:  # it died before the call
        os._exit(1)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.enable()


def _answer(job: Job, run: Callable[[Job], JobResult]) -> Answer:
    try:
        log = job.workdir / LOG_FILE
        _redirect(log)
        result = run(job)
        log.unlink()
        return result
    except GpubuildError as error:
        return error
    except BaseException as error:  # SystemExit too: no job may exit
        return no_room(error) or StepError(
            f"internal error: {type(error).__name__}: {error}",
            output=traceback.format_exc(),
            hint="this is a bug in gpubuild; please report it with the output above",
        )


def _redirect(log: Path) -> None:
    """Redirect file descriptors 1 and 2 to ``log``: LLVM writes there before it aborts."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), line_buffering=True)
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), line_buffering=True)


def _pickled(answer: Answer) -> bytes:
    """Return ``answer`` as bytes that can be unpickled: a later failure would belong to no step."""
    try:
        data = pickle.dumps(answer)
        pickle.loads(data)  # noqa: S301 - our own bytes
    except Exception:
        return pickle.dumps(
            StepError(
                f"internal error: the answer of the step cannot be sent: {str(answer)[:500]}",
                output=traceback.format_exc(),
                hint="this is a bug in gpubuild; please report it with the output above",
            )
        )
    return data
