"""Textdiff: which functions of a canonical module text differ, known from a summary of each text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from zlib import crc32

# Function name (with its @) → a number for each line, SSA names left out. The empty name holds what
# is in no function. A function too long to be worth it has one number for all of its text.
Summary = Mapping[str, list[int]]

_FUNCTION = re.compile(r'^(\s*)(?:gpu|func|llvm|spirv)\.func\b[^@]*(@(?:"[^"]*"|[\w$.-]+))')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_LONG_LINES = 2000


def summarize(text: str) -> dict[str, list[int]]:
    """The summary of a module as the engine prints it: an op a line, functions indented."""
    functions: dict[str, list[str]] = {"": []}
    current, closing = "", ""
    for line in text.splitlines():
        found = _FUNCTION.match(line) if not current else None
        if found:
            name = found[2]
            functions[name] = [line]
            if line.endswith("{"):
                current, closing = name, found[1] + "}"
            continue
        functions[current].append(line)
        if current and line.rstrip() == closing:
            current = ""
    return {name: _numbers(lines) for name, lines in functions.items() if lines}


def describe_difference(old: Summary, new: Summary) -> str:
    """``@reduce_rows, 2 ops differ; @scale is new``."""
    found = [f"{name} is new" for name in new if name and name not in old]
    found += [f"{name} is gone" for name in old if name and name not in new]
    for name in new:
        if name in old and old[name] != new[name]:
            found.append(f"{name}, {_count(old[name], new[name])}" if name else "declarations differ")
    return "; ".join(sorted(found)) or "operands differ"


def _numbers(lines: list[str]) -> list[int]:
    # The last number is of the text with its SSA names: operands may be all that differs.
    whole = crc32("\n".join(lines).encode())
    if len(lines) > _LONG_LINES:
        return [whole]
    return [*(crc32(_VALUE.sub("%", line.strip()).encode()) for line in lines), whole]


def _count(old: list[int], new: list[int]) -> str:
    if len(old) == 1 or len(new) == 1:
        return "changed"
    was, is_now = Counter(old[:-1]), Counter(new[:-1])
    ops = max((was - is_now).total(), (is_now - was).total())
    if ops:
        return f"{ops} op{' differs' if ops == 1 else 's differ'}"
    return "operands differ" if old[:-1] == new[:-1] else "the order of ops differs"
