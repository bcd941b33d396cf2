"""Failures: errors of a gpu.module wait for its last target, and like ones are shown together."""

from unit.build.test_diagnosis import failure

from gpubuild.cli.console import Failures, closing_lines
from gpubuild.errors import GpubuildError, StepError, ToolNotFoundError
from gpubuild.model.events import PlanGrew, StepFinished, Waiting
from gpubuild.model.result import STOPPED, BuildReport, Status, StepReport
from gpubuild.model.step import StepKind
from gpubuild.support.frozen import replace


def compiled(target: str, error: GpubuildError | None = None, status: Status | None = None) -> StepReport:
    return StepReport(
        id=f"app/compile/k/{target}",
        kind=StepKind.COMPILE,
        program="app",
        module="k",
        target=target,
        status=status or (Status.FAILED if error else Status.RAN),
        error=error,
    )


def other(name: str, status: Status, error: GpubuildError | None = None, reason: str = "") -> StepReport:
    said = {"status": status, "error": error, "reason": reason}
    return StepReport(id=name, kind=StepKind.CC, program="", module="", target="", **said)


def plan(*targets: str) -> PlanGrew:
    waiting = [
        Waiting(id=f"app/compile/k/{t}", kind=StepKind.COMPILE, seconds=None, program="app", module="k")
        for t in targets
    ]
    return PlanGrew(total=len(waiting), waiting={w.id: w for w in waiting})


def test_errors_wait_for_the_last_target_and_come_in_the_order_of_the_plan() -> None:
    failures = Failures()
    assert failures.note(plan("sm_60", "sm_90", "cpu")) == []
    assert failures.note(StepFinished(report=compiled("cpu", failure("cpu")))) == []
    assert failures.note(StepFinished(report=compiled("sm_60", failure("sm_60")))) == []
    (shown,) = failures.note(StepFinished(report=compiled("sm_90")))
    assert "targets sm_60, cpu," in shown.render()
    assert failures.rest() == []


def test_what_waits_is_shown_when_the_build_is_interrupted() -> None:
    failures = Failures()
    failures.note(plan("sm_60", "cpu"))
    failures.note(StepFinished(report=compiled("cpu", failure("cpu"))))
    assert [error.message for error in failures.rest()] == ["target cpu cannot compile 'x.y'"]


def test_what_several_steps_miss_is_told_once() -> None:
    failures = Failures()
    missing = StepFinished(report=other("cc/a.c", Status.FAILED, ToolNotFoundError("no C compiler")))
    assert len(failures.note(missing)) == 1
    again = StepFinished(report=other("cc/b.c", Status.FAILED, ToolNotFoundError("no C compiler")))
    assert failures.note(again) == []


def closing(*steps: StepReport, programs: int = 1) -> list[str]:
    return closing_lines(BuildReport(steps=steps, executables={}, seconds=0.0), programs=programs)


def test_closing_lines_name_what_failed_and_what_was_not_tried() -> None:
    error = StepError("it broke")
    steps = (
        compiled("sm_60", error),
        compiled("cpu", error),
        other("cc/a.c", Status.FAILED, error),
        other("app/link", Status.SKIPPED, reason="cc/a.c failed"),
        other("cc/b.c", Status.SKIPPED, reason=STOPPED),
        *(other(f"cc/{n}.c", Status.SKIPPED, reason=STOPPED) for n in range(4)),
    )
    assert closing(*steps) == [
        "failed: app/compile/k/{sm_60,cpu}, cc/a.c",
        "hint: -k also builds skipped independent steps: cc/b.c, cc/0.c, cc/1.c and 2 more",
    ]
    assert closing(compiled("cpu", error)) == ["failed: app/compile/k/cpu"]
    assert closing(compiled("cpu")) == []
    outline = replace(other("outline/a.mlir", Status.FAILED, error), kind=StepKind.OUTLINE)
    assert closing(outline) == ["failed: outline/a.mlir"]
    assert "-k builds those" in closing(outline, programs=2)[1], "it keeps other programs from being built"
