"""Text for people: columns of a source line, counted nouns, paths, names that were probably meant.

Compilers count columns in bytes of UTF-8 or in cells of a terminal; we count characters, as editors do.
"""

from __future__ import annotations

import os
import re
from functools import cache

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# C0 without newline and tab, DEL, C1, and what reverses the direction of the text that follows.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MOST_SHOWN = 400  # characters of a line
_TAB = 8  # where gcc and clang assume tab stops
LOCATED = r".*?:\d+(:\d+)?: warning: "  # the beginning of a warning with its place


_SIZE_UNITS = {"": 1, "B": 1} | {
    f"{prefix}{middle}B": base ** (power + 1)
    for middle, base in (("", 1000), ("i", 1024))
    for power, prefix in enumerate("KMGT")
}
SIZE = r"[0-9]{1,15}(\.[0-9]{1,3})? ?([KMGT]i?B|B)?"


def size_of(text: str) -> int:
    """Return the bytes of a text that matches ``SIZE``: ``2 GB`` is 2·10⁹, ``2GiB`` 2·2³⁰."""
    number = text.rstrip("BKMGTi ")
    factor = _SIZE_UNITS[text[len(number) :].strip()]
    return int(float(number) * factor) if "." in number else int(number) * factor


def of_byte(line: str, column: int) -> int:
    """Return the column, in characters, of the byte ``column`` (both from 1; 0, unknown, stays)."""
    if column < 1 or line.isascii():
        return column
    before = line.encode(errors="surrogatepass")[: column - 1]
    return len(before.decode(errors="ignore")) + 1


def of_cell(line: str, column: int) -> int:
    """Return the column, in characters, of a terminal's column (both from 1)."""
    cell = 0
    for index, character in enumerate(line):
        if cell >= column - 1:
            return index + 1
        cell += _TAB - cell % _TAB if character == "\t" else width(character)
    return len(line) + max(column - 1 - cell, 0) + 1


def padding(line: str, column: int) -> str:
    """Return white space as wide as the text before the character ``column`` (from 1).

    Tabs are kept, so that what follows lands under the character on any tab width.
    """
    return "".join("\t" if c == "\t" else " " * width(c) for c in line[: column - 1])


def visible(text: str) -> str:
    """Return ``text`` with control characters spelt out, so that names and lines cannot control a terminal.

    Newlines and tabs stay. JSON stays the same JSON: of these it may only hold what is written ``\\u…``.
    """
    return _CONTROL.sub(_spelt_out, text)


def one_line(text: str) -> str:
    """Return ``text`` as :func:`visible`, with newlines and tabs spelt out, too: for names."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def _spelt_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x7F else f"\\u{code:04x}"


def window(line: str, column: int) -> tuple[str, int]:
    """Return the part of ``line`` around ``column`` to show, and the column in it."""
    if len(line) <= _MOST_SHOWN:
        return line, column
    begin = min(max(column - _MOST_SHOWN // 2, 0), len(line) - _MOST_SHOWN)
    end = begin + _MOST_SHOWN
    shown = "…" * (begin > 0) + line[begin:end] + "…" * (end < len(line))
    return shown, max(column - begin + (begin > 0), 1) if column else 0


def width(character: str) -> int:
    """Return how many columns of a terminal a character takes."""
    if character.isascii():
        return 1
    import unicodedata  # rarely needed

    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("F", "W") else 1


def counted(number: int, noun: str) -> str:
    """Return ``1 result`` or ``2 results``, for nouns that take an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def any_of(words: Sequence[str]) -> str:
    """Return ``a, b or c``."""
    return " or ".join([*([", ".join(words[:-1])] if words[1:] else []), *words[-1:]])


def shown_path(path: str | os.PathLike[str], base: str | os.PathLike[str] = "") -> str:
    """Return ``path``, relative to ``base`` (by default the current folder) if it lies in it."""
    text, folder = os.fspath(path), os.fspath(base) or os.getcwd()  # noqa: PTH109 - pathlib is slow to load
    return "." if text == folder else text.removeprefix(folder.rstrip("/") + "/")


def nearest(word: str, known: Iterable[str], count: int = 1, *, cutoff: float = 0.6) -> list[str]:
    """Return at most ``count`` names of ``known`` that look most like ``word``, best first."""
    import difflib  # only when something is wrong

    return difflib.get_close_matches(word, list(known), count, cutoff)


def did_you_mean(word: str, known: Iterable[str], count: int = 1, *, cutoff: float = 0.6) -> str:
    """Return ``did you mean 'a' or 'b'?``; empty if no name of ``known`` looks like ``word``."""
    names = [f"'{name}'" for name in nearest(word, known, count, cutoff=cutoff)]
    return f"did you mean {' or '.join(names)}?" if names else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'a'?)`` for the end of a message about ``word``; empty without such a name."""
    meant = did_you_mean(word, known)
    return f" ({meant})" if meant else ""


def similarity(one: str, other: str) -> float:
    """Return how much two words look alike, from 0 to 1."""
    import difflib  # only when something is wrong

    return difflib.SequenceMatcher(None, one, other).ratio()


def unified_diff(old: Sequence[str], new: Sequence[str], old_name: str, new_name: str) -> tuple[str, ...]:
    """Return the lines of a unified diff."""
    import difflib  # only when something is wrong

    return tuple(difflib.unified_diff(old, new, old_name, new_name, n=2, lineterm=""))


def aligned(rows: Sequence[Sequence[str]], right: Sequence[bool]) -> list[str]:
    """Return a line for each row; the cells of a column have one width, and ``right`` ones end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in rows
    ]


@cache
def _escapes() -> dict[int, str]:
    return {b: f"\\{b:02X}" for b in range(256) if not 0x20 <= b < 0x7F or b in b'"\\'}


def escaped(data: bytes) -> str:
    """Return the content of a string of LLVM IR or MLIR: special characters as ``\\HH``."""
    return data.decode("latin-1").translate(_escapes())


def html_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table as HTML."""
    from html import escape  # for notebooks only

    def row(cells: Iterable[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{row(head, 'th')}{''.join(row(cells, 'td') for cells in rows)}</table>"
