"""Columns: bytes, characters and columns of a terminal are three things."""

from __future__ import annotations

import pytest

from gpubuild.errors import Diagnostic, Location
from gpubuild.support import text

WORD = "x"


@pytest.mark.parametrize(
    ("before", "padding"),
    [
        ("", ""),
        ("plain ", "      "),
        ("/* é */ ", "        "),
        ("/* 漢字 */ ", "           "),
        ("/* e\u0301 */ ", "        "),  # a letter and the accent on it
        ("\té\t", "\t \t"),
        ("\U0001f600 ", "   "),
    ],
)
def test_the_same_place_in_bytes_in_cells_and_on_the_terminal(before: str, padding: str) -> None:
    line = f"{before}{WORD} + é"
    column = len(before) + 1
    assert text.of_byte(line, len(before.encode()) + 1) == column
    cells = 0
    for character in before:
        cells = (cells // 8 + 1) * 8 if character == "\t" else cells + text.width(character)
    assert text.of_cell(line, cells + 1) == column + (before[-1:] == "\u0301")
    assert text.padding(line, column) == padding
    shown = Diagnostic(message="m", location=Location(file="f", line=1, column=column), source_line=line)
    assert shown.render() == f"f:1:{column}: error: m\n  {line}\n  {padding}^"


def test_what_is_not_known_stays() -> None:
    assert text.of_byte("é", 0) == 0


def test_places_behind_the_end_of_the_line() -> None:
    assert text.of_byte("é", 3) == 2
    assert text.of_cell("漢", 3) == 2
    assert text.of_cell("漢", 5) == 4


def test_a_byte_inside_a_character_is_that_character() -> None:
    assert text.of_byte("é+", 2) == 1
    assert text.of_byte("é+", 3) == 2


@pytest.mark.parametrize("column", [0, 1, 150, 500_000, 1_000_000, 1_000_007])
def test_of_a_line_of_a_megabyte_a_part_is_shown(column: int) -> None:
    line = "".join(chr(ord("a") + n % 26) for n in range(1_000_000))
    shown, there = text.window(line, column)
    assert len(shown) <= 402
    if 0 < column <= len(line):
        assert shown[there - 1] == line[column - 1]
    else:
        assert there == 0 or there > len(shown.strip("…"))
    assert text.window(line[:400], column) == (line[:400], column)
