"""Project options: from ``-f``, ``--build-dir`` and their kin to what a build takes."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpubuild.model.project import Project


def load(options: argparse.Namespace) -> Project:
    """The project that ``-f`` names. Raises ``ConfigError``."""
    from gpubuild.config.load import load_project

    return load_project(options.file)


def build_folder(options: argparse.Namespace, root: Path) -> Path:
    """The absolute build folder: as given, from here; by default ``build`` in the project."""
    return Path.cwd() / options.build_dir if options.build_dir else root / "build"


def shown(path: Path) -> str:
    """``path`` as a user here would write it: relative when it lies below the current folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
