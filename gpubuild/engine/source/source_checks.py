"""Source checks: what is refused in the text of a source, before MLIR parses it.

MLIR's parser and passes are recursive: on 8 MiB of stack, the parser overflows at 2,000 to 30,000
levels, depending on what is nested. Its bindings have no names but those in UTF-8.

Misspelt attributes: names that look like ones that mean something, and mean nothing.

MLIR keeps any attribute it does not know: ``known_blocksize`` on a kernel changes nothing, and nobody
says so. An attribute of the user's own is no mistake: a name is told only if it is in a dialect of ours
or of kernels, or close to a name that counts where it stands.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate

from mlir import ir

from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, SourceText, file_position
from gpubuild.errors import Diagnostic, Location, StepError
from gpubuild.support.text import any_of, similarity
from gpubuild.targets.registry import vendors

# By LLVM 22: GPUDialect, NVVMDialect, ROCDLDialect and what translates them to LLVM IR.
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
_FUNCTION = ("llvm.emit_c_interface",)
_ARGUMENT = ("nvvm.grid_constant", "llvm.noalias", "llvm.align", "llvm.readonly", "llvm.byval",
             "llvm.nonnull", "llvm.dereferenceable")  # fmt: skip
# What other tools, or the other way to write a kernel, call them.
_ALSO = {"blocksize": _SIZES[0], "workgroupsize": _SIZES[0], "gridsize": _SIZES[1], "clustersize": _SIZES[2]}
# Dialects of which we know every attribute that a function may have. None of ours is for users.
_CLOSED = ("gpubuild", *dict.fromkeys(v.attribute for v in vendors()))
_LIKELY = 0.8
_LINES = 40  # after its operation's beginning: where an attribute stands, unless the text was generated


def find_misspelt(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Warnings, in the order of the text, at the places of the names."""
    found: list[Diagnostic] = []
    found += _told(module.operation, _FILE, source)
    for top in module.body:
        if top.operation.name != "gpu.module":
            found += _told(top.operation, _FUNCTION, source)
            continue
        found += _told(top.operation, _MODULE, source)
        for inner in top.operation.regions[0].blocks[0]:
            found += _told(inner.operation, (*_KERNEL, *_FUNCTION), source)
            found += _of_arguments(inner.operation, source)
    return list(dict.fromkeys(found))


def _told(op: ir.Operation, known: Iterable[str], source: SourceText) -> Iterator[Diagnostic]:
    yield from _warnings(op, [str(name) for name in op.attributes], tuple(known), source)


def _of_arguments(op: ir.Operation, source: SourceText) -> Iterator[Diagnostic]:
    given = op.attributes.get("arg_attrs")
    if isinstance(given, ir.ArrayAttr):
        names = [item.name for attributes in given for item in ir.DictAttr(attributes)]
        yield from _warnings(op, list(dict.fromkeys(names)), _ARGUMENT, source, closed=("gpubuild",))


def _warnings(
    op: ir.Operation,
    names: list[str],
    known: tuple[str, ...],
    source: SourceText,
    closed: tuple[str, ...] = _CLOSED,
) -> Iterator[Diagnostic]:
    for name in names:
        meant = "" if name in known else closest(name, known)
        dialect = name.partition(".")[0] if "." in name else ""
        if not meant and (name in known or dialect not in closed):
            continue
        location, line = _place(op, name, source)
        advice = f"; did you mean {meant!r}?" if meant else ""
        yield Diagnostic(
            message=f"the attribute {name!r} means nothing here{advice}",
            severity="warning",
            location=location,
            source_line=line,
        )


def closest(name: str, known: tuple[str, ...]) -> str:
    """The one of ``known`` that was most likely meant by ``name``; empty if none."""
    dialect, dot, _ = name.rpartition(".")
    stem = _stem(name)
    if dot and not any(_similar(dialect, other.rpartition(".")[0]) for other in known if "." in other):
        return ""  # of a dialect of the user's
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
    """How alike; a word that only begins with a short one, such as `kernel_id`, is another word."""
    if stem == other:
        return 1.0
    short = min(len(stem), len(other)) < 8
    if short and (stem.startswith(other) or other.startswith(stem)) and abs(len(stem) - len(other)) > 1:
        return 0.0
    return similarity(stem, other)


def _similar(dialect: str, other: str) -> bool:
    return similarity(dialect, other) > 0.7 if dialect else not other


def _place(op: ir.Operation, name: str, source: SourceText) -> tuple[Location | None, str]:
    """Where the name stands, at or behind the beginning of ``op``."""
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
_MOST_LISTED = 10
_OPENING, _CLOSING = "([{<", ")]}>"
_STRING = r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"'
# Strings, comments, and what only looks like a bracket.
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
_WHAT = "cannot parse the MLIR text"
_LEVELS = ("0", "1", "2", "3")


def check_source(text: str, source: SourceText, name: str) -> None:
    """Raise ``StepError``, with places in the file ``name``, for text that MLIR would fail on."""
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
    if found:
        raise StepError(_WHAT, diagnostics=found, hint="bytes are written \\HH; `ü` can be written as it is")


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
