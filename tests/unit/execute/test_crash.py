from dataclasses import replace
from pathlib import Path

import pytest
from unit.execute.jobs import make_job

from gpubuild.execute.crash import clean_log, crash_error
from gpubuild.model.step import OutlineParams

ABORT = """\
warning: unrelated
LLVM ERROR: Cannot select: 0x561a2b3c4d50: f32 = ROCmThing 0x561a2b3c4d60
In function: saxpy
PLEASE submit a bug report to https://github.com/llvm/llvm-project/issues/ and include the crash backtrace.
Stack dump:
0.	Program arguments: /usr/bin/python -m gpubuild
1.	Running pass 'AMDGPU DAG->DAG Pattern Instruction Selection' on function '@saxpy'
 #0 0x00007f12 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int)
/lib/x86_64-linux-gnu/libc.so.6(+0x3c050)[0x7f3a1c83c050]
"""


def test_the_cause_comes_first_without_stack_or_addresses() -> None:
    assert clean_log(ABORT).splitlines() == [
        "LLVM ERROR: Cannot select: 0x…: f32 = ROCmThing 0x…",
        "warning: unrelated",
        "In function: saxpy",
    ]


def test_an_assertion_is_a_cause() -> None:
    text = "note: x\npython: mlir/lib/IR/Types.cpp:12: Type parse(): Assertion `!text.empty()' failed.\n"
    assert clean_log(text).startswith("python: mlir/lib/IR/Types.cpp:12")
    assert clean_log("\n\n") == ""


def test_the_end_of_a_long_log_is_kept_and_its_cause() -> None:
    lines = clean_log(
        "LLVM ERROR: first\n" + "\n".join(f"line {n}" for n in range(1000)) + "x" * 9999
    ).splitlines()
    assert lines[0] == "LLVM ERROR: first"
    assert lines[-1].startswith("line 999x") and len(lines[-1]) == 400
    assert len(lines) == 20


@pytest.mark.parametrize(
    ("exit_code", "message"),
    [(-200, "the compiler crashed (signal 200)"), (1, "the compiler ended without a result (exit code 1)")],
)
def test_messages(tmp_path: Path, exit_code: int, message: str) -> None:
    """Those of other ends are in test_local. Exit code 1 without a word of LLVM is a crash, too."""
    error = crash_error(make_job(tmp_path / "w", "x"), exit_code, timed_out=False)
    assert error.message == message
    assert error.hint
    assert error.stage == error.output == ""


def test_stage_and_log_are_read_and_only_the_end_of_the_log(tmp_path: Path) -> None:
    job = make_job(tmp_path / "w", "x")
    (job.workdir / "stage").write_text("translate")
    (job.workdir / "log").write_bytes(b"LLVM ERROR: old\n" + b"\xff" * 100_000 + b"\nthe end\n")
    error = crash_error(job, -6, timed_out=False)
    assert error.stage == "translate"
    assert "old" not in error.output and error.output.endswith("the end")


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        ("canonicalize", "the pass pipeline ended the compiler (SIGSEGV)"),
        ("linalg", "the compiler crashed (SIGSEGV)"),  # no user wrote its passes
    ],
)
def test_whose_passes_crashed(tmp_path: Path, passes: str, message: str) -> None:
    job = replace(make_job(tmp_path / "w", "x"), params=OutlineParams(passes=passes))
    (job.workdir / "stage").write_text("passes")
    assert crash_error(job, -11, timed_out=False).message == message


def test_an_error_of_the_kernel_is_not_called_a_crash(tmp_path: Path) -> None:
    job = make_job(tmp_path / "w", "x")
    (job.workdir / "log").write_text(
        "error: <unknown>:0:0: local memory (160000) exceeds limit (65536) in function 'scale'\n"
    )
    error = crash_error(job, 1, timed_out=False)
    assert error.message == "LLVM cannot compile this for the target"
    assert error.output == "local memory (160000) exceeds limit (65536) in function 'scale'"
    assert "65536 bytes" in error.hint and "report" not in error.hint
