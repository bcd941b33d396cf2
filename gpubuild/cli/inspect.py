"""``gpubuild inspect``: what a file carries, for which targets."""

from __future__ import annotations

import argparse

from gpubuild.cli.console import Console
from gpubuild.cli.document import dump
from gpubuild.cli.project import shown


def execute(options: argparse.Namespace) -> int:
    """The command."""
    from gpubuild.inspection.extract import extract
    from gpubuild.inspection.inspection import to_json
    from gpubuild.inspection.read import inspect_file
    from gpubuild.inspection.table import render_table

    console: Console = options.console
    found = inspect_file(options.file)
    if options.json:
        console.print(dump(to_json(found)))
    elif not (console.quiet and options.extract):
        console.print(render_table(found))
    if options.extract:
        for path in extract(found, options.extract):
            if not console.quiet:
                console.note(f"wrote {shown(path.absolute())}")
    return 0
