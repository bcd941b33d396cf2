"""The record of a workaround, and the workarounds that every MLIR pipeline needs.

A module ``workarounds`` at each level has the code and a table ``WORKAROUNDS``. A test lists all tables
and fails when a package that ``pyproject.toml`` pins reaches the version at which to remove one.
"""

from __future__ import annotations

import re
from functools import cache

from gpubuild.support.frozen import frozen


@frozen
class Workaround:
    """A workaround of an upstream error, and when to remove it."""

    name: str  # of the function or pass in its module
    bug: str
    seen: str  # upstream's issue, or the version that it was measured with
    package: str  # that has the error, as pyproject.toml pins it
    remove_when: str  # the version of the package at which to remove it, or to look again


# Class names of patterns, as the compilers that MLIR is built with spell anonymous namespaces.
_WRONG = ",".join(
    f"{namespace}::{pattern}"
    for namespace in ("{anonymous}", "(anonymous namespace)")
    for pattern in ("IndexCastOfIndexCast", "IndexCastUIOfIndexCastUI", "ElideSingleElementReduction")
)
_OPTION = f"disable-patterns={{{_WRONG}}}"
_PASS = re.compile(r"(?<![-\w])canonicalize(?![-\w])(\{)?")


@cache
def disable_wrong_patterns(pipeline: str) -> str:
    """Return ``pipeline`` whose ``canonicalize`` passes do not have the patterns that change results.

    Two remove ``index`` to ``i8`` and back, although the first cast cuts bits off. One makes a reduction
    of a single element that element, although its mask may leave it out.
    """
    return _PASS.sub(lambda found: f"canonicalize{{{_OPTION}{' ' if found[1] else '}'}", pipeline)


_SWITCH = re.compile(r"\bcf\.switch\s+(%[^\s:]+)\s*:\s*(i(\d+))\s*,\s*\[")
_CASE = re.compile(r"\s*(?:default|(-?\d+))\s*:\s*(\^[\w.$-]+)\s*")
_AFTER_CASE = re.compile(r"\s*(?:,|(\])\s*((?:\{[^{}]*\})?))")


def generic_switches(text: str) -> str:
    """Return MLIR text with the generic form of each ``cf.switch`` that only the printer can write.

    MLIR prints the case -1 of i8 as 255, which ends the process that reads it, and names operands such
    as ``%1#0``, which its parser refuses there.
    """
    done, parts = 0, []
    for head in _SWITCH.finditer(text) if "cf.switch" in text else ():
        generic, end = _generic_switch(text, head)
        if generic:
            parts += [text[done : head.start()], generic, "\n" * text.count("\n", head.start(), end)]
            done = end
    return "".join([*parts, text[done:]])


def _generic_switch(text: str, head: re.Match[str]) -> tuple[str, int]:
    """Return the generic form of the switch at ``head`` and the position after it; empty if not needed."""
    flag, kind, bits = head[1], head[2], int(head[3])
    values, blocks, names, types, counts = [], [], [flag], [kind], []
    end = head.end()
    while case := _CASE.match(text, end):
        end = closing = case.end()
        count = 0
        if text.startswith("(", end):
            closing = _closing(text, end)
            operands, _, their_types = text[end + 1 : closing - 1].partition(":")
            count = operands.count(",") + 1
            names.append(operands)
            types.append(their_types)
        values += [int(case[1])] if case[1] else []
        blocks.append(case[2])
        counts.append(count)
        after = _AFTER_CASE.match(text, closing)
        if after is None:
            break
        end = after.end()
        if after[1]:
            readable = all(-(1 << bits - 1) <= value < 1 << bits - 1 for value in values)
            if readable and not any("#" in name for name in names[1:]):
                break
            segments = f"1, {counts[0]}, {sum(counts[1:])}"
            cases = f"case_values = dense<{values}> : vector<{len(values)}x{kind}>, " if values else ""
            return (
                f'"cf.switch"({", ".join(names)}) [{", ".join(blocks)}] <{{{cases}case_operand_segments = '
                f"array<i32{': ' * bool(values)}{', '.join(map(str, counts[1:]))}>, "
                f"operandSegmentSizes = array<i32: {segments}>}}> {after[2]} : ({', '.join(types)}) -> ()"
            ), end
    return "", end


def _closing(text: str, start: int) -> int:
    """Return the position after the bracket that closes the one at ``start``."""
    depth = 0
    for found in re.compile(r"[()]").finditer(text, start):
        depth += 1 if found[0] == "(" else -1
        if not depth:
            return found.end()
    return len(text)


WORKAROUNDS = (
    Workaround(
        name="disable_wrong_patterns",
        bug="canonicalize removes an index cast that cuts bits off and the cast back, and masks",
        seen="llvm/llvm-project#90238, llvm/llvm-project#90296; MLIR 22.1.8",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
    Workaround(
        name="generic_switches",
        bug="the parser does not take a cf.switch with negative cases or operands `%1#0` as it is printed",
        seen="MLIR 22.1.8",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
)
