"""What a failed step leaves behind, what else is still tried, and what the next build makes of it."""

from __future__ import annotations

from unit.projects import TARGETS, make_program
from unit.world import World, fake_engine

from gpubuild.errors import StepCrashedError, StepError
from gpubuild.model.job import Job, JobResult
from gpubuild.model.result import Status
from gpubuild.model.step import CompileParams, OutlineParams


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


def test_a_source_that_cannot_be_read_leaves_no_old_executable(world: World) -> None:
    def engine(job: Job) -> JobResult:
        if isinstance(job.params, OutlineParams) and job.params.source_name == "app.mlir":
            raise StepError("does not parse")
        return fake_engine(job)

    world.programs(
        make_program(world.root, "app", "app.mlir", "main.c"), make_program(world.root, "fine", "fine.mlir")
    )
    (world.root / "fine.mlir").write_text("f ok\n")
    assert world.build().ok
    good, world.engine = world.engine, engine
    content = (world.root / "app.mlir").read_text()
    (world.root / "app.mlir").write_text("k {\n")
    assert not world.build().ok
    assert not (world.root / "build/app/app").exists()
    assert (world.root / "build/fine/fine").exists()
    world.engine = good
    (world.root / "app.mlir").write_text(content)
    assert world.build().ok
    assert (world.root / "build/app/app").exists()


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


def test_a_failure_hides_no_other_target_of_the_source(world: World) -> None:
    """Not even when nothing runs side by side; what is of other sources is not started."""

    def engine(job: Job) -> JobResult:
        if (
            isinstance(job.params, CompileParams)
            and job.params.module == "k"
            and job.params.target.chip != "sm_60"
        ):
            raise StepError("it broke")
        return fake_engine(job)

    world.engine = engine
    world.programs(
        make_program(world.root, "app", "app.mlir", "main.c"), make_program(world.root, "fine", "fine.mlir")
    )
    (world.root / "app.mlir").write_text("k one\nother two\n")
    (world.root / "fine.mlir").write_text("f ok\n")
    report = world.build()
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


def test_keep_going_builds_everything_else(world: World) -> None:
    world.programs(
        make_program(world.root, "app", "app.mlir", "main.c"), make_program(world.root, "fine", "fine.mlir")
    )
    (world.root / "app.mlir").write_text("k unselectable\n")
    (world.root / "fine.mlir").write_text("f ok\n")
    report = world.build(keep_going=True)
    assert set(report.executables) == {"fine"}
    ended = {s.id: s.status for s in report.steps}
    assert ended["app/compile/k/sm_90"] is Status.RAN
    assert ended["app/bundle/k"] is Status.SKIPPED
    assert ended["app/link"] is Status.SKIPPED


def test_a_source_that_does_not_parse_keeps_the_other_programs(world: World) -> None:
    world.programs(make_program(world.root, "app", "app.mlir"), make_program(world.root, "fine", "fine.mlir"))
    (world.root / "app.mlir").write_text("syntax error\n")
    (world.root / "fine.mlir").write_text("f ok\n")
    report = world.build(keep_going=True)
    assert set(report.executables) == {"fine"}
    assert [s.id for s in report.failed] == ["outline/app.mlir"]


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
    assert error is not None
    assert "app.mlir does not exist" in error.message
    assert "apq.mlir" in error.hint
