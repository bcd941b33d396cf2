"""Undefined: what linkers say about symbols that nobody defines, or two files do, and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterable

# GNU ld, gold and mold · lld (and zig, which runs lld or prints in its manner)
_PATTERNS = (
    re.compile(r"undefined reference to [`'](?P<symbol>.+)'"),
    re.compile(r"undefined symbol: (?P<symbol>.+)"),
)
_DUPLICATES = (
    re.compile(r"multiple definition of [`'](?P<symbol>.+?)'"),
    re.compile(r"duplicate symbol: (?P<symbol>.+)"),
)
_ENTRY_POINTS = ("main", "_main")
_MAX_NAMED = 8
_WRAPPERS = "mgpu"  # of all such functions, these alone are not in the runtime library
_OF_FLAGS = ("__asan_", "__ubsan_", "__tsan_", "__lsan_", "__msan_", "GOMP_", "__kmpc_", "omp_")
NO_SPARSE = "belongs to upstream's cuSPARSE wrappers, which the runtime library does not have"


def undefined_symbols(output: str) -> list[str]:
    """Names of the symbols a linker found no definition of, sorted, each once."""
    return _named_by(_PATTERNS, output)


def duplicate_symbols(output: str) -> list[str]:
    """Names of the symbols a linker found more than one definition of, sorted, each once."""
    return _named_by(_DUPLICATES, output)


def describe(symbols: list[str]) -> str:
    """The sentence that names those that are undefined."""
    return f"nothing defines {_listed(symbols)}"


def describe_duplicates(symbols: list[str]) -> str:
    """The sentence that names those that are defined more than once."""
    return f"{_listed(symbols)} {'is' if len(symbols) == 1 else 'are'} defined more than once"


def duplicate_hint(symbols: list[str]) -> str:
    """What to do about symbols that are defined more than once."""
    if any(symbol in _ENTRY_POINTS for symbol in symbols):
        return "a program has one main: list one of the files only, or make a program of each"
    return "rename one of them, make it `static` in C, or list one of the files only"


def _named_by(patterns: Iterable[re.Pattern[str]], output: str) -> list[str]:
    found = set()
    for line in output.splitlines():
        for pattern in patterns:
            if match := pattern.search(line):
                found.add(match["symbol"].strip())
                break
    return sorted(found)


def _listed(symbols: list[str]) -> str:
    more = f" and {len(symbols) - _MAX_NAMED} more" if len(symbols) > _MAX_NAMED else ""
    return ", ".join(symbols[:_MAX_NAMED]) + more


def hint(symbols: list[str]) -> str:
    """What to do about the first of them that there is special advice for."""
    for symbol in symbols:
        if symbol in _ENTRY_POINTS:
            return (
                "a program needs a main: add a C source with `int main(void)`, or `func.func @main` in MLIR"
            )
        if symbol.startswith(_OF_FLAGS):
            return (
                "an option such as -fsanitize=… or -fopenmp under `host: flags:` calls for a library: "
                "give it under `link: flags:`, too"
            )
        if symbol.startswith(_WRAPPERS):
            return (
                f"{symbol} {NO_SPARSE}: operations on sparse matrices and their vectors cannot be linked. "
                "Write kernels for them, or add a library that defines it under link: {libraries: […]}"
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
