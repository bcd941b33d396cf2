"""Source lines for diagnostics that came without."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubuild.build.diagnosis import quote_sources
from gpubuild.errors import Diagnostic, Location, StepError, UsageError


def at(file: str, line: int, column: int = 1, **more: object) -> Diagnostic:
    return Diagnostic(message="wrong", location=Location(file=file, line=line, column=column), **more)  # type: ignore[arg-type]


def test_the_line_and_a_caret_are_shown(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/k.mlir").write_text("first\n  second line\n")
    error = StepError("no", diagnostics=[at("sub/k.mlir", 2, 3)])
    quote_sources(error, tmp_path)
    assert error.render() == "no\nsub/k.mlir:2:3: error: wrong\n    second line\n    ^"


def test_notes_are_quoted_too(tmp_path: Path) -> None:
    (tmp_path / "k.mlir").write_text("first\nsecond\n")
    error = StepError("no", diagnostics=[at("k.mlir", 1, notes=(at("k.mlir", 2),))])
    quote_sources(error, tmp_path)
    assert error.diagnostics[0].source_line == "first"
    assert error.diagnostics[0].notes[0].source_line == "second"


def test_a_line_that_is_known_stays(tmp_path: Path) -> None:
    (tmp_path / "k.mlir").write_text("another text\n")
    error = StepError("no", diagnostics=[at("k.mlir", 1, source_line="as parsed")])
    quote_sources(error, tmp_path)
    assert error.diagnostics[0].source_line == "as parsed"


@pytest.mark.parametrize(
    ("file", "line"),
    [("absent.mlir", 1), ("k.mlir", 9), ("k.mlir", 0), ("sub", 1), ("a\0b", 1), ("n" * 999, 1)],
)
def test_what_cannot_be_read_is_left_out(tmp_path: Path, file: str, line: int) -> None:
    (tmp_path / "k.mlir").write_text("only\n")
    (tmp_path / "sub").mkdir()
    error = StepError("no", diagnostics=[at(file, line)])
    quote_sources(error, tmp_path)
    assert error.diagnostics[0].source_line == ""


def test_lines_are_counted_as_compilers_do(tmp_path: Path) -> None:
    (tmp_path / "k.mlir").write_text("\ufeffa\fb\u2028c\r\nsecond\r\n", newline="")
    error = StepError("no", diagnostics=[at("k.mlir", 1), at("k.mlir", 2)])
    quote_sources(error, tmp_path)
    assert [d.source_line for d in error.diagnostics] == ["a\fb\u2028c", "second"]


def test_other_errors_and_none_are_left_alone(tmp_path: Path) -> None:
    quote_sources(None, tmp_path)
    quote_sources(UsageError("no"), tmp_path)
