"""Edits of LLVM IR as text, for what neither MLIR nor llvmlite can do in the CPU back end.

Stores are made non-temporal after optimisation, not by MLIR's ``nontemporal`` attribute before it. LLVM's
vectoriser takes a loop with such stores only if each scalar one is aligned like a vector of two, which a
``f32`` is not, and the kernel has one body for results of every size. llvmlite reads instructions, but cannot
attach metadata to them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llvmlite import binding

from gpubuild.engine.backends.cpu.nontemporal import PIECE_BYTES
from gpubuild.engine.ir import llvm

_FUNCTIONS = re.compile(r"^define [^\n]*\n.*?^}$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"@(\"[^\"]*\"|[^(\s]+)\(")
_ADDRESS = re.compile(r"^  (?P<name>%\S+) = getelementptr [^\n]*?, ptr (?P<base>%[^,\s]+),", re.MULTILINE)
_STORE = re.compile(
    r"^  store <(?P<count>\d+) x (?P<element>\w+)> [^\n]*, ptr (?P<address>%[^,\s]+), align (?P<align>\d+)",
    re.MULTILINE,
)
_METADATA = re.compile(r"^!(\d+) =", re.MULTILINE)
_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}


def mark_stores(module: binding.ModuleRef, bases: Mapping[str, frozenset[str]]) -> binding.ModuleRef:
    """Make vector stores of the functions in ``bases`` non-temporal that go through the values named there.

    Returns a copy if there are any: only after all optimisation is it known which stores are vectors, and
    LLVM's vectoriser leaves loops with non-temporal scalars alone. Vectors whose address is not known to be
    a multiple of a piece stay as they are.
    """
    if not bases:
        return module
    text = str(module)
    kind = f"!{1 + max((int(number) for number in _METADATA.findall(text)), default=-1)}"

    def rewrite(found: re.Match[str]) -> str:
        function = found[0]
        name = _NAME.search(function)
        wanted = bases.get(name[1].strip('"')) if name else None
        return function if wanted is None else _marked(function, wanted, kind)

    marked = _FUNCTIONS.sub(rewrite, text)
    if marked == text:
        return module
    return llvm.parse_assembly(f"{marked}\n{kind} = !{{i32 1}}\n", llvm.new_context())


def _marked(function: str, wanted: frozenset[str], kind: str) -> str:
    below = {found["name"]: found["base"] for found in _ADDRESS.finditer(function)}

    def rewrite(store: re.Match[str]) -> str:
        base = store["address"]
        while base in below:
            base = below[base]
        size_bytes = int(store["count"]) * _BITS.get(store["element"], 0) // 8
        if base.removeprefix("%") not in wanted or min(size_bytes, int(store["align"])) < PIECE_BYTES:
            return store[0]
        return f"{store[0]}, !nontemporal {kind}"

    return _STORE.sub(rewrite, function)
