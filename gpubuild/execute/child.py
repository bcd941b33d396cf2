"""Child: the process that runs exactly one job."""

from __future__ import annotations

import gc
import io
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from gpubuild.engine.ir.step_io import no_room
from gpubuild.errors import GpubuildError, StepError
from gpubuild.execute.channel import Answer
from gpubuild.model.job import Job, JobResult
from gpubuild.toolchain.supervision import supervised_from_now

LOG_FILE = "log"  # in the workdir: what the job wrote to stdout and stderr


def run_child(job: Job, run: Callable[[Job], JobResult], answer_fd: int, parent: int) -> NoReturn:
    """Run ``job``, write the pickled answer to ``answer_fd`` and end this process.

    Never returns, raises or runs exit handlers: MLIR and LLVM may be in any state.
    """
    status = 1
    try:
        _isolate(parent)
        answer = _answer(job, run)
        _write_all(answer_fd, _pickled(answer))
        status = 0
    finally:
        os._exit(status)


def _isolate(parent: int) -> None:
    """Own process group, dead with the forker, deaf to the terminal's Ctrl-C."""
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
    except BaseException as error:  # SystemExit too: a job has no business exiting
        return no_room(error) or StepError(
            f"internal error: {type(error).__name__}: {error}",
            output=traceback.format_exc(),
            hint="this is a bug in gpubuild; please report it with the output above",
        )


def _redirect(log: Path) -> None:
    """Send file descriptors 1 and 2 to ``log``: that is where LLVM's last words go."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o644)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb", closefd=False), line_buffering=True)
    sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb", closefd=False), line_buffering=True)


def _pickled(answer: Answer) -> bytes:
    """``answer`` as bytes that are known to unpickle: a failure there would belong to no step."""
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


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]
