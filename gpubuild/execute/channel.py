"""The channel between executor, forker and jobs, over private sockets, and the messages on it."""

from __future__ import annotations

import pickle
import socket
import struct

from gpubuild.errors import GpubuildError
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import Params
from gpubuild.support.frozen import frozen

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
    """Return two connected ends."""
    one, other = socket.socketpair()
    return Channel(one), Channel(other)


@frozen
class RunJob:
    """Executor to forker: run ``job``; call it ``number``."""

    number: int
    job: Job


@frozen
class ExpectJobs:
    """Executor to forker: jobs with such parameters may follow; load what they need meanwhile."""

    params: tuple[Params, ...]


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
