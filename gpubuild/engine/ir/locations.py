"""Map operations of canonical text to lines of the user's file, for run-time messages.

Canonical text has no locations, so that an edited comment or a moved line causes no compilation.
Code compiled from it identifies an operation by its *address*: a digest of the text, line and column.
Outlining writes a table from addresses to locations in the user's file, which no key covers. Only the
runtime reads it, when a program fails (``runtime/core/location.c``).

A failed ``cf.assert`` prints its location, so there it is an attribute in the canonical text: a module
with assertions is compiled again when they move to other lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, SourceText, file_position, locate
from gpubuild.engine.ir.passes import contains
from gpubuild.engine.ir.query import kernel_functions, matching, operations, symbol_name
from gpubuild.model.digest import digest_bytes
from gpubuild.support import code_lines

FILE = "places.txt"
_DIGITS = 16  # of the digest: enough for the texts of one project
# Operations that can fail or wait, of these dialects and assertions; messages of the runtime name no others.
_DIALECTS = frozenset({"gpu", "nvgpu", "nvvm", "rocdl"})
_SILENT = re.compile(r"gpu\.(\w+_(id|dim|size)|num_subgroups|return|module|binary|printf)")
_ASSERT = "cf.assert"
_NAMED = re.compile(
    rf'\s*(?:%[^=]* = )?"?((?:{"|".join(sorted(_DIALECTS))})\.[\w.$]+|{re.escape(_ASSERT)}\b)'
)
_PLACE = "gpubuild.place"
_LOCATION = re.compile(r"\bloc\b")
_TEXT = re.compile(r"(.+):(\d+):(\d+)", re.DOTALL)


def address(text_digest: str, op: ir.Operation) -> str:
    """Return the address of ``op`` in canonical text, ``#DIGEST:LINE:COLUMN``, or an empty string."""
    found = file_position(op.location)
    if found is None or found[0] != UNNAMED_BUFFER or not found[1]:
        return ""
    return f"#{text_digest}:{found[1]}:{found[2]}"


def text_digest(text: str) -> str:
    """Return the digest of canonical text in addresses."""
    return digest_bytes(text.encode())[:_DIGITS]


def table(module: ir.Module, canonical: str, source: SourceText) -> Iterator[str]:
    """Yield lines ``DIGEST:LINE:COLUMN<tab>location`` for ``module``, whose canonical text is ``canonical``.

    Kernels have a line by name, too: ``@module::@kernel<tab>location``. Operations without a location in
    a file have none.
    """
    digest = text_digest(canonical)
    named = _operations(module)
    written = [*_positions(canonical)]
    if [name for name, _ in written] == [op.name for op in named]:
        found = [f"{digest}:{position}" for _, position in written]
    else:  # terminators of regions that are not printed
        parsed = contexts.parse(canonical)  # a variable: its operations die with it
        found = [address(digest, copy)[1:] for copy in _operations(parsed)]
    for op, at in zip(named, found, strict=True):
        if at and (location := _location(op, source)):
            yield f"{at}\t{location}\n"
    for kernels in contexts.gpu_modules(module):
        for kernel in kernel_functions(kernels):
            if location := _location(kernel, source):
                yield f"@{symbol_name(kernels)}::@{symbol_name(kernel)}\t{location}\n"


def head(text: str) -> str:
    """Return the first line of a table: which lines of the source ``text`` are code (support.code_lines).

    Empty where an edit of comments could change more than the numbers of lines.
    """
    known = "" if _LOCATION.search(text) else code_lines.describe(text)
    return f"{code_lines.MARK}\t{known}\n" if known else ""


def _operations(module: ir.Module) -> list[ir.Operation]:
    """Return the operations that messages may name, in the order of the text."""
    return matching(
        module.operation,
        lambda op: (
            op.name == _ASSERT or (op.name.partition(".")[0] in _DIALECTS and not _SILENT.fullmatch(op.name))
        ),
        ir.WalkOrder.PRE_ORDER,
    )


def _positions(canonical: str) -> Iterator[tuple[str, str]]:
    """Yield the name, and line and column, of each of these operations, which begin lines of their own."""
    for number, line in enumerate(canonical.split("\n"), 1):
        if (found := _NAMED.match(line)) and not _SILENT.fullmatch(found[1]):
            quoted = line[found.start(1) - 1] == '"'
            yield found[1], f"{number}:{len(line[: found.start(1)].encode()) + 1 - quoted}"


def _location(op: ir.Operation, source: SourceText) -> str:
    location, _ = locate(op.location, source)
    if location is None or "\n" in location.file:
        return ""
    return f"{location.file}:{location.line}:{location.column}"


def _assertions(module: ir.Operation) -> list[ir.Operation]:
    return operations(module, (_ASSERT,)) if contains(module, (_ASSERT,)) else []


def keep_assert_locations(module: ir.Operation) -> bool:
    """Write the location of each assertion in a file into an attribute of it. Return whether there is any."""
    found_any = False
    for op in _assertions(module):
        found = file_position(op.location)
        if found is not None and found[0] != UNNAMED_BUFFER:
            file, line, column = found
            op.attributes[_PLACE] = ir.StringAttr.get(f"{file}:{line}:{column}")
            found_any = True
    return found_any


def restore_assert_locations(module: ir.Operation) -> None:
    """Replace assertions by those with the locations of their attributes, and without the attributes."""
    for op in _assertions(module):
        if _PLACE not in op.attributes:
            continue
        match = _TEXT.fullmatch(op.attributes[_PLACE].value)
        if match is None:
            continue
        location = ir.Location.file(match[1], int(match[2]), int(match[3]))
        Emitter(op, location=location).op(_ASSERT, list(op.operands), [], {"msg": op.attributes["msg"]})
        op.erase()
