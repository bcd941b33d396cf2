"""``gpubuild graph``: the steps of a build, drawn, with what a build would do now."""

from __future__ import annotations

import argparse
from pathlib import Path

from gpubuild.cli.console import Console
from gpubuild.cli.options import build_folder, load
from gpubuild.cli.parser import GRAPH_FORMATS
from gpubuild.errors import UsageError
from gpubuild.plan.plan import Plan
from gpubuild.report.diagram import Diagram, draw_dot, draw_json, draw_mermaid, draw_svg, make_diagram
from gpubuild.support.text import suggestion

_DRAW = {"svg": draw_svg, "dot": draw_dot, "mermaid": draw_mermaid, "json": draw_json}
_SUFFIX = {
    ".svg": "svg",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".json": "json",
}


def execute(options: argparse.Namespace) -> int:
    """The command. Compiles nothing; sources that changed are scanned, since that makes the plan."""
    console: Console = options.console
    form = _form(options.format, options.output)
    text = _DRAW[form](_diagram(options))
    if options.output is None:
        console.write(text)
        return 0
    console.save(options.output, text)
    return 0


def _form(asked: str | None, output: Path | None) -> str:
    if asked:
        return asked
    if output is None or not output.suffix:
        return "svg"
    if output.suffix not in _SUFFIX:
        raise UsageError(
            f"what format is {output.name} to have?", hint=f"--format {', '.join(GRAPH_FORMATS)}"
        )
    return _SUFFIX[output.suffix]


def _diagram(options: argparse.Namespace) -> Diagram:
    from gpubuild.build.opening import open_builder
    from gpubuild.model.project import BuildOptions

    project = load(options)
    request = BuildOptions(
        build_dir=build_folder(options, project.root),
        programs=tuple(dict.fromkeys(options.programs)),
        targets=tuple(dict.fromkeys(options.targets)),
        dry_run=True,
    )
    with open_builder(project, options.settings, request, threads=False) as builder:
        plan = builder.scan()
        _check_modules(options.modules, plan)
        reports = {report.id: report for report in builder.build().steps}
    return make_diagram(plan, reports, options.modules)


def _check_modules(wanted: list[str], plan: Plan) -> None:
    known = dict.fromkeys(step.module for step in plan.steps.values() if step.module)
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no gpu.module {name!r}{suggestion(name, known)}",
                hint="modules: " + (", ".join(known) or "none"),
            )
