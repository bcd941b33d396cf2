"""``gpubuild inspect``: list, extract and disassemble the device images of a file."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpubuild.cli.console import Console, paint
from gpubuild.cli.json_document import dump
from gpubuild.errors import ToolNotFoundError, UsageError
from gpubuild.support.text import one_line, shown_path

if TYPE_CHECKING:
    from gpubuild.inspect.records import Inspection


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from gpubuild.inspect.disassemble import extract
    from gpubuild.inspect.reader import inspect_file
    from gpubuild.inspect.records import select, to_json
    from gpubuild.inspect.table import render_table

    console: Console = options.console
    whole = inspect_file(options.file)
    found = select(whole, options.targets, options.modules)
    if not found.modules:
        names = {name for m in whole.modules for o in m.objects for name in (o.target or o.chip,) if name}
        raise UsageError(
            f"{options.file} has no such object",
            hint=f"modules: {', '.join(m.name or '-' for m in whole.modules)}; targets: "
            + ", ".join(sorted(names)),
        )
    if options.json:
        console.print(dump(to_json(found, options.workgroup)))
    elif options.disassemble:
        return _disassemble(found, options)
    elif not (console.quiet and options.extract):
        console.print(render_table(found, options.workgroup))
    if options.extract:
        for path in extract(found, options.extract):
            if not console.quiet:
                console.note(f"wrote {shown_path(path.absolute())}")
    return 0


def _disassemble(found: Inspection, options: argparse.Namespace) -> int:
    """Print the code of every object; a warning for each that no tool here can disassemble."""
    from gpubuild.inspect.disassemble import disassemble

    console: Console = options.console
    failed: ToolNotFoundError | None = None
    for module in found.modules:
        for item in module.objects:
            name = f"@{module.name or '-'} {item.target or item.chip or '-'} ({item.format})"
            try:
                text = disassemble(item, options.settings)
            except ToolNotFoundError as error:
                console.warning(f"{name}: {error.render()}")
                failed = error
                continue
            console.print(paint(f"; {one_line(name)}", "bold", on=console.color_out))
            console.print(text.rstrip() + "\n")
    return failed.exit_code if failed else 0
