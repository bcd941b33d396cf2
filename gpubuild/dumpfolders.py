"""Dump folders: which steps have IR to dump, and where each one's goes (engine.ir_dump writes it)."""

from __future__ import annotations

from pathlib import Path

from gpubuild.graph.layout import file_name
from gpubuild.model.step import Step, StepKind

KINDS_WITH_IR = frozenset({StepKind.OUTLINE, StepKind.COMPILE, StepKind.HOST, StepKind.LLVM})


def dump_folder(folder: Path, step: Step) -> Path:
    """The folder of one step: its id, as a path below ``folder``."""
    return folder.joinpath(*(file_name(part) for part in step.id.split("/")))
