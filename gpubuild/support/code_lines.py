"""Which lines of an MLIR source are code: two sources whose code is the same differ in comments alone.

Only comments, blank lines and spaces at ends of lines may differ, so that each piece of code stays in its
column. Then a table of places of one source becomes that of the other by new numbers of lines.

Imports little: the null build, which has a few milliseconds, starts here.
"""

from __future__ import annotations

import re

MARK = "code"  # the key of the first line of a table, followed by what `describe` returns
# Matches without trying twice, and without possessive quantifiers, which are wrong before Python 3.11.5.
_BEFORE_COMMENT = re.compile(r'(?:[^"/]+|"[^"\\]*(?:\\.[^"\\]*)*"|/(?!/))*')
_FOREIGN = ("\r", "\0", "\ufeff", "\v", "\f")  # with these, MLIR may see other lines or other comments


def describe(text: str) -> str:
    """Return the digest of the code and the numbers of its lines; empty for a source with unusual text."""
    found = _code(text)
    return "" if found is None else f"{found[0]} {_packed(found[1])}"


def moved(table: str, text: str) -> str | None:
    """Return the table of ``text`` if ``table`` is of a source with the same code, else ``None``.

    A table has lines of a key, a tab, and ``FILE:LINE:COLUMN``.
    """
    head, _, rest = table.partition("\n")
    key, _, known = head.partition("\t")
    digest, _, packed = known.partition(" ")
    if key != MARK or (found := _code(text)) is None or found[0] != digest:
        return None
    lines = dict(zip(map(str, _unpacked(packed)), map(str, found[1]), strict=True))
    made = [f"{MARK}\t{digest} {_packed(found[1])}"]
    for entry in rest.splitlines():
        before, line, column = entry.rsplit(":", 2)
        if line not in lines:
            return None
        made.append(f"{before}:{lines[line]}:{column}")
    return "\n".join([*made, ""])


def _code(text: str) -> tuple[str, list[int]] | None:
    """Return a digest of the lines of code, without comments, and their numbers."""
    import hashlib

    if any(character in text for character in _FOREIGN):
        return None
    numbers, code = [], []
    for number, line in enumerate(text.split("\n"), 1):
        kept = line
        if "//" in line:
            kept = _BEFORE_COMMENT.match(line)[0]  # type: ignore[index]  # it matches an empty text, too
            if line[len(kept) : len(kept) + 1] == '"':
                return None  # a string without an end
        if kept := kept.rstrip(" \t"):
            numbers.append(number)
            code.append(kept)
    return hashlib.sha256("\n".join(code).encode()).hexdigest(), numbers


def _packed(numbers: list[int]) -> str:
    """Return increasing numbers as text: ``3+5`` for five numbers from 3 on, separated by commas."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == sum(runs[-1]):
            runs[-1][1] += 1
        else:
            runs.append([number, 1])
    return ",".join(f"{first}+{count}" for first, count in runs)


def _unpacked(text: str) -> list[int]:
    runs = ([*map(int, run.split("+"))] for run in text.split(",") if run)
    return [number for first, count in runs for number in range(first, first + count)]
