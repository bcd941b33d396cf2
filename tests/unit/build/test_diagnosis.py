"""Diagnosis: what an error of a step is completed with before its reader sees it."""

import os
from pathlib import Path

import pytest

from gpubuild.build.diagnosis import completed, grouped, missing_input, without_project
from gpubuild.errors import Diagnostic, GpubuildError, Location, NoRoomError, StepError, ToolNotFoundError
from gpubuild.model.step import CompileParams, Input, LinkParams, Step, StepKind
from gpubuild.targets.target import Target

ROOT = Path("/project")
LINK = Step(
    id="app/link",
    kind=StepKind.LINK,
    params=LinkParams(),
    inputs=(
        Input(name="object.0", path=ROOT / "build/host.o", producer="app/host", origin=ROOT / "k.mlir"),
        Input(name="object.1", path=ROOT / "build/x.o", producer="cc/src/main.c", origin=ROOT / "src/main.c"),
        Input(name="archive.2", path=Path("/elsewhere/libx.a"), origin=Path("/elsewhere/libx.a")),
        Input(name="object.4", path=ROOT / "by_scons.o"),
        Input(name="runtime", path=ROOT / "build/runtime.a", producer="runtime"),
    ),
    program="app",
)
COMPILE = Step(
    id="app/compile/k/gpu",
    kind=StepKind.COMPILE,
    params=CompileParams(
        module="k", target=Target(name="gpu", kind="nvvm", chip="sm_9", triple="nvptx64-nvidia-cuda")
    ),
    inputs=(Input(name="located", path=ROOT / "build/located.0.mlir"),),
    program="app",
    module="k",
    target="gpu",
)
MESSAGES = {
    "function": ("ld: object1.o: in function `main':", "ld: src/main.c: in function `main':"),
    "text": (
        "source.i:(.text+0x0): multiple definition of `main'; object0.o:host.ll:(.text+0x0): first here",
        "(.text+0x0): multiple definition of `main'; k.mlir:(.text+0x0): first here",
    ),
    "archive": (">>> archive2.a(x.o) and object4.o", ">>> /elsewhere/libx.a(x.o) and by_scons.o"),
    "not ours": ("ld: myobject1.obj, object9.o", "ld: myobject1.obj, object9.o"),
}


def shown(error: GpubuildError, root: Path = ROOT, *, step: Step = LINK) -> GpubuildError:
    return completed(error, step, root=root)


def diagnostics(root: Path, *given: Diagnostic) -> tuple[Diagnostic, ...]:
    return shown(StepError("no", diagnostics=given), root).diagnostics


def at(file: str, line: int, column: int = 1, **more: object) -> Diagnostic:
    return Diagnostic(message="wrong", location=Location(file=file, line=line, column=column), **more)


@pytest.mark.parametrize(("said", "expected"), MESSAGES.values(), ids=MESSAGES)
def test_linked_files_have_the_users_names(said: str, expected: str) -> None:
    raw = StepError("cannot link", output=said)
    error = shown(raw)
    assert error.output == expected
    assert raw.output == said


def test_the_step_is_named_and_can_be_repeated() -> None:
    error = shown(StepError("no", stage="ptxas", output="object0.o"), step=COMPILE)
    found = (error.step_id, error.program, error.module, error.target)
    assert found == ("app/compile/k/gpu", "app", "k", "gpu")
    assert error.output == "object0.o"  # only links number their objects
    assert "compile /project/build/located.0.mlir -t gpu --kind nvvm --chip sm_9" in error.reproduce
    assert shown(NoRoomError("the disk is full"), step=COMPILE).reproduce == ""


def test_a_made_up_project_is_not_named() -> None:
    error = without_project(shown(StepError("no", stage="ptxas"), step=COMPILE))
    assert error.render() == "no (module @k, target gpu, stage ptxas)"
    missing = ToolNotFoundError("no ptxas")
    assert without_project(missing) is missing


def test_lines_are_quoted(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/k.mlir").write_text("first\n  second line\n")
    given = at("sub/k.mlir", 2, 3, notes=(at("sub/k.mlir", 1),))
    error = shown(StepError("no", diagnostics=[given]), tmp_path)
    assert error.render() == (
        "no (program app)\nsub/k.mlir:2:3: error: wrong\n    second line\n    ^\n"
        "sub/k.mlir:1:1: error: wrong\n  first\n  ^"
    )
    (known,) = diagnostics(tmp_path, at("sub/k.mlir", 1, source_line="as parsed"))
    assert known.source_line == "as parsed"


@pytest.mark.parametrize(
    ("file", "line"),
    [("absent.mlir", 1), ("k.mlir", 9), ("k.mlir", 0), ("sub", 1), ("a\0b", 1), ("n" * 999, 1)],
)
def test_what_cannot_be_read_is_left_out(tmp_path: Path, file: str, line: int) -> None:
    (tmp_path / "k.mlir").write_text("only\n")
    (tmp_path / "sub").mkdir()
    (found,) = diagnostics(tmp_path, at(file, line))
    assert found.source_line == ""


def test_lines_are_counted_as_compilers_do(tmp_path: Path) -> None:
    (tmp_path / "k.mlir").write_text("\ufeffa\fb\u2028c\r\nsecond\r\n", newline="")
    found = diagnostics(tmp_path, at("k.mlir", 1), at("k.mlir", 2))
    assert [d.source_line for d in found] == ["a\fb\u2028c", "second"]


def test_a_like_name_is_suggested_as_the_user_would_write_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/kernel.mlir").touch()
    error = missing_input(tmp_path / "src/kernal.mlir", tmp_path)
    assert error.message == "src/kernal.mlir does not exist or cannot be read"
    assert error.hint == "did you mean src/kernel.mlir?"
    assert "restore the file" in missing_input(tmp_path / "src/zzz.c", tmp_path).hint
    assert "the folder gone cannot be read" in missing_input(tmp_path / "gone/a.c", tmp_path).hint


def test_a_file_that_is_there_is_not_suggested_in_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").mkdir()
    os.mkfifo(tmp_path / "b.mlir")
    assert "a.mlir?" not in missing_input(tmp_path / "a.mlir", tmp_path).hint
    assert "b.mlir?" not in missing_input(tmp_path / "b.mlir", tmp_path).hint  # nor waits for a writer


def test_the_system_says_why_a_file_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_input(tmp_path / ("x" * 300), tmp_path).message.endswith(": File name too long")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root may read everything
    error = missing_input(tmp_path / "a.mlir", tmp_path)
    assert error.message == "a.mlir does not exist or cannot be read: Permission denied"
    assert error.hint == "make it readable for yourself"


def failure(target: str, message: str = "target {} cannot compile 'x.y'", **more: str) -> StepError:
    place = Diagnostic(message="no such thing", location=Location(file="k.mlir", line=3, column=5))
    error = StepError(message.format(target), stage="lower", diagnostics=[place], **more)
    return error.with_(program="app", module="k", target=target, reproduce=f"show {target}")


def test_like_errors_are_one_that_lists_the_targets() -> None:
    errors = [failure("sm_60"), failure("sm_90"), failure("cpu")]
    before = [error.render() for error in errors]
    (joined,) = grouped(errors)
    assert [error.render() for error in errors] == before
    assert joined.render() == (
        "targets sm_60, sm_90, cpu cannot compile 'x.y' "
        "(program app, module @k, targets sm_60, sm_90, cpu, stage lower)\n"
        "k.mlir:3:5: error: no such thing\n"
        "  reproduce: show sm_60"
    )


def test_errors_that_differ_in_more_than_the_target_stay_apart() -> None:
    others = [failure("sm_6"), failure("cpu", output="LLVM ERROR"), failure("a", "sm_60 {}")]
    assert len(grouped([failure("sm_60"), *others])) == 3
    assert len(grouped([failure("sm_60", "no {}"), failure("sm_90", "no {}")])) == 2  # says which itself
    message = "linking @k for {} failed"
    (joined,) = grouped([failure("sm_60", message), failure("sm_90", message)])
    assert joined.message == "linking @k for sm_60, sm_90 failed"


def test_stages_and_hints_of_like_errors_are_all_there() -> None:
    emit = failure("sm_60", "undefined: f", hint="name a library")
    libraries = failure("cpu", "undefined: f").with_(stage="libraries", hint="name one for CPUs")
    early = failure("sm_90", "undefined: f", hint="name a library").with_(stage="")  # before any
    (joined,) = grouped([emit, libraries, early])
    assert joined.render().startswith(
        "undefined: f (program app, module @k, targets sm_60, cpu, sm_90, stage lower, libraries)\n"
    )
    assert "\n  hint: name a library\n  hint: name one for CPUs\n" in joined.render()
