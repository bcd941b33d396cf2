"""What each target of a project needs of the tools that ``gpubuild doctor`` found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpubuild.cli.console import Console
from gpubuild.model.project import Project
from gpubuild.model.target import Target
from gpubuild.toolchain.find import ToolRow

DEFAULT_FILE = Path("targets.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRow:
    """One target. It compiles when ``missing`` is empty; without ``wanted`` some kernels do not."""

    name: str
    kind: str
    chip: str
    tools: tuple[str, ...]
    missing: tuple[str, ...]
    wanted: tuple[str, ...]

    @property
    def found(self) -> bool:
        """Whether everything that is always needed is there."""
        return not self.missing


def load(file: Path | None, console: Console) -> Project | None:
    """The project in ``file``, by default in targets.yaml if there is one that can be read.

    Raises ``ConfigError`` for a file that was asked for.
    """
    from gpubuild.config.load import load_project
    from gpubuild.errors import GpubuildError

    if file is not None:
        return load_project(file)
    if not DEFAULT_FILE.is_file():
        return None
    try:
        return load_project(DEFAULT_FILE)
    except GpubuildError:
        console.warning(
            f"{DEFAULT_FILE} has mistakes, which `gpubuild build` shows: its targets are left out"
        )
        return None


def target_rows(project: Project, tools: Mapping[str, ToolRow]) -> list[TargetRow]:
    """A row for each target, in the order of the project file."""
    return [_row(target, tools) for target in project.targets.values()]


def _row(target: Target, tools: Mapping[str, ToolRow]) -> TargetRow:
    from gpubuild.graph.planner import TOOLS

    required, optional = TOOLS[target.kind]
    return TargetRow(
        name=target.name,
        kind=target.kind.value,
        chip=target.chip,
        tools=(*required, *optional),
        missing=tuple(name for name in required if not tools[name].found),
        wanted=tuple(name for name in optional if not tools[name].found),
    )
