"""Places: which line of the user's file an operation of canonical text is from, for run-time messages.

Canonical text has no locations, so that a comment or a moved line compiles nothing anew. What is
compiled from it knows an operation by its *address*: a digest of the text and where in it the
operation stands. Outlining writes beside the text which place in the user's file that is, and the
runtime looks there when a program fails (``runtime/core/location.c``); only it does, so no key has it.

Assert places: where each ``cf.assert`` stands in the user's file, kept in canonical text.

That text has no locations, so that an edit elsewhere in the file changes no key. What a failed
assertion prints must have one, and so must be in the key: the place is an attribute of the op. A
module with assertions is compiled anew when they move to other lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, SourceText, file_position, locate
from gpubuild.engine.ir.query import kernel_functions, matching, operations
from gpubuild.model.digest import digest_bytes

FILE = "places.txt"
_DIGITS = 16  # of the digest: it tells the texts of one project apart
# What can fail or wait; no message of the runtime speaks of other operations.
_DIALECTS = frozenset({"gpu", "nvgpu", "nvvm", "rocdl"})
_SILENT = re.compile(r"gpu\.(\w+_(id|dim|size)|num_subgroups|return|module|binary|printf)")
_ADDRESS = re.compile(rf"#[0-9a-f]{{{_DIGITS}}}:\d+:\d+\Z")


def address(text_digest: str, op: ir.Operation) -> str:
    """How what is compiled from canonical text names ``op`` of it: ``#DIGEST:LINE:COLUMN``, or nothing."""
    found = file_position(op.location)
    if found is None or found[0] != UNNAMED_BUFFER or not found[1]:
        return ""
    return f"#{text_digest}:{found[1]}:{found[2]}"


def text_digest(text: str) -> str:
    """The digest of canonical text in addresses."""
    return digest_bytes(text.encode())[:_DIGITS]


def without_address(name: str) -> str:
    """The name of an operation without the address behind it."""
    return _ADDRESS.sub("", name)


def table(module: ir.Module, canonical: str, source: SourceText) -> Iterator[str]:
    """Lines ``DIGEST:LINE:COLUMN<tab>place`` for ``module``, of which ``canonical`` is the canonical text.

    Kernels also by name: ``@module::@kernel<tab>place``. Operations without a place in a file have no line.
    """
    digest = text_digest(canonical)
    parsed = contexts.parse(canonical)  # lives as long as its operations are looked at
    for op, copy in zip(_operations(module), _operations(parsed), strict=True):
        place = _place(op, source)
        if place and (at := address(digest, copy)):
            yield f"{at[1:]}\t{place}\n"
    for kernels in contexts.gpu_modules(module):
        for kernel in kernel_functions(kernels):
            if place := _place(kernel, source):
                name = f"@{kernels.attributes['sym_name'].value}::@{kernel.attributes['sym_name'].value}"
                yield f"{name}\t{place}\n"


def _operations(module: ir.Module) -> list[ir.Operation]:
    def is_named(op: ir.Operation) -> bool:
        return op.name.partition(".")[0] in _DIALECTS and not _SILENT.fullmatch(op.name)

    return matching(module.operation, is_named)


def _place(op: ir.Operation, source: SourceText) -> str:
    location, _ = locate(op.location, source)
    if location is None or "\n" in location.file:
        return ""
    return f"{location.file}:{location.line}:{location.column}"


_ASSERT = "cf.assert"
_PLACE = "gpubuild.place"
_TEXT = re.compile(r"(.+):(\d+):(\d+)", re.DOTALL)


def keep_places(module: ir.Operation) -> None:
    """Write the place of each assertion that has one into an attribute of it."""
    for op in operations(module, (_ASSERT,)):
        found = file_position(op.location)
        if found is not None and found[0] != UNNAMED_BUFFER:
            file, line, column = found
            op.attributes[_PLACE] = ir.StringAttr.get(f"{file}:{line}:{column}")


def restore_places(module: ir.Operation) -> None:
    """Give each assertion the location that its attribute says; the attribute goes."""
    for op in operations(module, (_ASSERT,)):
        if _PLACE not in op.attributes:
            continue
        match = _TEXT.fullmatch(ir.StringAttr(op.attributes[_PLACE]).value)
        if match is None:
            continue
        location = ir.Location.file(match[1], int(match[2]), int(match[3]))
        Emitter(op, location=location).op(_ASSERT, list(op.operands), [], {"msg": op.attributes["msg"]})
        op.erase()
