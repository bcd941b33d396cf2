"""Text: bytes, characters and columns of a terminal are three things; paths and names as shown."""

from pathlib import Path

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


def test_places_that_are_no_characters() -> None:
    """Behind the end of the line; in a character, which is that character; what is not known stays."""
    assert [text.of_byte("é", byte) for byte in (0, 3)] == [0, 2]
    assert [text.of_cell("漢", cell) for cell in (3, 5)] == [2, 4]
    assert [text.of_byte("é+", byte) for byte in (2, 3)] == [1, 2]


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


@pytest.mark.parametrize(
    ("path", "base", "expected"),
    [
        ("/a/b/c", "/a", "b/c"),
        ("/a/b", "/a/b", "."),
        ("/ab/c", "/a", "/ab/c"),
        ("/x", "/a", "/x"),
        ("../x", "/a", "../x"),
        ("/a", "/", "a"),
    ],
)
def test_shown_path(path: str, base: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert text.shown_path(path, base) == expected
    assert text.shown_path(Path(path), Path(base)) == expected
    monkeypatch.setattr("os.getcwd", lambda: base)
    assert text.shown_path(path) == expected


def test_counted() -> None:
    assert [text.counted(n, "result") for n in range(3)] == ["0 results", "1 result", "2 results"]


def test_names_that_were_probably_meant() -> None:
    known = ["scale", "scales", "add"]
    assert text.nearest("scael", known) == ["scale"]
    assert text.nearest("scael", known, 2) == ["scale", "scales"]
    assert text.nearest("scael", known, cutoff=0.9) == []
    assert text.did_you_mean("scael", known, 2) == "did you mean 'scale' or 'scales'?"
    assert text.did_you_mean("zzz", known) == ""
    assert text.suggestion("scael", known) == " (did you mean 'scale'?)"
    assert text.suggestion("zzz", known) == ""
    assert text.similarity("scale", "scale") == 1
    assert text.similarity("scale", "zzz") == 0


def test_difflib_is_used_here_only() -> None:
    package = Path(text.__file__).parents[1]
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "import difflib" in path.read_text()
    }
    assert users == {"support/text.py"}
