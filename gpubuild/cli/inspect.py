"""``gpubuild inspect``: list, extract and disassemble the device images of files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gpubuild.cli.console import Console, paint
from gpubuild.cli.json_document import dump
from gpubuild.errors import ToolNotFoundError, UsageError
from gpubuild.support.text import one_line, shown_path

if TYPE_CHECKING:
    from gpubuild.inspect.records import Inspection, Module


def execute(options: argparse.Namespace) -> int:
    """Run the command."""
    from gpubuild.inspect.disassemble import extract
    from gpubuild.inspect.reader import inspect_file
    from gpubuild.inspect.records import Inspection, select

    console: Console = options.console
    whole = [inspect_file(path) for path in options.files]
    found = [select(one, options.targets, options.modules) for one in whole]
    everything = Inspection(file="", modules=tuple(module for one in found for module in one.modules))
    if not everything.modules:
        filtered = options.targets or options.modules
        problem = "no object matches -t or --module" if filtered else "no object was found"
        raise UsageError(
            f"{', '.join(map(str, options.files))}: {problem}",
            hint=_choice([module for one in whole for module in one.modules]),
        )
    if options.json:
        console.print(dump(_document(found, options.workgroup)))
    elif options.disassemble:
        return _disassemble(found, options)
    elif not (console.quiet and options.extract):
        _print_tables(found, options)
    if options.extract:
        for path in extract(everything, options.extract):
            if not console.quiet:
                console.note(f"wrote {shown_path(path.absolute())}")
    return 0


def _choice(modules: Sequence[Module]) -> str:
    names = dict.fromkeys(module.name or "-" for module in modules)
    targets = {name for m in modules for o in m.objects for name in (o.target or o.chip,) if name}
    return f"modules: {', '.join(names)}; targets: {', '.join(sorted(targets))}"


def _document(found: Sequence[Inspection], workgroup: int) -> dict[str, Any]:
    from gpubuild.inspect.records import SCHEMA, to_json

    documents = [to_json(one, workgroup) for one in found]
    return documents[0] if len(documents) == 1 else {"schema": SCHEMA, "files": documents}


def _print_tables(found: Sequence[Inspection], options: argparse.Namespace) -> None:
    """Print the table of each file, below its name if there are several."""
    from gpubuild.inspect.table import render_table

    console: Console = options.console
    for number, one in enumerate(found):
        if len(found) > 1:
            if number:
                console.print()
            console.print(paint(one_line(one.file), "bold", on=console.color_out))
        if one.modules:
            console.print(render_table(one, options.workgroup))


def _disassemble(found: Sequence[Inspection], options: argparse.Namespace) -> int:
    """Print the code of every object; a warning for each that no tool here can disassemble."""
    from gpubuild.inspect.disassemble import disassemble

    console: Console = options.console
    failed: ToolNotFoundError | None = None
    for module, file in ((module, one.file) for one in found for module in one.modules):
        begin = f"{file}: " if len(found) > 1 else ""
        for item in module.objects:
            name = f"{begin}@{module.name or '-'} {item.target or item.chip or '-'} ({item.format})"
            try:
                text = disassemble(item, options.settings)
            except ToolNotFoundError as error:
                console.warning(f"{name}: {error.render()}")
                failed = error
                continue
            console.print(paint(f"; {one_line(name)}", "bold", on=console.color_out))
            console.print(text.rstrip() + "\n")
    return failed.exit_code if failed else 0
