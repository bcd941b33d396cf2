"""gpubuild: build multi-target GPU programs written in MLIR's gpu dialect.

``load_project`` and ``load`` are the entries from Python; see docs/how-to/api.md. Importing this package
imports nothing heavy. ``docs/design/architecture.md`` shows the layers.
"""

from __future__ import annotations

import sys

try:
    from gpubuild._version import __version__
except ImportError:  # a checkout from which nothing was installed
    __version__ = "0+unknown"

if sys.platform != "linux":
    raise ImportError(
        f"gpubuild runs on Linux, not on {sys.platform}; use a container, a virtual machine or WSL 2 "
        "(docs/how-to/install.md)"
    )

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from os import PathLike

    from gpubuild.api import LoadedModule, LoadedProject

__all__ = ["__version__", "load", "load_project"]


def load_project(
    file: str | PathLike[str] = "targets.yaml",
    *,
    profile: str = "",
    settings: Iterable[str] = (),
    defines: Mapping[str, object] | None = None,
) -> LoadedProject:
    """Read a project file, or the ``targets.yaml`` of a folder.

    ``profile``, ``settings`` (``KEY=VALUE``) and ``defines`` are like ``--profile``, ``--set`` and ``-D``.
    Raises ``gpubuild.errors.ConfigError`` with every error in it; also when there is no such file.
    """
    from gpubuild.api import open_project

    return open_project(file, profile, settings, defines or {})


def load(
    file: str | PathLike[str] | None = None,
    *,
    text: str = "",
    targets: Iterable[str] | Mapping[str, Mapping[str, object]] = (),
    passes: str = "",
    pipeline: str = "",
    opt_level: int = 3,
) -> LoadedModule:
    """Compile an MLIR file, or ``text``, and return its functions and kernels as Python callables.

    See ``docs/how-to/api.md``. Raises ``gpubuild.errors.GpubuildError``.
    """
    from gpubuild.api import load_module

    return load_module(
        file, text=text, targets=targets, passes=passes, pipeline=pipeline, opt_level=opt_level
    )


def generate(env: object, **options: object) -> None:
    """Make this package an SCons tool, found through ``toolpath``; SCons calls this."""
    from gpubuild.scons.tool import generate

    generate(env, **options)


def exists(env: object) -> bool:
    """See :func:`generate`."""
    from gpubuild.scons.tool import exists

    return exists(env)
