"""Write the Python module of a library: the text of ``library_module`` with the records of its functions."""

from __future__ import annotations

import keyword
import pprint
from collections.abc import Sequence
from pathlib import Path

from gpubuild.engine.host.interface import Function, identifier, table_name

TEMPLATE = Path(__file__).with_name("library_module.py")


def write(program: str, functions: Sequence[Function]) -> str:
    """Return the text of ``PROGRAM.py``."""
    text = TEMPLATE.read_text(encoding="utf-8")
    code = text[text.index("\nfrom __future__") :].rstrip()
    documentation = (
        f'"""Functions of {program}, on arrays. Written by gpubuild; docs/embedding.md describes it."""\n'
    )
    usable = [function for function in functions if not function["reason"]]
    names = [name for function in usable if (name := python_name(function["name"]))]
    table = pprint.pformat(usable, width=100, sort_dicts=False)
    absent = {function["name"]: function["reason"] for function in functions if function["reason"]}
    return (
        f"{documentation}{code}\n\n\n"
        f"_functions = {table}\n"
        f"_absent = {pprint.pformat(absent, width=100)}\n"
        f"library = Library(__file__, {program!r}, {table_name(program, functions)!r}, _functions)\n"
        f"__all__ = {pprint.pformat(names, width=100)}\n"
        + "".join(
            f"{name} = library.functions[{function['name']!r}]\n"
            for function in usable
            if (name := python_name(function["name"]))
        )
        + "\n\ndef __getattr__(name):\n"
        "    if name in _absent:\n"
        '        raise AttributeError(f"{name} cannot be called from Python: it {_absent[name]}")\n'
        '    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")\n'
    )


def python_name(name: str) -> str:
    """Return the attribute of the module for a function."""
    name = identifier(name)
    return f"{name}_" if keyword.iskeyword(name) or name == "library" else name
