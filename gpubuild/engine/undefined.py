"""Undefined: what linkers say about symbols nobody defines, and what a user can do about each."""

from __future__ import annotations

import re

# GNU ld, gold and mold · lld (and zig, which runs lld or prints in its manner)
_PATTERNS = (
    re.compile(r"undefined reference to [`'](?P<symbol>.+)'"),
    re.compile(r"undefined symbol: (?P<symbol>.+)"),
)
_ENTRY_POINTS = ("main", "_main")
_MAX_NAMED = 8


def undefined_symbols(output: str) -> list[str]:
    """Names of the symbols a linker found no definition of, sorted, each once."""
    found = set()
    for line in output.splitlines():
        for pattern in _PATTERNS:
            if match := pattern.search(line):
                found.add(match["symbol"].strip())
                break
    return sorted(found)


def describe(symbols: list[str]) -> str:
    """The sentence that names them."""
    named = ", ".join(symbols[:_MAX_NAMED])
    more = f" and {len(symbols) - _MAX_NAMED} more" if len(symbols) > _MAX_NAMED else ""
    return f"nothing defines {named}{more}"


def hint(symbols: list[str]) -> str:
    """What to do about the first of them that there is special advice for."""
    for symbol in symbols:
        if symbol in _ENTRY_POINTS:
            return (
                "a program needs a main: add a C source with `int main(void)`, or `func.func @main` in MLIR"
            )
        if symbol.startswith("_mlir_ciface_"):
            name = symbol.removeprefix("_mlir_ciface_")
            return (
                f"define {symbol} in a C source, or, if @{name} is MLIR, "
                f"give it the attribute llvm.emit_c_interface"
            )
    return (
        "did you forget a source under sources:, or a library under link: {libraries: […]}? "
        "A function that C calls from MLIR must be public there and may need llvm.emit_c_interface"
    )
