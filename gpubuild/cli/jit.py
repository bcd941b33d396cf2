"""``gpubuild run --jit``: how to run a program from its objects."""

from __future__ import annotations

from typing import cast

from gpubuild.cli.build import Outcome
from gpubuild.errors import UsageError
from gpubuild.model.jit_program import JitProgram
from gpubuild.model.step import LinkParams, Step
from gpubuild.plan.layout import Layout
from gpubuild.settings import python_command


def jit_commands(outcome: Outcome) -> dict[str, list[str]]:
    """The command line for each program of a build with the goal JIT. Raises ``UsageError``."""
    layout = Layout(root=outcome.project.root, build_dir=outcome.build_dir)
    return {name: _command(name, step, layout) for name, step in outcome.report.links.items()}


def _command(name: str, step: Step, layout: Layout) -> list[str]:
    params = cast(LinkParams, step.params)
    if params.wrapper_triple:
        raise UsageError(
            f"program {name} cannot run without being linked: offload: clang links its device code, too",
            hint=f"gpubuild run {name}, without --jit, or offload: dispatch",
        )
    if params.flags:
        raise UsageError(
            f"program {name} cannot run without being linked: it has link: flags: {' '.join(params.flags)}",
            hint=f"gpubuild run {name}, without --jit",
        )
    archives = [item.path.name for item in step.inputs if item.name.startswith("archive.")]
    if archives:
        raise UsageError(
            f"program {name} cannot run without being linked: {archives[0]} is an archive",
            hint=f"list its objects (.o) under sources:, or gpubuild run {name}, without --jit",
        )
    program = JitProgram(
        name=str(layout.executable(name)),
        objects=tuple(str(i.path) for i in step.inputs if i.name.startswith("object.")),
        runtime=str(layout.runtime_library),
        libraries=params.libraries,
        cxx=params.cxx,
    )
    return program.command(python_command()[0])
