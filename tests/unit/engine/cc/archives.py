"""The runtime's archives as wheels have them, compiled once in a run."""

from functools import partial
from pathlib import Path

from once import once

from gpubuild.toolchain.memo import Memo
from gpubuild.toolchain.runtime_library import build, prebuilt


def built_archive(machine: str) -> Path:
    """That of the installed package, if it has one."""
    installed = prebuilt(machine, Memo(None))
    if installed.is_file():
        return installed
    return next(once(f"archive-{machine}", partial(build, machine)).glob("*/*.a"))
