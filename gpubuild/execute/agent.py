"""Agent: a process on a worker machine that runs jobs one at a time, given as messages on stdin.

The process of a distributed worker has threads and must survive any crash of a compiler, so it starts agents
(``python -m gpubuild.execute.agent WORKER``), each of which forks a process for its jobs like a build does.
An agent ends when its stdin does, and leaves no process.
"""

from __future__ import annotations

import os
import queue
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from select import select
from typing import IO, TYPE_CHECKING, NoReturn

from gpubuild.cache.open_store import choose_remote, open_remote
from gpubuild.errors import GpubuildError, UsageError
from gpubuild.execute import wire
from gpubuild.execute.local import ForkerKilledError, LocalExecutor
from gpubuild.execute.workdir import WorkArea
from gpubuild.model.job import JobResult
from gpubuild.settings import Settings
from gpubuild.targets.registry import kinds
from gpubuild.toolchain.find import Toolchain
from gpubuild.toolchain.fingerprint import FACTS

if TYPE_CHECKING:
    from gpubuild.cache.remote.store import RemoteStore

_LENGTH = struct.Struct(">Q")
_LOOK_SECONDS = 0.5
# Those of steps that travel, besides our own code for each vendor.
_TOOLS = (
    *("gpubuild", "mlir", "llvmlite", "host-math", "ptxas", "libdevice"),
    *("nvfatbin", "ld.lld"),
)


class LostAgentError(Exception):
    """The agent died or sent nonsense: the job may run elsewhere."""


class Agent:
    """An agent process, from the side of the worker that starts it."""

    def __init__(self, worker: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, worker], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def run(self, message: bytes, wanted: Callable[[], bool]) -> bytes:
        """Return the answer to a job. Raises ``LostAgentError``, also when it is not ``wanted`` any more."""
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        try:
            _send(self._process.stdin, message)
            while not select([self._process.stdout], [], [], _LOOK_SECONDS)[0]:
                if not wanted():
                    raise LostAgentError("the job is not wanted any more")
            return _receive(self._process.stdout)
        except (OSError, EOFError, ValueError) as error:
            raise LostAgentError(f"the agent ended: {error}") from error

    def stop(self) -> None:
        """Kill the agent, and with it its job."""
        self._process.kill()
        self._process.wait()


def identity() -> dict[str, str]:
    """Return what results of this machine depend on: Python, the wire form, and tools by content.

    With the address of the cache for large files, if there is one.
    """
    toolchain = _toolchain()
    found = {"python": wire.python_tag(), "wire": str(wire.VERSION)}
    with suppress(UsageError):
        if cache := choose_remote(None, Settings.from_environ()):
            found["cache"] = cache.url
    for name in (*_TOOLS, *(f"gpubuild/{part}" for part in (FACTS, *kinds()))):
        with suppress(GpubuildError, OSError):
            tool = toolchain.find_optional(name)
            if tool is not None:
                found[name] = tool.fingerprint
    return found


def main(worker: str) -> NoReturn:
    """Serve until stdin ends."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a compiler prints is no answer
    executor = LocalExecutor(1)  # forks, so threads come later
    area = WorkArea(_folder() / "work")
    toolchain = _toolchain()
    messages: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(messages, executor), daemon=True).start()
    while (message := messages.get()) is not None:
        folder = area.new()
        try:
            answer = _answer(message, folder, executor, toolchain, worker)
        finally:
            area.release(folder)
        _send(out, answer)
    executor.cancel()
    sys.exit(0)


def _folder() -> Path:
    """Return the folder for private files of agents of this user."""
    folder = Path(tempfile.gettempdir()) / f"gpubuild-agents-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    owner = folder.lstat()
    if owner.st_uid != os.getuid() or not folder.is_dir() or folder.is_symlink():
        raise UsageError(f"{folder} belongs to another user", hint="set TMPDIR to a folder of your own")
    return folder


def _toolchain() -> Toolchain:
    memo = _folder() / "tools.json"
    return Toolchain(Settings.from_environ(), memo)


def _shared_cache(url: str) -> RemoteStore | None:
    """Return the cache of this machine if it is the client's: for one job, since failures end its use."""
    settings = Settings.from_environ()
    remote = choose_remote(None, settings)
    return open_remote(remote, settings)[0] if remote and remote.url == url else None


def _read(messages: queue.SimpleQueue[bytes | None], executor: LocalExecutor) -> None:
    try:
        while True:
            messages.put(_receive(sys.stdin.buffer))
    except (OSError, EOFError, ValueError):
        messages.put(None)
        executor.cancel()  # a job that runs ends at once


def _answer(
    message: bytes, folder: Path, executor: LocalExecutor, toolchain: Toolchain, worker: str
) -> bytes:
    try:
        request = wire.unpack_request(message)
        commands = {}
        for name, fingerprint in request.tools.items():
            tool = toolchain.require(name)
            if tool.fingerprint != fingerprint:
                return wire.pack_refusal(f"{worker} has another {name}")
            commands[name] = tool.command
        cache = _shared_cache(request.cache)
        job = wire.unpack_job(message, folder, commands, cache)
    except (wire.WireError, GpubuildError, OSError) as error:
        return wire.pack_refusal(f"{worker}: {error}")
    try:
        answer: JobResult | GpubuildError = executor.submit(job).result()
    except ForkerKilledError as error:
        return wire.pack_refusal(f"{worker}: {error.message}")  # another agent takes the next job
    except GpubuildError as error:
        answer = error
    try:
        return wire.pack_answer(answer, worker, job, cache)
    except OSError as error:
        return wire.pack_refusal(f"{worker}: {error}")


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    """Return the next message. Raises ``EOFError`` at the end, ``ValueError`` for one that is too large."""
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    if length > wire.MOST_MESSAGE:
        raise ValueError(f"a message of {length} bytes")
    return _exactly(stream, length)


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) != length:
        raise EOFError("the stream ended")
    return data


if __name__ == "__main__":
    main(sys.argv[1])
