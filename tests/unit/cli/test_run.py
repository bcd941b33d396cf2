"""Run: which program is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubuild.cli.parser import parse
from gpubuild.cli.run import choose_program
from gpubuild.errors import UsageError

TWO = "version: 1\ntargets: {cpu: {}}\nprograms: {edges: {sources: [a.mlir]}, saxpy: {sources: [a.mlir]}}\n"
ONE = "version: 1\ntargets: {cpu: {}}\nprograms: {edges: {sources: [a.mlir]}}\n"


@pytest.fixture
def choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.mlir").write_text("")

    def call(text: str, *arguments: str) -> str:
        (tmp_path / "targets.yaml").write_text(text)
        return choose_program(parse(["run", *arguments]))

    return call


def test_the_only_program_needs_no_name(choose) -> None:
    assert choose(ONE) == choose(ONE, "edges") == choose(TWO, "edges") == "edges"


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ([], "name a program: targets.yaml has edges, saxpy", "gpubuild run edges"),
        (["saxpi"], "did you mean 'saxpy'?", "edges, saxpy"),
        (
            ["edges", "in.ppm", "out.ppm"],
            "run is for one program, not 3",
            "gpubuild run edges -- in.ppm out.ppm",
        ),
    ],
)
def test_mistakes(choose, arguments: list[str], message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        choose(TWO, *arguments)
    assert message in caught.value.message
    assert hint in caught.value.hint
