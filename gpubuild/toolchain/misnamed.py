"""Misnamed: variables that name a tool or an installation that is not there.

A step that needs it fails and says so; a build that gets by without it says it, too, lest somebody
believe that the value counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from gpubuild.model.target import Kind
from gpubuild.settings import Settings


def misnamed(settings: Settings, kinds: Collection[Kind]) -> tuple[str, ...]:
    """What to warn of, a text for each variable, which begins with its name.

    Variables that other programs heed as well count where there are targets of ``kinds`` that
    could use what they name. An installation without what gpubuild might want of it is right for
    those programs and not told.
    """
    told = [
        f"{variable} names {path}, which is not an executable file"
        for variable, path in (
            ("GPUBUILD_CC", settings.cc),
            ("GPUBUILD_CXX", settings.cxx),
            ("GPUBUILD_PTXAS", settings.ptxas),
            ("GPUBUILD_LLD", settings.lld),
            ("GPUBUILD_CLANG_LINKER_WRAPPER", settings.clang_linker_wrapper),
        )
        if path is not None and not _is_program(path)
    ]
    if settings.libdevice is not None and not settings.libdevice.is_file():
        told.append(f"GPUBUILD_LIBDEVICE names {settings.libdevice}, which is not a file")
    told += [
        f"{variable} names {path}, which is not a folder"
        for variable, path, kind in (
            ("ROCM_PATH", settings.rocm_path, Kind.ROCDL),
            ("CUDA_PATH", settings.cuda_path, Kind.NVVM),
        )
        if path is not None and kind in kinds and not path.is_dir()
    ]
    return tuple(f"{problem}: correct or unset it" for problem in told)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
