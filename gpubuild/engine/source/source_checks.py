"""Check the text of a source before MLIR parses it, and the names of attributes afterwards.

MLIR's parser and passes are recursive: on 8 MiB of stack, the parser overflows at 2,000 to 30,000
levels, depending on the kind of nesting.
MLIR accepts any attribute, so ``known_blocksize`` on a kernel has no effect. A warning is given for names
in a dialect of ours or of kernels, and for names close to one that has a meaning on the operation.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from functools import cache
from itertools import accumulate

from mlir import ir

from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, SourceText, file_position, refuse
from gpubuild.errors import Diagnostic, Location, StepError
from gpubuild.support.text import any_of, similarity
from gpubuild.targets.registry import vendors

# Of LLVM 22: GPUDialect, NVVMDialect, ROCDLDialect and their translation to LLVM IR.
_OF_NVVM = ("kernel", "maxntid", "reqntid", "cluster_dim", "cluster_max_blocks", "minctasm", "maxnreg",
            "blocksareclusters", "maxclusterrank", "managed")  # fmt: skip
_OF_ROCDL = ("kernel", "flat_work_group_size", "max_flat_work_group_size", "reqd_work_group_size",
             "uniform_work_group_size", "waves_per_eu", "unsafe_fp_atomics", "cluster_dims")  # fmt: skip
_SIZES = ("known_block_size", "known_grid_size", "known_cluster_size")
_KERNEL = (
    *_SIZES,
    *("gpu.kernel", *(f"gpu.{name}" for name in _SIZES)),
    *(f"nvvm.{name}" for name in _OF_NVVM),
    *(f"rocdl.{name}" for name in _OF_ROCDL),
)
_MODULE = ("targets", "offloadingHandler")
_FILE = ("gpu.container_module",)
# Most operations have these, and comparing names takes a millisecond for ten.
_COMMON = frozenset({"arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"})
_FUNCTION = ("llvm.emit_c_interface",)
_ARGUMENT = ("nvvm.grid_constant", "llvm.noalias", "llvm.align", "llvm.readonly", "llvm.byval",
             "llvm.nonnull", "llvm.dereferenceable")  # fmt: skip
# Names in other tools.
_ALSO = {"blocksize": _SIZES[0], "workgroupsize": _SIZES[0], "gridsize": _SIZES[1], "clustersize": _SIZES[2]}
# Dialects whose attributes of functions are all listed above. Ours has none for users.
_CLOSED = ("gpubuild", *dict.fromkeys(v.attribute for v in vendors()))
_LIKELY = 0.8
_LINES = 40  # after the start of an operation, in which attributes are searched


def find_misspelt(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return warnings about attributes, at the locations of their names."""
    found = _warnings(module.operation, _FILE, source)
    for top in module.body:
        if top.operation.name != "gpu.module":
            found += _warnings(top.operation, _FUNCTION, source)
            continue
        found += _warnings(top.operation, _MODULE, source)
        for inner in top.operation.regions[0].blocks[0]:
            found += _warnings(inner.operation, (*_KERNEL, *_FUNCTION), source)
            given = inner.attributes.get("arg_attrs")
            if isinstance(given, ir.ArrayAttr):
                names = [item.name for attributes in given for item in attributes]
                found += _warnings(inner.operation, _ARGUMENT, source, names, closed=("gpubuild",))
    return list(dict.fromkeys(found))


def _warnings(
    op: ir.Operation,
    known: tuple[str, ...],
    source: SourceText,
    names: Iterable[str] | None = None,
    closed: tuple[str, ...] = _CLOSED,
) -> list[Diagnostic]:
    """Return warnings about attributes of ``op`` that are not ``known``, or about ``names``."""
    found = []
    for name in op.attributes if names is None else names:
        if name in _COMMON:
            continue
        meant = "" if name in known else closest(name, known)
        dialect = name.partition(".")[0] if "." in name else ""
        if not meant and (name in known or dialect not in closed):
            continue
        location, line = _location(op, name, source)
        advice = f"; did you mean {meant!r}?" if meant else ""
        found.append(
            Diagnostic(
                message=f"the attribute {name!r} means nothing here{advice}",
                severity="warning",
                location=location,
                source_line=line,
            )
        )
    return found


@cache
def closest(name: str, known: tuple[str, ...]) -> str:
    """Return the one of ``known`` that ``name`` most likely means; empty if none."""
    dialect, dot, _ = name.rpartition(".")
    stem = _stem(name)
    if dot and not any(_similar(dialect, other.rpartition(".")[0]) for other in known if "." in other):
        return ""  # the user's own dialect
    if not dot and (meant := _ALSO.get(stem, "")) in known:
        return meant
    scored = [
        (_score(stem, _stem(other)), _similar(dialect, other.rpartition(".")[0]), other) for other in known
    ]
    score, _, meant = max(scored, key=lambda entry: entry[:2])
    return meant if score >= _LIKELY else ""


def _stem(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.rpartition(".")[2].lower())


def _score(stem: str, other: str) -> float:
    short = min(len(stem), len(other)) < 8  # `kernel_id` is not a misspelt `kernel`
    if short and (stem.startswith(other) or other.startswith(stem)) and abs(len(stem) - len(other)) > 1:
        return 0.0
    return similarity(stem, other)


def _similar(dialect: str, other: str) -> bool:
    return similarity(dialect, other) > 0.7 if dialect else not other


def _location(op: ir.Operation, name: str, source: SourceText) -> tuple[Location | None, str]:
    """Return the location of the name, at or after the start of ``op``, and its line."""
    position = file_position(op.location)
    if position is None or (position[0] == UNNAMED_BUFFER and position[1] == 0):
        return None, ""
    file, first, column = position
    word = re.compile(rf"(?<![\w.$]){re.escape(name)}(?![\w.$])")
    for number in range(first, first + _LINES):
        text = source.line(file, number)
        if match := word.search(text):
            return Location(file=source.name(file), line=number, column=match.start() + 1), text
    return Location(file=source.name(file), line=first, column=column), source.line(file, first)


MOST_LEVELS = 1000
_OPENING, _CLOSING = "([{<", ")]}>"
_STRING = r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
# Strings, comments, arrows and comparisons.
_NO_BRACKETS = rf"{_STRING}|//[^\n]*|->|[<>]="
_ASIDE = re.compile(_NO_BRACKETS)
_TOKEN = re.compile(rf"{_NO_BRACKETS}|[{re.escape(_OPENING + _CLOSING)}]")
_STEPS = bytes.maketrans((_OPENING + _CLOSING).encode(), b"\x01" * 4 + b"\xff" * 4)
_REST = bytes(set(range(256)) - set((_OPENING + _CLOSING).encode()))
_NO_ASCII = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)")
_READ_AS_TEXT = {
    "@": "the name",
    "sym_name = ": "the name",
    "gpu.printf ": "the format",
    "loc(": "the file name",
}
_NAMED = re.compile(rf"//[^\n]*|({'|'.join(map(re.escape, _READ_AS_TEXT))})?{_STRING}")
_MOST_LISTED = 10
_WHAT = "invalid MLIR"
_LEVELS = ("0", "1", "2", "3")


def check_source(text: str, source: SourceText, name: str) -> None:
    """Raise ``StepError``, with places in the file ``name``, for text that MLIR would fail on."""
    if not text.strip():
        raise StepError(f"{name} is empty", hint="a source has gpu.modules, host code or both")
    text = text.partition("{-#")[0]  # resources, which nest and name nothing, may be very large
    if sum(map(text.count, _OPENING)) > MOST_LEVELS:
        _refuse_deep(text, source, name)
    if _NO_ASCII.search(text):
        _refuse_undecodable(text, source, name)
    if ".target<" in text:
        _refuse_targets(text, source, name)


def _refuse_deep(text: str, source: SourceText, name: str) -> None:
    steps = _ASIDE.sub("", text).encode(errors="replace").translate(_STEPS, _REST)
    if max(accumulate(array("b", steps)), default=0) <= MOST_LEVELS:
        return
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in _OPENING) - (token[0] in _CLOSING)
        if depth > MOST_LEVELS:
            message = f"nested too deeply: this is level {depth}, and {MOST_LEVELS} can be compiled"
            raise StepError(
                _WHAT,
                diagnostics=[_at(token.start(), message, text, source, name)],
                hint="move inner regions into functions of their own, or use flatter types and attributes",
            )


def _refuse_undecodable(text: str, source: SourceText, name: str) -> None:
    found: list[Diagnostic] = []
    for match in _NAMED.finditer(text):
        if len(found) < _MOST_LISTED and match[1] and not _is_utf8(match[2]):
            message = f'{_READ_AS_TEXT[match[1]]} "{match[2]}" is not UTF-8'
            found.append(_at(match.start(2) - 1, message, text, source, name))
    refuse(_WHAT, found, "bytes are written \\HH; `ü` needs no escape")


_TARGET = re.compile(rf"//[^\n]*|#(\w+)\.target<((?:[^<>\"]|{_STRING})*)>")
_FIELD = re.compile(rf"\b(O|abi|chip|triple)\s*=\s*(?:{_STRING}|(-?\w+))")


def _refuse_targets(text: str, source: SourceText, name: str) -> None:
    """Refuse values of target attributes on which MLIR's verifier ends the process."""
    for target in _TARGET.finditer(text):
        vendor = next((v for v in vendors() if v.attribute == target[1]), None)
        if vendor is None:
            continue
        for field in _FIELD.finditer(target[2]):
            key, value = field[1], field[2] or field[3] or ""
            flaw = ""
            if key == "O" and value not in _LEVELS:
                flaw = f"O = {value}: the optimisation level is 0, 1, 2 or 3"
            elif key == "abi" and vendor.abis and value not in vendor.abis:
                flaw = f"unknown ABI version {value!r}: use {any_of(vendor.abis)}"
            elif key in ("chip", "triple") and not value:
                flaw = f"{key} is empty"
            if flaw:
                at = _at(target.start(2) + field.start(), flaw, text, source, name)
                raise StepError(
                    _WHAT, diagnostics=[at], hint=f"correct #{target[1]}.target, or leave {key} out"
                )


def _is_utf8(literal: str) -> bool:
    def byte(match: re.Match[bytes]) -> bytes:
        return bytes.fromhex(match[1].decode()) if len(match[1]) == 2 else match[1]

    try:
        _ESCAPE.sub(byte, literal.encode(errors="replace")).decode()
    except UnicodeDecodeError:
        return False
    return True


def _at(offset: int, message: str, text: str, source: SourceText, name: str) -> Diagnostic:
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    location = Location(file=name, line=line, column=column)
    return Diagnostic(message=message, location=location, source_line=source.line(name, line))
