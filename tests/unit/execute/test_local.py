import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from unit.execute.jobs import make_job, nothing, run, wait_for

from gpubuild.errors import GpubuildError, InterruptedBuildError, NoRoomError, StepCrashedError, StepError
from gpubuild.execute.executor import Executor, LazyExecutor, early
from gpubuild.execute.local import LocalExecutor, start_early
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import OutlineParams

PATIENCE = 120.0  # seconds until a test that should end is called stuck


@pytest.fixture
def executor():
    with closing(LocalExecutor(2, run=run, preload=nothing)) as made:
        yield made


def error_of(executor: LocalExecutor, job: Job) -> GpubuildError:
    error = executor.submit(job).exception(PATIENCE)
    assert isinstance(error, GpubuildError), error
    return error


@contextmanager
def one_worker(**parts: Any) -> Iterator[LocalExecutor]:
    """One process, which may run several jobs."""
    options = {"run": run, "preload": nothing, "part_for": always} | parts
    with closing(LocalExecutor(1, **options)) as made:
        yield made


def output(job: Job, name: str) -> str:
    return (job.workdir / "out" / name).read_text()


def always(job: Job) -> str:
    return "all"


def process_of(executor: LocalExecutor, folder: Path) -> str:
    job = make_job(folder, "describe")
    executor.submit(job).result(PATIENCE)
    return output(job, "pids").split()[0]


def test_a_job_gives_its_result(executor: LocalExecutor, tmp_path: Path) -> None:
    job = make_job(tmp_path / "w", "quick")
    done = executor.submit(job).result(PATIENCE)
    assert done.step_id == "quick"
    assert [blob.name for blob in done.result.blobs] == ["out"]
    assert output(job, "out") == "quick"
    assert [stage.stage for stage in done.stages] == ["stage of quick"]


def test_where_a_job_runs(executor: LocalExecutor, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w"):
        jobs = [make_job(tmp_path / str(n), "describe") for n in range(2)]
        for job in jobs:
            executor.submit(job).result(PATIENCE)
    first, second = jobs
    assert output(first, "cwd") == "/"
    assert output(first, "umask") == "0o22"
    assert output(first, "stdin") == ""
    # 0 to 2, the pipe for the answer, the name of the stage, and the listing: nothing of the parent's.
    assert len(output(first, "fds").split()) == 6
    pid, group, parent = output(first, "pids").split()
    assert pid == group
    assert output(second, "pids").split() == [pid, group, parent]
    assert parent != str(os.getpid())
    assert (first.workdir / "log").read_text() == "printed\nwritten"


CRASHES = {
    "segfault": "the compiler crashed (SIGSEGV)",
    "null pointer": "the compiler crashed (SIGSEGV)",
    "abort": "the compiler crashed (SIGABRT)",
    "killed": "the compiler was killed (SIGKILL), most likely because memory ran out",
    "exit 0 at once": "the compiler ended without a result (exit code 0)",
    "exit 7 at once": "the compiler ended without a result (exit code 7)",
    "die while answering": "the compiler was killed (SIGKILL), most likely because memory ran out",
    "sleep": "timed out after 0.2 s",
    "sleep in C": "timed out after 0.2 s",
    "ignore SIGTERM": "timed out after 0.2 s",
}


@pytest.mark.parametrize("what", [*CRASHES, "fail", "exit", "leave a tool"])
def test_a_crash_stays_alone(tmp_path: Path, what: str) -> None:
    """The job beside it ends well, and no job follows it in its process."""
    (tmp_path / "sleeper").symlink_to("/bin/sleep")
    limit = 0.2 if "timed out" in CRASHES.get(what, "") else 0.0
    bad = make_job(tmp_path / "bad", what, timeout_seconds=limit)
    with closing(LocalExecutor(2, run=run, preload=nothing, part_for=always)) as executor:
        other = make_job(tmp_path / "other", "hold")
        held = executor.submit(other)
        wait_for(other.workdir / "stage")
        before = process_of(executor, tmp_path / "before")
        error = executor.submit(bad).exception(PATIENCE)
        after = process_of(executor, tmp_path / "after")
        (other.workdir / "go").write_text("go")
        assert held.result(PATIENCE).step_id == "hold"
    assert after != before
    if what in CRASHES:
        assert isinstance(error, StepCrashedError)
        assert (error.message, error.stage) == (CRASHES[what], f"stage of {what}")
        assert error.hint
    if what == "abort":
        said = ["LLVM ERROR: Cannot select: 0x…: f32 = fsin 0x…", "warning: something before"]
        assert error.output.splitlines() == said


def test_a_real_abort_of_mlir(tmp_path: Path) -> None:
    def abort(job: Job) -> JobResult:
        from mlir import ir

        with ir.Context():
            ir.Type.parse("")
        raise AssertionError("MLIR has become more patient; find another way to make it abort")

    with closing(LocalExecutor(1, run=abort)) as executor:
        error = error_of(executor, make_job(tmp_path / "w", "x"))
    assert error.message == "the compiler crashed (SIGABRT)"
    assert isinstance(error, StepCrashedError) and "Assertion" in error.output.splitlines()[0]


# The type of an error; what is in its message, in its hint and in its output.
ERRORS: dict[str, tuple[type[StepError], str, str, str]] = {
    "fail": (StepError, "no", "hint", "output"),
    # These are no internal errors.
    "fill the disk": (NoRoomError, "cannot write to FOLDER: No space left on device", "--build-dir", ""),
    "recurse": (StepError, "nested too deeply to be compiled for this target", "functions of their own", ""),
    "exit": (StepError, "internal error: SystemExit: 0", "report", "Traceback"),
    "unpicklable": (
        StepError,
        "internal error: the answer of the step cannot be sent: stubborn",
        "report",
        "Traceback",
    ),
}


@pytest.mark.parametrize("what", ERRORS)
def test_an_error_of_a_step_arrives(executor: LocalExecutor, tmp_path: Path, what: str) -> None:
    kind, message, hint, output = ERRORS[what]
    error = error_of(executor, make_job(tmp_path / "w", what))
    assert type(error) is kind
    assert message.replace("FOLDER", str(tmp_path.parent)) in error.message
    assert hint in error.hint
    assert (output in error.output) if output else not error.output
    assert error.stage == ("" if "internal" in message else f"stage of {what}")
    assert executor.submit(make_job(tmp_path / "after", "quick")).result(PATIENCE)


def test_an_answer_larger_than_any_buffer(executor: LocalExecutor, tmp_path: Path) -> None:
    done = executor.submit(make_job(tmp_path / "w", "big answer")).result(PATIENCE)
    assert len(done.result.warnings) == 2000


def test_a_missing_working_folder_is_an_error_of_the_job(executor: LocalExecutor, tmp_path: Path) -> None:
    job = make_job(tmp_path / "w", "quick")
    job.workdir.rmdir()
    assert "FileNotFoundError" in error_of(executor, job).message


def test_no_more_jobs_at_once_than_workers(executor: LocalExecutor, tmp_path: Path) -> None:
    jobs = [make_job(tmp_path / str(n), "hold") for n in range(5)]
    futures = [executor.submit(job) for job in jobs]
    quick = executor.submit(make_job(tmp_path / "quick", "quick"))
    for job in jobs[:2]:
        wait_for(job.workdir / "stage")
    assert [(job.workdir / "stage").exists() for job in jobs] == [True, True, False, False, False]
    (jobs[1].workdir / "go").write_text("go")
    assert futures[1].result(PATIENCE)
    wait_for(jobs[2].workdir / "stage")
    assert not (jobs[3].workdir / "stage").exists() and not quick.done()
    for job in jobs:
        (job.workdir / "go").write_text("go")
    assert all(future.result(PATIENCE) for future in [*futures, quick])


def test_a_process_runs_a_limited_number_of_jobs_of_parts_that_it_has(tmp_path: Path) -> None:
    parts = iter(["a", "b", *["a", "b"] * 8])
    with one_worker(part_for=lambda _: next(parts)) as executor:
        found = [process_of(executor, tmp_path / str(n)) for n in range(18)]
    assert found[0] != found[1]
    assert found[1:17] == [found[1]] * 16
    assert found[17] not in found[:17]


def test_the_engine_is_loaded_once_and_before_the_fork(tmp_path: Path) -> None:
    def preload(part: str) -> None:
        with (tmp_path / "loaded").open("a") as stream:
            stream.write(f"{os.getpid()}\n")

    def parent(job: Job) -> JobResult:
        raise StepError(str(os.getppid()))

    with one_worker(run=parent, preload=preload) as executor:
        assert not (tmp_path / "loaded").exists(), "a build that runs nothing loads nothing"
        found = {error_of(executor, make_job(tmp_path / str(n), "x")).message for n in range(3)}
    assert (tmp_path / "loaded").read_text().split() == list(found)


def test_the_parts_of_the_engine_are_loaded_for_jobs_that_need_them(tmp_path: Path) -> None:
    def preload(part: str) -> None:
        with (tmp_path / "loaded").open("a") as stream:
            stream.write(f"{part} ")

    parts = {"describe": "", "quick": "some", "slow": "all"}
    with one_worker(preload=preload, part_for=lambda p: parts[p.source_name]) as executor:
        loaded = []
        for number, what in enumerate(["describe", "quick", "slow", "quick"]):
            assert executor.submit(make_job(tmp_path / str(number), what)).result(PATIENCE)
            loaded.append((tmp_path / "loaded").read_text() if (tmp_path / "loaded").exists() else "")
    assert loaded == ["", "some ", "some all ", "some all "]


def test_a_process_runs_jobs_of_parts_that_another_part_imported(tmp_path: Path) -> None:
    def noted(job: Job) -> JobResult:
        (tmp_path / job.step_id).write_text(str(os.getpid()))
        return run(job)

    parts = {"quick": "importer", "describe": __name__}
    with one_worker(run=noted, part_for=lambda p: parts[p.source_name]) as executor:
        for what in parts:
            executor.submit(make_job(tmp_path / f"{what}.work", what)).result(PATIENCE)
    assert (tmp_path / "quick").read_text() == (tmp_path / "describe").read_text()


def test_the_parts_of_expected_jobs_are_loaded_without_one(tmp_path: Path) -> None:
    def preload(part: str) -> None:
        with (tmp_path / "loaded").open("a") as stream:
            stream.write(f"{part} ")

    with one_worker(preload=preload, part_for=lambda p: p.source_name) as executor:
        executor.expect(OutlineParams(source_name=what) for what in ("quick", "slow", "quick"))
        while not (tmp_path / "loaded").exists() or (tmp_path / "loaded").read_text() != "quick slow ":
            time.sleep(0.01)
        assert executor.submit(make_job(tmp_path / "w", "slow")).result(PATIENCE)
        executor.finish()
    assert (tmp_path / "loaded").read_text() == "quick slow "


def test_an_engine_that_cannot_be_loaded(tmp_path: Path) -> None:
    def preload(part: str) -> None:
        raise ImportError("no mlir")

    with one_worker(preload=preload) as executor:
        assert executor.submit(make_job(tmp_path / "w", "quick")).result(PATIENCE)


def test_a_machine_out_of_processes(tmp_path: Path) -> None:
    def preload(part: str) -> None:
        def fork() -> int:
            raise BlockingIOError(11, "Resource temporarily unavailable")

        os.fork = fork  # in the forker only

    with one_worker(preload=preload) as executor:
        error = error_of(executor, make_job(tmp_path / "w", "quick"))
    assert "Resource temporarily unavailable" in error.message and "-j" in error.hint


def test_cancel_ends_what_runs_and_what_waits(executor: LocalExecutor, tmp_path: Path) -> None:
    futures = [executor.submit(make_job(tmp_path / str(n), "sleep in C")) for n in range(4)]
    executor.cancel()
    assert all(isinstance(future.exception(PATIENCE), InterruptedBuildError) for future in futures)
    executor.cancel()
    executor.close()
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(make_job(tmp_path / "late", "quick"))


def test_closing_an_executor_that_never_worked() -> None:
    with closing(LocalExecutor(3, run=run, preload=nothing)) as executor:
        forker = executor._forker
    executor.close()
    with pytest.raises(ProcessLookupError):
        os.kill(forker, 0)


def test_an_executor_made_early_is_used_if_it_suits() -> None:
    def make(workers: int) -> Executor:
        raise AssertionError("another one was made")

    start_early(2)
    made = early[-1]
    other, suited = LazyExecutor(3, make), LazyExecutor(2, make)
    other.use_early()
    assert early == [made]
    suited.use_early()
    assert suited.start() is made and not early
    suited.close()  # while MLIR is being loaded


def test_an_executor_made_early_is_not_used_after_its_process_was_killed() -> None:
    start_early(2)
    made = early[-1]
    assert isinstance(made, LocalExecutor)
    os.kill(made._forker, signal.SIGKILL)
    made._reader.join(PATIENCE)
    assert not early
    made.close()


INTERRUPTED_FORK = """
import os, signal
from gpubuild.execute.local import LocalExecutor
os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGINT))
try:
    LocalExecutor(1)
except KeyboardInterrupt:
    print("stopped")
"""


def test_ctrl_c_at_a_fork_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_FORK], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_a_killed_forker_is_an_error_not_a_hang(executor: LocalExecutor, tmp_path: Path) -> None:
    futures = [executor.submit(make_job(tmp_path / str(n), "sleep")) for n in range(3)]
    wait_for(tmp_path / "0" / "stage")
    os.kill(executor._forker, signal.SIGKILL)
    futures.append(executor.submit(make_job(tmp_path / "late", "quick")))
    for future in futures:
        error = future.exception(PATIENCE)
        assert isinstance(error, StepCrashedError) and "was killed" in error.message
