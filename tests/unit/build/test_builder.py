"""The builder against a fake engine: what runs, what is reused, what is reported."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from unit.fakes import FaultyStore, MemoryStore
from unit.projects import TARGETS, make_program, make_project
from unit.world import World, fake_engine, statuses

from gpubuild.errors import InterruptedBuildError, StepCrashedError, StepError
from gpubuild.model.events import StepFinished
from gpubuild.model.job import Job, JobResult
from gpubuild.model.result import Status
from gpubuild.model.step import CompileParams, StepKind


@pytest.fixture
def two(world: World) -> World:
    """Two programs, of which only `app` has C and a module that the others lack."""
    world.programs(
        make_program(world.root, "app", "app.mlir", "main.c"), make_program(world.root, "fine", "fine.mlir")
    )
    (world.root / "fine.mlir").write_text("f ok\n")
    return world


def test_first_all_ran_then_all_up_to_date(world: World) -> None:
    """Every step is told to the listener once."""
    first = world.build()
    assert first.ok
    assert statuses(first) == {Status.RAN}
    assert {s.reason for s in first.steps} == {"first build"}
    assert first.executables == {"app": world.root / "build/app/app"}
    assert (world.root / "build/app/app").stat().st_mode & 0o777 == 0o755
    told = [e.report.id for e in world.events.events if isinstance(e, StepFinished)]
    assert sorted(told) == sorted(s.id for s in first.steps)
    second = world.build()
    assert statuses(second) == {Status.UP_TO_DATE}
    assert not world.jobs


def test_one_targets_option_touches_that_target_only(world: World) -> None:
    world.build()
    world.change_target("sm_90", opt_level=1)
    report = world.build()
    assert {i for i in world.ran() if "/compile/" in i} == {"app/compile/k/sm_90"}
    reasons = {s.id: s.reason for s in report.steps}
    assert reasons["app/compile/k/sm_90"] == "option opt_level changed: 3 → 1"


def test_renaming_a_target_recompiles_nothing(world: World) -> None:
    world.build()
    targets = {**TARGETS, "volta": replace(TARGETS["sm_60"], name="volta")}
    del targets["sm_60"]
    program = make_program(world.root, "app", "app.mlir", "main.c", targets=tuple(targets))
    world.build(make_project(world.root, program, targets=targets))
    assert not {i for i in world.ran() if "/compile/" in i}


DAMAGE: dict[str, Callable[[Path], object]] = {
    "had been deleted": lambda path: path.unlink(),
    "had been edited": lambda path: path.write_bytes(b"x" * path.stat().st_size),
    "was not executable any more": lambda path: path.chmod(0o644),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_outputs_are_noticed_and_restored(world: World, damage: str) -> None:
    world.build()
    executable = world.root / "build/app/app"
    content = executable.read_bytes()
    DAMAGE[damage](executable)
    report = world.build()
    link = next(s for s in report.steps if s.id == "app/link")
    assert (link.status, link.reason) == (Status.HIT_LOCAL, f"output app {damage}")
    assert executable.read_bytes() == content
    assert executable.stat().st_mode & 0o111


@pytest.mark.parametrize("broken", [{"lookup"}, {"fetch"}, {"publish"}, {"lookup", "fetch", "publish"}])
def test_a_broken_cache_costs_time_only(world: World, broken: set[str]) -> None:
    world.store = FaultyStore(MemoryStore(), broken)
    first = world.build()
    assert first.ok
    content = (world.root / "build/app/app").read_bytes()
    shutil.rmtree(world.root / "build")
    second = world.build()
    assert second.ok
    assert (world.root / "build/app/app").read_bytes() == content
    assert second.warnings


def test_equal_steps_of_two_programs_run_once(world: World) -> None:
    world.programs(*(make_program(world.root, name, "app.mlir", "main.c") for name in "ab"))
    world.store = FaultyStore(MemoryStore(), {"lookup"})  # even without a cache
    assert world.build().ok
    assert len([j for j in world.jobs if j.kind is StepKind.COMPILE]) == len(TARGETS)
    made = [(world.root / f"build/{name}/k.sm_60.cubin").read_bytes() for name in "ab"]
    assert made[0] == made[1]


def test_interrupt_cancels_and_saves_what_is_done(world: World) -> None:
    """In the build folder and in the cache."""

    def interrupted(job: Job) -> JobResult:
        if job.kind is StepKind.LINK:
            raise KeyboardInterrupt
        return fake_engine(job)

    world.engine = interrupted
    with pytest.raises(InterruptedBuildError):
        world.build()
    assert not (world.root / "build/app/app").exists()
    world.engine = fake_engine
    world.build()
    assert world.ran() == {"app/link"}
    assert isinstance(world.store, MemoryStore)
    kept = {record.key for record in world.builder().state.records().values()}
    assert kept == set(world.store.records)


# ---- dry runs ----


def test_dry_run_runs_scans_only(world: World) -> None:
    report = world.build(dry_run=True)
    assert world.ran() == {"outline/app.mlir", "preprocess/main.c"}
    assert not (world.root / "build/app").exists()
    assert {s.status for s in report.steps} == {Status.RAN, Status.WOULD_RUN}
    world.build()
    report = world.build(dry_run=True)
    assert statuses(report) == {Status.UP_TO_DATE}


def test_dry_run_tells_what_the_cache_has(world: World) -> None:
    world.build()
    shutil.rmtree(world.root / "build")
    report = world.build(dry_run=True)
    assert not (world.root / "build/app").exists()
    found = {s.id: s.status for s in report.steps}
    assert found.pop("outline/app.mlir") is found.pop("preprocess/main.c") is Status.HIT_LOCAL
    assert set(found.values()) == {Status.WOULD_HIT}, "all the way to the link"
    # Without the results of one target, what is made of them is not known either.
    compiled = next(s for s in report.steps if s.id == "app/compile/k/cpu")
    assert compiled.key is not None
    world.store.discard(compiled.key)
    report = world.build(dry_run=True)
    runs = {s.id: s.reason for s in report.steps if s.status is Status.WOULD_RUN}
    assert runs == {
        "app/compile/k/cpu": "first build",
        "app/bundle/k": "needs app/compile/k/cpu",
        "app/link": "needs app/bundle/k",
    }


def test_dry_run_does_not_take_old_files_for_those_it_would_fetch(world: World) -> None:
    world.build()
    (world.root / "build/app/k.cpu.so").write_bytes(b"edited")
    report = world.build(dry_run=True)
    found = {s.id: s.status for s in report.steps if s.status is not Status.UP_TO_DATE}
    assert found == {"app/compile/k/cpu": Status.WOULD_HIT}
    assert (world.root / "build/app/k.cpu.so").read_bytes() == b"edited"


# ---- failures ----


def test_a_missing_tool_fails_its_steps_with_a_hint(world: World) -> None:
    world.tools.absent.add("ptxas")
    report = world.build(keep_going=True)
    failed = {s.id: s.error for s in report.failed}
    assert set(failed) == {"app/compile/k/sm_60", "app/compile/k/sm_90"}
    assert all(e is not None and e.hint == "install it" for e in failed.values())


def test_failure_stops_the_build_and_leaves_nothing_stale(world: World) -> None:
    world.build()
    (world.root / "app.mlir").write_text("k unselectable\n")
    report = world.build()
    assert [s.id for s in report.failed] == ["app/compile/k/gfx90a"]
    assert not report.ok
    assert not report.executables
    assert not (world.root / "build/app/app").exists()
    assert not (world.root / "build/app/k.gfx90a.hsaco").exists()
    error = report.failed[0].error
    assert isinstance(error, StepCrashedError)
    assert (error.program, error.module, error.target, error.stage) == ("app", "k", "gfx90a", "codegen")
    assert "compile" in error.reproduce
    assert "--chip gfx90a" in error.reproduce


def test_a_source_that_cannot_be_read_leaves_no_old_executable(two: World) -> None:
    assert two.build().ok
    source = two.root / "app.mlir"
    content = source.read_text()
    source.write_text("syntax error\n")
    assert not two.build().ok
    assert not (two.root / "build/app/app").exists()
    assert (two.root / "build/fine/fine").exists()
    source.write_text(content)
    assert two.build().ok
    assert (two.root / "build/app/app").exists()


def test_after_a_failure_reasons_are_of_what_was_built_last(world: World) -> None:
    world.build()
    (world.root / "app.mlir").write_text("k unselectable\n")
    assert not world.build().ok
    (world.root / "app.mlir").write_text("k two\n")
    report = world.build()
    reasons = {s.id: (s.status, s.reason) for s in report.steps}
    assert report.ok
    for step in ("app/compile/k/gfx90a", "app/bundle/k", "app/link"):
        status, reason = reasons[step]
        assert status is Status.RAN
        assert reason not in ("", "first build")
    assert reasons["app/compile/k/gfx90a"][1].startswith("gpu.module @k changed")


def test_a_failure_hides_no_other_target_of_the_source(two: World) -> None:
    """Not even when nothing runs side by side; what is of other sources is not started."""

    def engine(job: Job) -> JobResult:
        params = job.params
        if isinstance(params, CompileParams) and params.module == "k" and params.target.chip != "sm_60":
            raise StepError("it broke")
        return fake_engine(job)

    two.engine = engine
    (two.root / "app.mlir").write_text("k one\nother two\n")
    report = two.build()
    ended = {s.id: s.status for s in report.steps}
    compiled = {i: s for i, s in ended.items() if "app/compile/" in i}
    failed = {f"app/compile/k/{name}" for name in TARGETS if name != "sm_60"}
    assert {i for i, s in compiled.items() if s is Status.FAILED} == failed
    assert {i for i, s in compiled.items() if s is Status.RAN} == compiled.keys() - failed
    assert {"app/compile/other/cpu", "app/compile/k/sm_60"} <= compiled.keys() - failed
    stopped = {s.id for s in report.stopped}
    assert {"fine/bundle/f", "fine/link", "app/bundle/other"} <= stopped
    assert len([i for i in stopped if i.startswith("fine/compile/")]) >= len(TARGETS) - 2
    assert ended["app/bundle/k"] is ended["app/link"] is Status.SKIPPED
    assert not {"app/bundle/k", "app/link"} & stopped


def test_every_source_is_read_even_when_one_is_wrong(world: World) -> None:
    names = [f"s{n}" for n in range(6)]
    world.programs(*(make_program(world.root, name, f"{name}.mlir") for name in names))
    for name in names:
        (world.root / f"{name}.mlir").write_text("syntax error\n")
    report = world.build()
    assert {s.id for s in report.failed} == {f"outline/{name}.mlir" for name in names}


@pytest.mark.parametrize(
    ("source", "failed"),
    [("k unselectable\n", "app/compile/k/gfx90a"), ("syntax error\n", "outline/app.mlir")],
)
def test_keep_going_builds_everything_else(two: World, source: str, failed: str) -> None:
    (two.root / "app.mlir").write_text(source)
    report = two.build(keep_going=True)
    assert set(report.executables) == {"fine"}
    assert [s.id for s in report.failed] == [failed]
    ended = {s.id: s.status for s in report.steps if s.program == "app"}
    if "compile" in failed:
        assert ended["app/compile/k/sm_90"] is Status.RAN
        assert ended["app/bundle/k"] is ended["app/link"] is Status.SKIPPED


def test_failures_are_not_cached(world: World) -> None:
    (world.root / "app.mlir").write_text("k unselectable\n")
    world.build(keep_going=True)
    again = world.build(keep_going=True)
    assert [s.id for s in again.failed] == ["app/compile/k/gfx90a"]
    assert world.ran() == {"app/compile/k/gfx90a"}


def test_missing_source_is_named_with_a_suggestion(world: World) -> None:
    (world.root / "app.mlir").rename(world.root / "apq.mlir")
    report = world.build()
    error = report.failed[0].error
    assert "app.mlir does not exist" in error.message
    assert "apq.mlir" in error.hint
