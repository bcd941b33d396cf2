"""Console: prefixes and colour of errors."""

import io
import json
import re

import pytest

from gpubuild.cli.console import Console, paint
from gpubuild.errors import ConfigError, Diagnostic, Location, StepError, UsageError


def shown(error, **options) -> str:
    console = Console(out=io.StringIO(), err=io.StringIO(), **options)
    console.error(error)
    return console.err.getvalue()


def test_an_error_without_a_place_is_called_an_error() -> None:
    assert shown(UsageError("no such thing", hint="try another")) == (
        "error: no such thing\n  hint: try another\n"
    )
    for line in (0, 3):
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
    error = error.with_(reproduce="gpubuild compile a.mlir")
    plain, painted = shown(error), shown(error, color_err=True)
    assert "\x1b[" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain
    for marked in ("error:", "note:", "hint:", "reproduce:", "^"):
        assert re.search(r"m" + re.escape(marked) + r"\x1b", painted), marked


@pytest.mark.parametrize("color", [False, True])
def test_text_of_files_does_not_steer_the_terminal(color: bool) -> None:
    hostile = "k\x1b[32m\x1b]0;title\x07\x9b2J\x7f\r\u202e"
    spelt_out = r"k\x1b[32m\x1b]0;title\x07\u009b2J\u007f\x0d\u202e"
    console = Console(out=io.StringIO(), err=io.StringIO(), color_out=color, color_err=color)
    console.print(paint(hostile, "red", on=color) + "\t→")
    console.note(hostile)
    console.warning(hostile)
    console.error(UsageError(hostile))
    painted = f"\x1b[31;1m{spelt_out}\x1b[0m" if color else spelt_out
    assert console.out.getvalue() == f"{painted}\t→\n"
    text = re.sub("\x1b\\[(33|31;1|0)m", "", console.err.getvalue()) if color else console.err.getvalue()
    assert text == f"{spelt_out}\nwarning: {spelt_out}\nerror: {spelt_out}\n"


def test_json_stays_what_it_was() -> None:
    console = Console(out=io.StringIO(), err=io.StringIO())
    name = "k\x1b\x9b\x7f\u202e\\x41"
    console.print(json.dumps({"name": name}, ensure_ascii=False))
    assert "\x9b" not in console.out.getvalue()
    assert json.loads(console.out.getvalue()) == {"name": name}


def test_a_caret_below_a_line_with_control_characters() -> None:
    location = Location(file="a\x1b.mlir", line=1, column=4)
    problem = Diagnostic(message="bad\x07", location=location, source_line="a\x1b b\x9b")
    error = StepError("no\x1b", diagnostics=[problem]).with_(module="k\n\x1b[2J")
    assert error.render() == (
        "no\\x1b (module @k\\n\\x1b[2J)\na\\x1b.mlir:1:4: error: bad\\x07\n  a\\x1b b\\u009b\n        ^"
    )


# ---- warnings ----


LINE = "src/a c.c:4:22: warning: unused variable 'x'\n  int x;\n      ^"


def told(message: str, *, color: bool = False) -> str:
    err = io.StringIO()
    Console(out=io.StringIO(), err=err, color_err=color).warning(message)
    return err.getvalue()


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (LINE, LINE),
        ("a.mlir:3: warning: odd", "a.mlir:3: warning: odd"),
        ("the cache is full", "warning: the cache is full"),
        ("the server said:\na:1:1: warning: no", "warning: the server said:\na:1:1: warning: no"),
    ],
)
def test_a_warning_says_so_once(message: str, text: str) -> None:
    assert told(message) == text + "\n"
