"""``gpubuild graph``, ``report`` and ``compdb``: drawings, reports and files for other tools."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gpubuild.cli.console import Console
from gpubuild.cli.json_document import dump
from gpubuild.cli.options import build_folder, build_request, load
from gpubuild.cli.parser import GRAPH_FORMATS
from gpubuild.errors import UsageError
from gpubuild.model.project import CXX_SUFFIXES, HOST_SUFFIXES, Project, language_arguments, search_arguments
from gpubuild.model.result import Status
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.plan.sources import include_folders, with_generated
from gpubuild.support.text import shown_path, suggestion
from gpubuild.toolchain.find import Toolchain

_FORMAT_OF_SUFFIX = {
    ".svg": "svg",
    ".dot": "dot",
    ".gv": "dot",
    ".mmd": "mermaid",
    ".mermaid": "mermaid",
    ".json": "json",
}


def graph(options: argparse.Namespace) -> int:
    """Draw the steps of a build. Only scans sources that changed, since the plan depends on them."""
    from gpubuild.build.log import log_file, read_log
    from gpubuild.build.opening import open_builder
    from gpubuild.report import diagram

    console: Console = options.console
    form = options.format or _format_of(options.output)
    project = load(options)
    request = build_request(options, project.root, dry_run=True)
    with open_builder(project, options.settings, request, threads=False) as builder:
        plan = builder.scan(partial=not options.modules)  # no module of an unreadable source is known
        _check_modules(options.modules, plan)
        reports = {report.id: report for report in builder.build().steps}
    history = read_log(log_file(Layout(root=project.root, build_dir=request.build_dir)))
    last = history.builds[-1].steps if history.builds else ()
    failures = {step.id: step.error for step in last if step.status == Status.FAILED}
    text = diagram.DRAW[form](diagram.make_diagram(plan, reports, options.modules, failures))
    if options.output is None:
        console.write(text)
    else:
        console.save(options.output, text)
    return 0


def _format_of(output: Path | None) -> str:
    if output is None or not output.suffix:
        return "svg"
    if output.suffix not in _FORMAT_OF_SUFFIX:
        raise UsageError(
            f"the name {output.name} implies no format", hint=f"--format {', '.join(GRAPH_FORMATS)}"
        )
    return _FORMAT_OF_SUFFIX[output.suffix]


def _check_modules(wanted: list[str], plan: Plan) -> None:
    known = dict.fromkeys(step.module for step in plan.steps.values() if step.module)
    for name in wanted:
        if name not in known:
            raise UsageError(
                f"there is no gpu.module {name!r}{suggestion(name, known)}",
                hint="modules: " + (", ".join(known) or "none"),
            )


def report(options: argparse.Namespace) -> int:
    """Write an HTML report of the last build. It reads the build log only, no project file."""
    from gpubuild.build.log import log_file, read_log
    from gpubuild.report.page import make_page
    from gpubuild.report.profile import profile_section, read_profile

    console: Console = options.console
    root = options.file.absolute().parent
    layout = Layout(root=root, build_dir=build_folder(options, root))
    history = read_log(log_file(layout))
    if not history.builds:
        raise UsageError(
            f"the build folder {shown_path(layout.build_dir)} has no record of a build",
            hint="run `gpubuild build` first; builds that found nothing to do leave no record",
        )
    profiles = [profile_section(path.name, read_profile(path)) for path in options.profiles]
    console.save(options.output, make_page(history, project=root.name or "project", more=profiles))
    return 0


def compdb(options: argparse.Namespace) -> int:
    """Write compile_commands.json. Compiles nothing."""
    console: Console = options.console
    project = load(options)
    layout = Layout(root=project.root, build_dir=build_folder(options, project.root))
    entries = commands(with_generated(project, layout), layout, Toolchain(options.settings))
    console.save(options.output, dump(entries) + "\n")
    return 0


def commands(project: Project, layout: Layout, toolchain: Toolchain) -> list[dict[str, Any]]:
    """Return an entry for each C and C++ source, in file order. Raises ``ToolNotFoundError``.

    The commands compile the user's own files; a build compiles preprocessed text with the same flags.
    https://clang.llvm.org/docs/JSONCompilationDatabase.html
    """
    # A source that programs compile with different options has an entry for each.
    variants = dict.fromkeys(
        (source, program.host_of(source))
        for program in project.programs.values()
        for source in program.sources
        if source.suffix in HOST_SUFFIXES
    )
    entries = []
    for source, options in variants:
        cxx = source.suffix in CXX_SUFFIXES
        compiler = toolchain.require("cxx" if cxx else "cc")
        name = shown_path(source, project.root)
        entries.append(
            {
                "directory": str(project.root),
                "file": name,
                "arguments": [
                    *compiler.command,
                    *("-x", "c++" if cxx else "c"),
                    *("-c", f"-O{min(project.opt_level, 3)}", "-fPIC"),
                    *(["-g"] if project.debug else []),
                    *language_arguments(options.std, options.flags),
                    *search_arguments(include_folders(project, layout, options), options.define),
                    f"./{name}" if name.startswith("-") else name,
                ],
            }
        )
    return entries
