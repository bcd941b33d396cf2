"""Warnings with a place are told as compilers tell them, on the quick way, too."""

from __future__ import annotations

import io

import pytest

from gpubuild.cli.console import Console

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


def test_colours() -> None:
    lines = told(LINE, color=True).splitlines()
    assert lines[0] == "\x1b[1msrc/a c.c:4:22:\x1b[0m \x1b[33mwarning:\x1b[0m unused variable 'x'"
    assert lines[2] == "      \x1b[32m^\x1b[0m"
    assert told("full", color=True) == "\x1b[33mwarning:\x1b[0m full\n"
