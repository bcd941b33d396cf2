"""Failures without a location: the step runs again, only to find it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from unit.execute.jobs import make_job, nothing
from unit.projects import TARGETS

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, GpubuildError, Location, StepCrashedError, StepError
from gpubuild.execute.local import LocalExecutor
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput, JobResult
from gpubuild.model.step import CompileParams, StepKind

FOUND = Diagnostic(message="here", location=Location(file="k.mlir", line=7, column=3))


def compile_job(workdir: Path, what: str, *, located: bool = True) -> Job:
    params = CompileParams(module="k", target=TARGETS["sm_90"])
    given = JobInput(name="located", path=workdir / "located", digest=digest_bytes(b""))
    job = replace(make_job(workdir, what), kind=StepKind.COMPILE, params=params)
    return replace(job, inputs=(given,)) if located else job


def run(job: Job) -> JobResult:
    """Fail as ``step_id`` says; the second look finds a location, unless the failure is "odd"."""
    (job.workdir / "looks").write_text(str(job.finds_failure))
    if job.finds_failure:
        if job.step_id == "odd":
            os.abort()
        if job.step_id == "endless":
            time.sleep(600)
        raise StepError("found", diagnostics=[FOUND])
    with StepIO(job).stage("check" if job.step_id == "early" else "emit"):
        if job.step_id == "placed":
            raise StepError("no", diagnostics=[Diagnostic(message="no", location=FOUND.location)])
        if job.step_id == "plain":
            raise StepError("no")
        os.write(2, b"LLVM ERROR: Cannot select\n")
        os.abort()


def error_of(job: Job) -> GpubuildError:
    executor = LocalExecutor(1, run=run, preload=nothing, part_for=lambda _: "")
    try:
        error = executor.submit(job).exception(120)
    finally:
        executor.close()
    assert isinstance(error, GpubuildError)
    return error


@pytest.mark.parametrize("what", ["abort", "plain"])
def test_a_failure_gets_its_place(tmp_path: Path, what: str) -> None:
    error = error_of(compile_job(tmp_path / "w", what))
    assert isinstance(error, StepError) and error.diagnostics == (FOUND,)
    assert error.stage == "emit" and type(error) is (StepCrashedError if what == "abort" else StepError)
    assert error.output == ("LLVM ERROR: Cannot select" if what == "abort" else "")


@pytest.mark.parametrize("what", ["placed", "early"])
def test_what_has_a_place_or_comes_before_the_module_is_left_alone(tmp_path: Path, what: str) -> None:
    error_of(compile_job(tmp_path / "w", what))
    assert not (tmp_path / "w" / "second-look").exists()


def test_without_the_located_text_there_is_no_second_look(tmp_path: Path) -> None:
    error = error_of(compile_job(tmp_path / "w", "abort", located=False))
    assert isinstance(error, StepCrashedError) and error.diagnostics == ()


@pytest.mark.parametrize("what", ["odd", "endless"])
def test_a_second_look_that_fails_changes_nothing(tmp_path: Path, what: str) -> None:
    error = error_of(replace(compile_job(tmp_path / "w", what), timeout_seconds=1))
    assert error.message == "the compiler crashed (SIGABRT)"
    assert isinstance(error, StepCrashedError) and error.diagnostics == ()
