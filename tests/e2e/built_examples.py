"""The repository's own examples, built for all their targets once in a run of the tests."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from e2e.command import ROOT, gpubuild
from once import once

# A cache that has them: CI's, where README's quick start has just built them all.
KNOWN = os.environ.get("GPUBUILD_TEST_EXAMPLES_CACHE")


def built_examples() -> Path:
    """The folder of ``build`` and ``cache``; nobody may write to them."""
    return once("examples", _build)


def _build(folder: Path) -> None:
    if KNOWN:
        shutil.copytree(KNOWN, folder / "cache")
    places = ("--build-dir", folder / "build", "--cache-dir", folder / "cache")
    gpubuild("build", "-f", ROOT / "targets.yaml", *places, cwd=folder, code=0)
