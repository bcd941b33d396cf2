"""Messages between the executor, its forker and the job processes, over a private socket."""

from __future__ import annotations

import pickle
import socket
import struct
from dataclasses import dataclass

from gpubuild.errors import GpubuildError
from gpubuild.model.job import Job, JobResult

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
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def receive(self) -> object:
        """The next value. Raises ``EOFError`` at the end of the stream, even inside a value."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        return pickle.loads(self._read(length))  # noqa: S301 - see above

    def finish(self) -> None:
        """Tell the other end that nothing more comes; it can still answer."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """Executor to forker: run ``job``; call it ``number``."""

    number: int
    job: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted:
    """Forker to executor: the job runs as the leader of process group ``pid``."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
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
