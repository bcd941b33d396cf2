"""``gpubuild doctor``: which tools are used, from where, and what to do about missing ones."""

from __future__ import annotations

import argparse
import platform
import sys
from dataclasses import asdict

from gpubuild import __version__
from gpubuild.cli.console import Console, paint
from gpubuild.cli.doctor_targets import TargetRow, load, target_rows
from gpubuild.cli.document import dump
from gpubuild.cli.project import shown
from gpubuild.errors import EXIT_USAGE


def execute(options: argparse.Namespace) -> int:
    """The command: 0 when everything that is always needed was found."""
    from gpubuild.toolchain.find import Toolchain

    console: Console = options.console
    project = load(options.file, console)
    rows = Toolchain(options.settings).describe_all()
    targets = target_rows(project, {row.name: row for row in rows}) if project else []
    healthy = all(row.found for row in rows if row.required)
    if options.json:
        document = {
            "schema": 1,
            "gpubuild": __version__,
            "python": platform.python_version(),
            "platform": f"{sys.platform} {platform.machine()}",
            "ok": healthy,
            "tools": [{**asdict(row), "found": row.found} for row in rows],
            "targets": [{**asdict(row), "found": row.found} for row in targets],
        }
        console.print(dump(document))
        return 0 if healthy else EXIT_USAGE
    console.print(
        f"gpubuild {__version__} on Python {platform.python_version()}, {sys.platform} {platform.machine()}"
    )
    width = max(len(row.name) for row in rows)
    for row in rows:
        word, style = ("ok", "green") if row.found else ("missing", "red" if row.required else "yellow")
        mark = paint(f"{word:7}", style, on=console.color_out)
        console.print(f"{mark}  {row.name:{width}}  {row.version or '-':12}  {row.source or row.needed_by}")
        indent = " " * (11 + width)
        if row.path and console.verbose:
            console.print(f"{indent}{row.path}\n{indent}sha256 {row.fingerprint}")
        for text in (row.problem, row.fix):
            if text:
                console.print(indent + text)
        if not row.found:
            console.print(f"{indent}needed by: {row.needed_by}")
    if project and targets:
        console.print(f"targets of {shown(project.file)}")
    for target in targets:
        word, style = ("ok", "green") if target.found else ("missing", "red")
        if target.found and target.wanted:
            word, style = "partly", "yellow"
        mark = paint(f"{word:7}", style, on=console.color_out)
        console.print(f"{mark}  {target.name:{width}}  {target.kind:5} {target.chip:12}  {_needs(target)}")
    if healthy:
        console.print("everything that is always needed is there")
    else:
        console.print("a required tool is missing: see above")
    return 0 if healthy else EXIT_USAGE


def _needs(target: TargetRow) -> str:
    """What is there for a target, or what it lacks; how to get that stands with the tool."""
    if target.missing:
        return f"needs {', '.join(target.missing)}"
    if target.wanted:
        return f"without {', '.join(target.wanted)}: kernels that call its functions are refused"
    return ", ".join(target.tools)
