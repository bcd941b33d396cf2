"""Write the Python module of a library: ``library_arrays`` and ``library_module``, and its functions."""

from __future__ import annotations

import ast
import builtins
import keyword
import pprint
from pathlib import Path

from gpubuild.engine.host.interface import Interface, free_names, modules, table_name

_PARTS = ("library_arrays.py", "library_module.py")


def write(program: str, interface: Interface) -> str:
    """Return the text of ``PROGRAM.py``."""
    code = _fixed_part()
    documentation = (
        f'"""Functions of {program}, on arrays. Written by gpubuild; see docs/how-to/embedding.md."""\n'
    )
    functions = [function for function in interface["functions"] if not function["reason"]]
    kernels = [kernel for kernel in interface["kernels"] if not kernel["reason"]]
    listed = (*interface["functions"], *interface["kernels"])
    names = {function["name"]: f"library.functions[{function['name']!r}]" for function in functions}
    for module in modules(interface):
        names.setdefault(module, f"library.modules[{module!r}]")
    for kernel in kernels:
        names.setdefault(kernel["name"], f"library.modules[{kernel['module']!r}].kernels[{kernel['name']!r}]")
    found = free_names(names, {*keyword.kwlist, *_globals(code)})
    bound = {found[name]: value for name, value in names.items()}
    # The module's own code uses functions of Python such as max, so its globals must not replace them.
    like_builtins = {name: value for name, value in bound.items() if name in dir(builtins)}
    table = table_name(program, interface)
    absent = {item["name"]: item["reason"] for item in listed if item["reason"]}
    return (
        f"{documentation}\n{code}\n\n\n"
        f"_functions = {_literal(functions)}\n"
        f"_kernels = {_literal(kernels)}\n"
        f"_absent = {_literal(absent)}\n"
        f"library = Library(__file__, {program!r}, {table!r}, _functions, _kernels)\n"
        f"__all__ = {_literal(sorted(bound))}\n"
        + "".join(f"{name} = {value}\n" for name, value in bound.items() if name not in like_builtins)
        + f"_like_builtins = {{{', '.join(f'{name!r}: {value}' for name, value in like_builtins.items())}}}\n"
        + "\n\ndef __getattr__(name):\n"
        "    if name in _like_builtins:\n"
        "        return _like_builtins[name]\n"
        "    if name in _absent:\n"
        '        raise AttributeError(f"{name} cannot be called from Python: it {_absent[name]}")\n'
        '    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")\n'
    )


def _literal(value: object) -> str:
    return pprint.pformat(value, width=100, compact=True, sort_dicts=False)


def _fixed_part() -> str:
    """Return the code of both parts, without the import of one by the other."""
    parts = []
    for name in _PARTS:
        text = Path(__file__).with_name(name).read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in reversed(ast.parse(text).body):
            ours = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                ("gpubuild", "__future__")
            )
            if ours or node.lineno == 1:  # the docstring
                del lines[node.lineno - 1 : node.end_lineno]
        parts += [line for line in lines if not line.startswith("# ruff:")]
    return "from __future__ import annotations\n" + "\n".join(parts)


def _globals(code: str) -> set[str]:
    """Return the names that the fixed part uses, which functions must not replace."""
    found = {"library", "_functions", "_kernels", "_absent", "_like_builtins"}
    for node in ast.parse(code).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
            found |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
    return found
