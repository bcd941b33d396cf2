"""Parse hints: what to do about the mistakes in MLIR text that people make most often.

MLIR says what is wrong, and not what was probably meant. Only read after a failure.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from gpubuild.errors import Diagnostic, StepError
from gpubuild.support.text import nearest

_NAME = r"[A-Za-z_$.][\w$.-]*"


def advise(error: StepError, text: str) -> StepError:
    """Return ``error`` of parsing ``text`` with a hint about its first diagnostic, if one is known."""
    if not error.diagnostics:
        return error
    first = error.diagnostics[0]
    for pattern, say in _HINTS:
        if found := re.search(pattern, first.message):
            hint = say(found, first, text)
            break
    else:
        hint = _braces(first, text)
    # MLIR's list of all dialects says less than the hint.
    bare = tuple(note for note in first.notes if not note.message.startswith("Available dialects"))
    return error.with_(hint=hint, diagnostics=(replace(first, notes=bare), *error.diagnostics[1:]))


def _near(word: str, known: Iterable[str], sign: str = "", otherwise: str = "") -> str:
    close = nearest(word, set(known) - {word}, 3, cutoff=0.7)
    return f"did you mean {' or '.join(sign + name for name in close)}?" if close else otherwise


def _dialect(found: re.Match[str], where: Diagnostic, text: str) -> str:
    listed = next((n.message for n in where.notes if n.message.startswith("Available dialects")), "")
    known = re.findall(r"[a-z_\d]+", listed.partition(":")[2].partition(";")[0])
    return _near(found[1], known, otherwise=f"known dialects: {', '.join(known)}" if known else "")


def _bare(found: re.Match[str], where: Diagnostic, text: str) -> str:
    """Only functions of the func dialect end with a word of no dialect."""
    if found[1] == "return":
        return "a gpu.func ends with `gpu.return`, an llvm.func with `llvm.return`"
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
    """MLIR points at the last operation of the block; what must follow depends on whose block it is."""
    line = where.location.line if where.location else 0
    before = "\n".join(text.split("\n")[:line])
    owners = re.findall(r"\b(gpu\.func|func\.func|llvm\.func)\b[^{}]*?@", before)
    ends = {"gpu.func": "gpu.return", "func.func": "return", "llvm.func": "llvm.return"}
    return f"a `{ends[owners[-1]]}` seems to be missing at the end of the {owners[-1]}" if owners else ""


def _argument(found: re.Match[str], where: Diagnostic, text: str) -> str:
    """Arguments of a launch beside those of its kernel, which MLIR does not show."""
    line = where.location.line if where.location else 0
    launch = re.search(rf"gpu\.launch_func\b.*?::@({_NAME})", "\n".join(text.split("\n")[line - 1 :]), re.S)
    if not launch:
        return ""
    kernel = re.search(rf"\bgpu\.func\s+@{re.escape(launch[1])}\s*\(([^()]*)\)", text)
    return f"the kernel is gpu.func @{launch[1]}({' '.join(kernel[1].split())})" if kernel else ""


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
        return "there are more `}` than `{`: one seems to be too many, here or further up"
    return ""


def _fixed(text: str) -> Callable[[re.Match[str], Diagnostic, str], str]:
    return lambda found, where, source: text


_HINTS: tuple[tuple[str, Callable[[re.Match[str], Diagnostic, str], str]], ...] = (
    (r"^Dialect `(\w+)' not found", _dialect),
    (r"^Dialect `' not found for custom op '([^']+)'", _bare),
    (r"^custom op '([\w.]+)' is unknown", _operation),
    (r"kernel function '@([^:']+)::@([^']+)' is undefined", _kernel),
    (r"kernel container '([^']+)' is undefined", _container),
    (r"missing the 'gpu\.kernel' attribute", _fixed("write `kernel` after the arguments of the gpu.func")),
    (
        r"to have the 'gpu\.container_module' attribute",
        _fixed("begin the module with `module attributes {gpu.container_module} {`"),
    ),
    (r"'([^']+)' does not reference a valid function", _function),
    (r"^block with no terminator", _terminator),
    (r"got \d+ kernel operands but expected|type of function argument \d+ does not match", _argument),
    (
        r"^operation being parsed with an unregistered dialect",
        _fixed("gpubuild knows no such operation, and could not lower it: take one of a dialect of MLIR"),
    ),
    (r"^use of undeclared SSA value name", _value),
)
