"""The repository's own examples, built for all their targets once in a run of the tests."""

from __future__ import annotations

from pathlib import Path

from e2e.command import ROOT, gpubuild
from once import once


def built_examples() -> Path:
    """The folder of ``build`` and ``cache``; nobody may write to them."""
    return once("examples", _build)


def _build(folder: Path) -> None:
    places = ("--build-dir", folder / "build", "--cache-dir", folder / "cache")
    outcome = gpubuild("build", "-f", ROOT / "targets.yaml", *places, cwd=folder)
    assert outcome.code == 0, outcome.out + outcome.err
