"""Run: which program is meant."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from unit.projects import make_program, make_project

from gpubuild.cli import test
from gpubuild.cli.parser import parse
from gpubuild.cli.run import check_program, choose_program, expected_file, render, summarize
from gpubuild.cli.test import Check, run_case
from gpubuild.errors import UsageError
from gpubuild.model.project import Case, Program
from gpubuild.support.frozen import replace

FILES = ("stdin_file", "stdout_file", "check")
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
    """In an empty folder of its own. Without an expectation the exit code decides."""
    found = check(tmp_path, "ls -A; touch litter; echo 'saxpy: OK (3)'", "saxpy: OK (3)\n")
    assert found.ok
    assert found.checked
    assert render(found, 8) == "saxpy     ok  OK (3)"
    assert not (tmp_path / "litter").exists()
    free, bad = check(tmp_path, "echo anything"), check(tmp_path, "false")
    assert free.ok
    assert "not compared" in render(free)
    assert summarize([free]) == "1 program: 1 ok"
    assert summarize([free, bad]) == "2 programs: 1 ok, 1 failed (saxpy)"


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


def test_expected_file_lies_beside_the_first_source(tmp_path: Path) -> None:
    made = Program(name="p", sources=(tmp_path / "a.mlir",), targets=())
    assert expected_file(made) is None
    (tmp_path / "expected.txt").write_text("")
    assert expected_file(made) == tmp_path / "expected.txt"


@pytest.mark.parametrize(
    ("script", "case", "problem"),
    [
        ('echo "$1|$2"', Case(name="c", args=("a b", ""), stdout=b"a b|\n"), ""),
        ("cat", Case(name="c", stdin=b"one\n", stdout=b"one"), ""),
        ("exit 3", Case(name="c", exit_code=3), ""),
        ("exit 0", Case(name="c", exit_code=3), "exited with 0 instead of 3"),
        ("kill -KILL $$", Case(name="c", exit_code=3), "was killed by signal 9"),
        ("sleep 60", Case(name="c", timeout_seconds=1), "program was stopped after 1 s"),
        ("cat sub/in.txt", Case(name="c", files={"sub/in.txt": Path("in.txt")}, stdout=b"data"), ""),
        ("cat", Case(name="c", stdin_file=Path("in.txt"), stdout_file=Path("in.txt")), ""),
        ("echo 4", Case(name="c", args=("2",), check=Path("double.py")), ""),
        ("echo 5", Case(name="c", args=("2",), check=Path("double.py")), "double.py exited with 1"),
        ("echo 4; exit 1", Case(name="c", args=("2",), check=Path("double.py")), "exited with 1"),
    ],
)
def test_cases(tmp_path: Path, script: str, case: Case, problem: str) -> None:
    (tmp_path / "in.txt").write_text("data\n")
    (tmp_path / "double.py").write_text("import sys; assert int(input()) == 2 * int(sys.argv[1])\n")
    case = replace(
        case,
        files={name: tmp_path / path for name, path in case.files.items()},
        **{key: path and tmp_path / path for key in FILES if (path := getattr(case, key))},
    )
    found = run_case("p/c", [program(tmp_path, script)], case)
    assert found.problem == problem
    assert found.ok == (not problem)


def test_a_difference_is_shown(tmp_path: Path) -> None:
    case = Case(name="c", stdout=b"1\n2\n3\n")
    text = test.render(run_case("p/c", [program(tmp_path, "echo 1; echo 4; echo 3")], case))
    assert text.startswith("FAILED  p/c: line 2: expected '2', printed '4'\n  | --- expected")
    assert "\n  | -2\n  | +4\n" in text


def test_which_cases_run(tmp_path: Path) -> None:
    plain, both = Case(name="plain"), Case(name="both", devices=("cpu", "cuda:1"))
    one = replace(make_program(tmp_path, "one", "a.mlir"), tests=(plain, both))
    two = replace(make_program(tmp_path, "two", "a.mlir"), tests=(replace(plain, sanitize=True),))
    project = make_project(tmp_path, one, two)

    def names(*chosen: str, devices: tuple[str, ...] = ()) -> list[str]:
        return [run.name for run in test.choose(project, chosen, devices)]

    assert names("one") == ["one/plain", "one/both [cpu]", "one/both [cuda:1]"]
    assert names("one/both", devices=("cpu",)) == ["one/both [cpu]"]
    assert names("one", devices=("cpu",)) == ["one/plain [cpu]", "one/both [cpu]"]
    with pytest.raises(UsageError, match=r"targets.yaml has no tests"):
        test.choose(make_project(tmp_path, make_program(tmp_path, "one", "a.mlir")), [], [])
    for wanted, devices, message in (
        (["one/pain"], (), "there is no case or program with cases 'one/pain' (did you mean 'one/plain'?)"),
        (["one/both"], ("hip",), "no case runs on hip"),
        ([], (), "two/plain runs checked kernels, and no target of two has `sanitize:`"),
    ):
        with pytest.raises(UsageError) as caught:
            names(*wanted, devices=devices)
        assert caught.value.message == message


def test_the_junit_document(tmp_path: Path) -> None:
    good = run_case("p/a", [program(tmp_path, "true")], Case(name="a"))
    bad = run_case("p/b", [program(tmp_path, "printf '<\\001&'; exit 1")], Case(name="b"))
    runs = [test.Run(program="p", case=Case(name=name)) for name in "ab"]
    (suite,) = ElementTree.fromstring(test.junit(runs, [good, bad]))
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == ("p", "2", "1")
    assert [(case.get("classname"), case.get("name"), len(case)) for case in suite] == [
        ("p", "a", 0),
        ("p", "b", 1),
    ]
    assert (suite[1][0].get("message"), suite[1][0].text) == ("exited with 1", "<�&")
