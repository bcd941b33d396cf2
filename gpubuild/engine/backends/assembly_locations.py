"""Places of assembly: which of the user's operations an assembler's message is about.

ptxas names a line of PTX, LLVM's assembler shows a line of inline assembly. What LLVM generates is
right, so that such a message is about inline assembly, which the user's file has word for word but
for its operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.query import operations
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, StepError

_PTXAS = re.compile(r"ptxas .*?, line (?P<line>\d+); *(?:error|fatal) *: (?P<message>.*)")
_INLINE = re.compile(r".*<inline asm>:\d+:\d+: (?P<message>.*)")
_TEXTS = {"llvm.inline_asm": "asm_string", "nvvm.inline_ptx": "ptxCode"}
_OPERAND = re.compile(r"\$\{\w+(?::\w+)?\}|\$\d+|\{\$\w+\}")
_MOST_MESSAGES = 8


def with_ptxas_locations(error: StepError, ptx: str, io: StepIO) -> StepError:
    """Return ``error`` with the locations in the user's file of ptxas' messages about ``ptx``."""
    lines = ptx.splitlines()
    found = ((int(match["line"]), match["message"]) for match in _PTXAS.finditer(error.output))
    return _located(error, ((text, lines[n - 1]) for n, text in found if n <= len(lines)), io)


def with_inline_locations(error: StepError, io: StepIO) -> StepError:
    """The same for LLVM's assembler, which quotes the line below its message."""
    lines = error.output.splitlines()
    matches = ((match, after) for line, after in pairwise(lines) if (match := _INLINE.fullmatch(line)))
    return _located(error, ((match["message"], after) for match, after in matches), io)


def _located(error: StepError, messages: Iterable[tuple[str, str]], io: StepIO) -> StepError:
    told = list(dict.fromkeys(messages))[:_MOST_MESSAGES]
    if not told or not io.has("located"):
        return error
    with contexts.context():
        module = contexts.parse(io.text("located"))
        written = list(_inline_assembly(module))
        found = []
        for message, line in told:
            places = [place for pattern, place in written if pattern.fullmatch(_bare(line))]
            # What stands in several places, or is not found, is better not blamed on one.
            if len(places) == 1:
                location, text = locate(places[0], SourceText())
                found.append(Diagnostic(message=message, location=location, source_line=text))
    return error.with_(diagnostics=(*error.diagnostics, *found))


def _inline_assembly(module: ir.Module) -> Iterator[tuple[re.Pattern[str], ir.Location]]:
    """Each line of inline assembly, as a pattern of what becomes of it, with its operation's place."""
    for op in operations(module.operation, _TEXTS):
        for line in op.attributes[_TEXTS[op.name]].value.splitlines():
            if bare := _bare(line):
                yield re.compile(".*".join(map(re.escape, _OPERAND.split(bare)))), op.location


def _bare(line: str) -> str:
    return " ".join(line.split())
