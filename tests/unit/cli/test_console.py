"""Console: prefixes and colour of errors."""

from __future__ import annotations

import io
import re

import pytest

from gpubuild.cli.console import Console, colored, labelled
from gpubuild.errors import ConfigError, Diagnostic, Location, StepError, UsageError


def shown(error, **options) -> str:
    console = Console(out=io.StringIO(), err=io.StringIO(), **options)
    console.error(error)
    return console.err.getvalue()


def test_an_error_without_a_place_is_called_an_error() -> None:
    assert shown(UsageError("no such thing", hint="try another")) == (
        "error: no such thing\n  hint: try another\n"
    )


@pytest.mark.parametrize("line", [0, 3])
def test_an_error_with_a_place_begins_with_it(line: int) -> None:
    problem = Diagnostic(message="unknown key 'chips'", location=Location(file="targets.yaml", line=line))
    assert shown(ConfigError([problem])).startswith("targets.yaml:")


def test_colour_changes_no_word() -> None:
    error = StepError(
        "cannot parse a.mlir",
        stage="parse",
        diagnostics=[
            Diagnostic(
                message="expected ':'",
                location=Location(file="a.mlir", line=2, column=3),
                source_line="  oops",
                notes=(
                    Diagnostic(message="here", severity="note", location=Location(file="a.mlir", line=1)),
                ),
            )
        ],
        hint="look again",
    )
    error.reproduce = "gpubuild compile a.mlir"
    plain, painted = shown(error), shown(error, color_err=True)
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
    for marked in ("error:", "note:", "hint:", "reproduce:", "^"):
        assert re.search(r"m" + re.escape(marked) + r"\x1b", painted), marked


def test_labels_of_last_lines() -> None:
    assert labelled("failed: a/b: c", on=True) == "\x1b[31;1mfailed:\x1b[0m a/b: c"
    assert labelled("failed: a/b", on=False) == "failed: a/b"
    assert labelled("3 steps: 1 ran", on=True) == "3 steps: 1 ran"


def test_a_plain_text_has_nothing_to_colour() -> None:
    assert colored("all is well: really") == "all is well: really"
