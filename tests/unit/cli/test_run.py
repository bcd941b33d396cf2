"""Run: which program is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubuild.cli.parser import parse
from gpubuild.cli.run import Check, check_program, choose_program, expected_file, render, summarize
from gpubuild.errors import UsageError
from gpubuild.model.project import Program

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


# ---- run --all ----


def program(folder: Path, script: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def check(folder: Path, script: str, expected: str | None = None) -> Check:
    file = None
    if expected is not None:
        file = folder / "expected.txt"
        file.write_text(expected)
    return check_program("saxpy", [program(folder, script)], file)


def test_a_good_run(tmp_path: Path) -> None:
    found = check(tmp_path, "echo hello; echo 'saxpy: OK (3)'", "hello\nsaxpy: OK (3)\n")
    assert found.ok
    assert found.checked
    assert render(found, 8) == "saxpy     ok  OK (3)"


@pytest.mark.parametrize(
    ("script", "expected", "problem"),
    [
        ("echo 1; echo 2", "1\n3\n", "line 2: expected '3', printed '2'"),
        ("echo 1", "1\n2\n", "printed 1 lines, expected 2"),
        ("echo 1; echo 2", "1\n", "printed 2 lines, expected 1"),
        ("echo 1; exit 3", "1\n", "exited with 3"),
        ("kill -SEGV $$", "", "was killed by signal 11"),
        ("exit 1", None, "exited with 1"),
    ],
)
def test_a_bad_run(tmp_path: Path, script: str, expected: str | None, problem: str) -> None:
    found = check(tmp_path, script, expected)
    assert not found.ok
    assert found.problem == problem
    assert f"FAILED  {problem}" in render(found)


def test_a_failure_shows_all_that_was_printed(tmp_path: Path) -> None:
    text = render(check(tmp_path, "echo out; echo complaint >&2; exit 1"))
    assert text.endswith("\n  | out\n  | complaint")


def test_addresses_are_not_compared(tmp_path: Path) -> None:
    line = "Unranked Memref base@ = {} rank = 1"
    assert check(tmp_path, f"echo '{line.format('0x7f00aa')}'", line.format("0x55d1f2c0") + "\n").ok
    assert not check(tmp_path, f"echo '{line.format('nil')}'", line.format("0x55d1f2c0") + "\n").ok


def test_programs_run_in_an_empty_folder_of_their_own(tmp_path: Path) -> None:
    assert check(tmp_path, "ls -A; touch litter", "").ok
    assert not (tmp_path / "litter").exists()


def test_without_an_expectation_the_exit_code_decides(tmp_path: Path) -> None:
    found = check(tmp_path, "echo anything")
    assert found.ok
    assert "not compared" in render(found)


def test_expected_file_lies_beside_the_first_source(tmp_path: Path) -> None:
    made = Program(name="p", sources=(tmp_path / "a.mlir",), targets=())
    assert expected_file(made) is None
    (tmp_path / "expected.txt").write_text("")
    assert expected_file(made) == tmp_path / "expected.txt"


def test_summary(tmp_path: Path) -> None:
    good, bad = check(tmp_path, "true"), check(tmp_path, "false")
    assert summarize([good]) == "1 program: 1 ok"
    assert summarize([good, bad]) == "2 programs: 1 ok, 1 failed (saxpy)"
