"""The process that runs jobs, one after the other."""

from __future__ import annotations

import gc
import io
import os
import pickle
import resource
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gpubuild.engine.ir.step_io import no_room
from gpubuild.errors import GpubuildError, StepError
from gpubuild.execute.channel import Answer, Channel
from gpubuild.model.job import LOG_FILE, Job, JobResult
from gpubuild.toolchain.run import supervised_from_now

MOST_JOBS = 16  # of one process: memory that LLVM and MLIR do not free stays small
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
            more = isinstance(answer, JobResult) and count < MOST_JOBS and not grown
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
        _redirect(job.workdir / LOG_FILE)
        return run(job)
    except GpubuildError as error:
        return error
    except BaseException as error:  # SystemExit too: no job may exit
        return no_room(error, job.workdir) or StepError(
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
