"""Once: work that one worker process does for all of them, in a folder that goes away with the run."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

VARIABLE = "TESTS_SHARED_FOLDER"


def start() -> None:
    """Make the folder; processes that this one starts find it by the environment."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="gpubuild-tests-")


def finish() -> None:
    """Remove the folder. Workers must not call this: others may still read."""
    shutil.rmtree(os.environ.pop(VARIABLE), ignore_errors=True)


def once(name: str, make: Callable[[Path], object]) -> Path:
    """The folder that ``make`` filled, which it does once in a run. Nobody may write to it later."""
    if VARIABLE not in os.environ:  # a script of the tests, by hand
        start()
        atexit.register(finish)
    base = Path(os.environ[VARIABLE])
    folder = base / name
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            scratch = base / f"{name}.new"
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            make(scratch)
            scratch.rename(folder)
    return folder
