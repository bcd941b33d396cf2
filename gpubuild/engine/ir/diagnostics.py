"""Convert MLIR's diagnostics into records with file, line, column and source text.

And give hints about the most frequent errors in MLIR text: MLIR does not suggest what was meant.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild.engine.ir.older_forms import form_of_today
from gpubuild.errors import Diagnostic, Location, StepError
from gpubuild.support import text as columns
from gpubuild.support.text import nearest

if TYPE_CHECKING:
    from mlir import ir

UNNAMED_BUFFER = "-"  # MLIR's file name for text parsed from memory
_OP_DUMP = "see current operation"  # a note with the op in generic form; the source line is clearer
_NOT_LEGALIZED = re.compile(r"failed to legalize operation '([\w.]+)'")
_SEVERITIES = {"ERROR": "error", "WARNING": "warning", "NOTE": "note", "REMARK": "remark"}


class SourceText:
    """Find lines for messages, in the parsed text or in the named file.

    ``source_name`` replaces MLIR's name for text parsed from memory. Files are read when a message points
    into them; lines of unreadable ones are empty.
    """

    def __init__(self, text: str = "", source_name: str = "") -> None:
        self.text = text
        self._name = source_name
        self._lines: dict[str, Sequence[str]] = {}

    def name(self, file: str) -> str:
        """Return the name of ``file`` in messages."""
        return (self._name or "<input>") if file == UNNAMED_BUFFER else file

    def line(self, file: str, number: int) -> str:
        """Return line ``number`` (from 1) of ``file``, or an empty string."""
        if self.text and file in (UNNAMED_BUFFER, self._name):
            file = UNNAMED_BUFFER
            if file not in self._lines:
                self._lines[file] = _split(self.text)
        if file not in self._lines:
            try:
                self._lines[file] = _split(Path(file).read_text(encoding="utf-8", errors="replace"))
            except (OSError, ValueError):
                self._lines[file] = ()
        lines = self._lines[file]
        return lines[number - 1] if 0 < number <= len(lines) else ""


def _split(text: str) -> Sequence[str]:
    # For splitlines() a form feed or U+2028 ends a line, too.
    return [line.rstrip("\r") for line in text.split("\n")]


def from_mlir(infos: Iterable[ir.DiagnosticInfo], source: SourceText) -> tuple[Diagnostic, ...]:
    """Convert ``mlir.ir.DiagnosticInfo`` (or live ``Diagnostic``) values with all their notes."""
    return tuple(_convert(info, source) for info in infos)


def _convert(info: ir.DiagnosticInfo, source: SourceText) -> Diagnostic:
    location, line = locate(info.location, source)
    return Diagnostic(
        message=_explained(info.message.strip(), [note.message for note in info.notes]),
        severity=_SEVERITIES.get(getattr(info.severity, "name", ""), "error"),
        location=location,
        source_line=line,
        notes=tuple(_convert(note, source) for note in info.notes if not note.message.startswith(_OP_DUMP)),
    )


def _explained(message: str, notes: Sequence[str]) -> str:
    """Return the message of a failed conversion with the types, and without MLIR's own terms."""
    match = _NOT_LEGALIZED.match(message)
    if match is None:
        return message
    dump = next((note for note in notes if note.startswith(_OP_DUMP)), "")
    # The type of a function is an attribute; the dump ends with the empty type of the operation.
    types = re.search(r"function_type = (.+?)(?:, \w+ = |}>)", dump) or re.search(
        r" : (\([^{}]*\) -> .+)$", dump.strip()
    )
    of = f" of type {types[1]}" if types else ""
    return (
        f"'{match[1]}'{of} cannot be lowered for this target: no conversion knows it, or not with these types"
    )


def about(op: ir.Operation, message: str, source: SourceText, *, severity: str = "error") -> Diagnostic:
    """Return an error or warning at the location of ``op``."""
    location, line = locate(op.location, source)
    return Diagnostic(message=message, severity=severity, location=location, source_line=line)


def refuse(message: str, found: Sequence[Diagnostic], hint: str = "") -> None:
    """Raise ``StepError`` if errors were ``found``."""
    if found:
        raise StepError(message, diagnostics=found, hint=hint)


def locate(location: ir.Location, source: SourceText) -> tuple[Location | None, str]:
    """Return the first file position inside an MLIR location, or ``None``, and the text of its line.

    A call site counts as the code that was written, not as the call into which it was inlined.
    """
    found = file_position(location)
    if found is None:
        return None, ""
    file, line, column = found
    # The position of an operation that a pass created: useless.
    if file == UNNAMED_BUFFER and line == 0:
        return None, ""
    text = source.line(file, line)
    return Location(file=source.name(file), line=line, column=columns.of_byte(text, column)), text


def file_position(location: ir.Location) -> tuple[str, int, int] | None:
    """Return (file, line, column) inside an MLIR location, or ``None``."""
    if location.is_a_file():
        return location.filename, location.start_line, location.start_col
    if location.is_a_name():
        return file_position(location.child_loc)
    if location.is_a_callsite():
        return file_position(location.callee) or file_position(location.caller)
    if location.is_a_fused():
        for part in location.locations:
            if (found := file_position(part)) is not None:
                return found
    return None


_NAME = r"[A-Za-z_$.][\w$.-]*"


# Dialects of other projects, and the tools that lower them.
_FOREIGN = {
    "stablehlo": "stablehlo-opt --stablehlo-legalize-to-linalg",
    "chlo": "stablehlo-opt --chlo-legalize-to-stablehlo --stablehlo-legalize-to-linalg",
    "vhlo": "stablehlo-translate --deserialize, then stablehlo-opt --stablehlo-legalize-to-linalg",
    "mhlo": "mlir-hlo-opt --hlo-legalize-to-stablehlo, then stablehlo-opt --stablehlo-legalize-to-linalg",
    "tt": "triton-shared-opt --triton-to-linalg-experimental",
    "torch": "torch-mlir-opt --torch-backend-to-linalg-on-tensors-backend-pipeline",
}
_FOREIGN_NAME = re.compile(rf"""[!"\s]({"|".join(_FOREIGN)})\.""")


_OF_ANOTHER_PROJECT = "lower it to dialects of MLIR first, with the tools of the project that it belongs to"
_UNREGISTERED = re.compile(
    r"""operation being parsed with an unregistered dialect|`([!#])"(\w+)"<"(.*)">` \w+ created with unreg"""
)


def _of_unknown_dialect(first: Diagnostic) -> Diagnostic:
    """Name the operation, type or attribute: MLIR's message is about an option of its own tools."""
    found = _UNREGISTERED.match(first.message)
    if found is None:
        return first
    column = first.location.column if first.location else 0
    name = "".join(re.findall(r"\"([\w$.]+)\"\s*$", first.source_line[: column - 1]))
    name = f"{found[1]}{found[2]}.{found[3]}" if found[2] else name
    return replace(first, message=f"'{name}' is of a dialect that MLIR does not have")


def advise(error: StepError, text: str) -> StepError:
    """Return ``error`` of parsing ``text`` with a hint about its first diagnostic, if one is known."""
    if not error.diagnostics:
        return error
    first = error.diagnostics[0]
    notes = tuple(note for note in first.notes if not note.message.startswith("Available dialects"))
    described = _of_unknown_dialect(replace(first, notes=notes))
    shown = error.with_(diagnostics=(described, *error.diagnostics[1:]))
    if today := form_of_today(first.source_line):
        return shown.with_(hint=f"{today} (this is a form of an older MLIR)")
    if foreign := _FOREIGN_NAME.search(first.source_line):
        hint = f"lower '{foreign[1]}' to linalg on tensors first: {_FOREIGN[foreign[1]]}"
        return shown.with_(hint=hint)
    for pattern, say in _HINTS:
        if found := re.search(pattern, first.message):
            hint = say if isinstance(say, str) else say(found, first, text)
            break
    else:
        hint = _braces(first, text)
    return shown.with_(hint=hint)


def _near(word: str, known: Iterable[str], sign: str = "", otherwise: str = "") -> str:
    close = nearest(word, set(known) - {word}, 3, cutoff=0.7)
    return f"did you mean {' or '.join(sign + name for name in close)}?" if close else otherwise


def _dialect(found: re.Match[str], where: Diagnostic, text: str) -> str:
    listed = next((n.message for n in where.notes if n.message.startswith("Available dialects")), "")
    known = re.findall(r"[a-z_\d]+", listed.partition(":")[2].partition(";")[0])
    return _near(found[1], known, otherwise=_OF_ANOTHER_PROJECT if known else "")


def _bare(found: re.Match[str], where: Diagnostic, text: str) -> str:
    if found[1] == "return":  # without a dialect only in functions of the func dialect
        return "a gpu.func ends with `gpu.return`, an llvm.func with `llvm.return`"
    if found[1] == "kernel":
        return "`kernel` is for a gpu.func, in a gpu.module"
    return f"write its dialect, too: `<dialect>.{found[1]}`"


def _operation(found: re.Match[str], where: Diagnostic, text: str) -> str:
    try:
        module = importlib.import_module(f"mlir.dialects._{found[1].partition('.')[0]}_ops_gen")
    except ImportError:
        return ""
    names = (getattr(value, "OPERATION_NAME", "") for value in vars(module).values())
    return _near(found[1], [name for name in names if isinstance(name, str) and name])


def _kernel(found: re.Match[str], where: Diagnostic, text: str) -> str:
    kernels = re.findall(rf"\b(?:gpu|llvm)\.func\s+@({_NAME})", text)
    return _near(found[2], kernels, f"@{found[1]}::@", f"kernels: {', '.join(kernels) or 'none'}")


def _container(found: re.Match[str], where: Diagnostic, text: str) -> str:
    modules = re.findall(rf"\bgpu\.(?:module|binary)\s+@({_NAME})", text)
    before, kernel, _ = text.partition(f"gpu.func @{found[1]}(")
    if kernel and (around := re.findall(rf"\bgpu\.module\s+@({_NAME})", before)):
        return f"write its gpu.module, too: @{around[-1]}::@{found[1]}"
    return _near(found[1], modules, "@", f"gpu.modules: {', '.join(modules) or 'none'}")


def _function(found: re.Match[str], where: Diagnostic, text: str) -> str:
    functions = re.findall(rf"\bfunc\.func\s+(?:\w+\s+)?@({_NAME})", text)
    advice = "define or declare it beside the caller; kernels see their own gpu.module only"
    return _near(found[1], functions, "@", advice)


def _value(found: re.Match[str], where: Diagnostic, text: str) -> str:
    column = where.location.column if where.location else 0
    used = re.match(rf"%({_NAME}|\d+)", where.source_line[column - 1 :]) if column else None
    if used is None:
        return ""
    return _near(used[1], re.findall(rf"%({_NAME})", text), "%")


def _terminator(found: re.Match[str], where: Diagnostic, text: str) -> str:
    line = where.location.line if where.location else 0  # of the last operation of the block
    before = "\n".join(text.split("\n")[:line])
    owners = re.findall(r"\b(gpu\.func|func\.func|llvm\.func)\b[^{}]*?@", before)
    ends = {"gpu.func": "gpu.return", "func.func": "return", "llvm.func": "llvm.return"}
    return f"a `{ends[owners[-1]]}` seems to be missing at the end of the {owners[-1]}" if owners else ""


def _argument(found: re.Match[str], where: Diagnostic, text: str) -> str:
    line = where.location.line if where.location else 0
    launch = re.search(rf"gpu\.launch_func\b.*?::@({_NAME})", "\n".join(text.split("\n")[line - 1 :]), re.S)
    if not launch:
        return ""
    kernel = re.search(rf"\bgpu\.func\s+@{re.escape(launch[1])}\s*\(([^()]*)\)", text)
    return f"the kernel is gpu.func @{launch[1]}({' '.join(kernel[1].split())})" if kernel else ""


_OF_FLOATS = {
    "addi": "addf", "subi": "subf", "muli": "mulf", "divsi": "divf", "divui": "divf", "remsi": "remf",
    "cmpi": "cmpf", "maxsi": "maximumf", "minsi": "minimumf",
}  # fmt: skip
_CONVERSIONS = {
    "i": "arith.index_cast converts between index and integers, arith.extsi, extui and trunci others",
    "f": "arith.extf and arith.truncf convert floats",
    "fi": "arith.sitofp, uitofp, fptosi and fptoui convert; index needs arith.index_cast, too",
}


def _conversion(found: re.Match[str], where: Diagnostic, text: str) -> str:
    return _CONVERSIONS["".join(sorted({kind[0] for kind in found.groups()}))]


def _arithmetic(found: re.Match[str], where: Diagnostic, text: str) -> str:
    other = {**_OF_FLOATS, **{f: i for i, f in reversed(_OF_FLOATS.items())}}.get(found[1], "")
    return f"for {found[2]}, write arith.{other}" if other else ""


def _types(found: re.Match[str], where: Diagnostic, text: str) -> str:
    column = where.location.column if where.location else 0
    if where.source_line[column - 1 :].partition("//")[0].strip():
        return ""
    return "an operation ends with its types, as in `memref.load %m[%i] : memref<?xf32>`"


def _launch_arguments(found: re.Match[str], where: Diagnostic, text: str) -> str:
    if where.location is None:
        return ""
    after = "\n".join(text.split("\n")[where.location.line - 1 :])[where.location.column - 1 :]
    older = form_of_today("gpu.launch args(") if after.split("(")[0].strip() == "args" else ""
    return older and f"{older} (this is a form of an older MLIR)"


def _braces(where: Diagnostic, text: str) -> str:
    if where.location is None or not where.location.line:
        return ""
    lines = text.split("\n")
    column = where.location.column
    rest = [lines[where.location.line - 1][column - 1 :], *lines[where.location.line :]]
    more = text.count("{") - text.count("}")
    if more > 0 and not "".join(rest).strip():
        return "the text ends too early: a `}` seems to be missing"
    if more < 0 and lines[where.location.line - 1][: column - 1].strip() == "}":
        return "there are more `}` than `{`: one seems to be too many, here or above"
    return ""


# Patterns of messages, and what to write, or a function that finds that.
_HINTS: tuple[tuple[str, str | Callable[[re.Match[str], Diagnostic, str], str]], ...] = (
    (r"^Dialect `(\w+)' not found", _dialect),
    (r"^Dialect `' not found for custom op '([^']+)'", _bare),
    (r"^custom op '([\w.]+)' is unknown", _operation),
    (r"kernel function '@([^:']+)::@([^']+)' is undefined", _kernel),
    (r"kernel (?:container|module) '([^']+)' is undefined", _container),
    (
        r"missing the 'gpu\.kernel' attribute",
        "write `kernel` after the arguments of the gpu.func; `nvvm.kernel` alone is of an older MLIR",
    ),
    (r"^'gpu\.return' op expects parent op", "the body of a gpu.launch ends with `gpu.terminator`"),
    (
        r"to have the 'gpu\.container_module' attribute",
        "begin the module with `module attributes {gpu.container_module} {`",
    ),
    (r"'([^']+)' does not reference a valid function", _function),
    (r"^block with no terminator", _terminator),
    (r"got \d+ kernel operands but expected|type of function argument \d+ does not match", _argument),
    (_UNREGISTERED.pattern, _OF_ANOTHER_PROJECT),
    (
        r"custom op 'bufferization\.to_(tensor|buffer)' (?:expected 'to'|invalid kind of type)",
        lambda found, where, text: f"write both types: `bufferization.to_{found[1]} %x : type to type`",
    ),
    (
        r"'scf\.parallel' op expects body to terminate with 'scf\.reduce'",
        "leave scf.yield out; a loop with results ends with `scf.reduce(%x : type) { … }`",
    ),
    (r"^unexpected key: dimLevelType", "write `map = (d0, d1) -> (d0 : dense, d1 : compressed)`"),
    (r"^expected '\{' to begin a region", _launch_arguments),
    (r"^use of undeclared SSA value name", _value),
    (r"expects different type than prior uses: '(index|[if]\d+)' vs '(index|[if]\d+)'$", _conversion),
    (r"^'arith\.(\w+)' op operand #\d+ must be [\w-]+-like.*, but got '(index|[if]\d+)'$", _arithmetic),
    (r"^expected ':'$", _types),
)
