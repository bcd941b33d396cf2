"""Parse hints: what to do about the mistakes in MLIR text that people make most often.

MLIR says what is wrong, and not what was probably meant. Only read after a failure.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from gpubuild.errors import Diagnostic, StepError

_NAME = r"[A-Za-z_$.][\w$.-]*"


def advise(error: StepError, text: str) -> StepError:
    """``error`` of parsing ``text``, with a hint about its first mistake where there is one."""
    if not error.diagnostics:
        return error
    first = error.diagnostics[0]
    for pattern, say in _HINTS:
        if found := re.search(pattern, first.message):
            error.hint = say(found, first, text)
            break
    else:
        error.hint = "the text ends too early: a `}` seems to be missing" if _ends_early(first, text) else ""
    # MLIR's list of all dialects says less than the hint.
    bare = tuple(note for note in first.notes if not note.message.startswith("Available dialects"))
    error.diagnostics = (replace(first, notes=bare), *error.diagnostics[1:])
    return error


def _near(word: str, known: Iterable[str], sign: str = "", otherwise: str = "") -> str:
    close = difflib.get_close_matches(word, sorted(set(known) - {word}), 3, 0.7)
    return f"did you mean {' or '.join(sign + name for name in close)}?" if close else otherwise


def _dialect(found: re.Match[str], where: Diagnostic, text: str) -> str:
    listed = next((n.message for n in where.notes if n.message.startswith("Available dialects")), "")
    known = re.findall(r"[a-z_\d]+", listed.partition(":")[2].partition(";")[0])
    return _near(found[1], known, otherwise=f"known dialects: {', '.join(known)}" if known else "")


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


def _ends_early(where: Diagnostic, text: str) -> bool:
    if where.location is None or not where.location.line:
        return False
    lines = text.split("\n")
    rest = [lines[where.location.line - 1][where.location.column - 1 :], *lines[where.location.line :]]
    return not "".join(rest).strip() and text.count("{") > text.count("}")


def _fixed(text: str) -> Callable[[re.Match[str], Diagnostic, str], str]:
    return lambda found, where, source: text


_HINTS: tuple[tuple[str, Callable[[re.Match[str], Diagnostic, str], str]], ...] = (
    (r"^Dialect `(\w+)' not found", _dialect),
    (r"^custom op '([\w.]+)' is unknown", _operation),
    (r"kernel function '@([^:']+)::@([^']+)' is undefined", _kernel),
    (r"kernel container '([^']+)' is undefined", _container),
    (r"missing the 'gpu\.kernel' attribute", _fixed("write `kernel` after the arguments of the gpu.func")),
    (
        r"to have the 'gpu\.container_module' attribute",
        _fixed("begin the module with `module attributes {gpu.container_module} {`"),
    ),
    (r"'([^']+)' does not reference a valid function", _function),
    (r"^use of undeclared SSA value name", _value),
)
