"""Failures: errors of a gpu.module wait for its last target, and like ones are shown together."""

from unit.build.test_diagnosis import failure
from unit.projects import build_report, step_report

from gpubuild.cli.console import Failures, closing_lines
from gpubuild.errors import GpubuildError, StepError, ToolNotFoundError
from gpubuild.model.events import PlanGrew, StepFinished, Waiting
from gpubuild.model.result import STOPPED, Status, StepReport
from gpubuild.model.step import StepKind


def compiled(target: str, error: GpubuildError | None = None, status: Status | None = None) -> StepReport:
    done = status or (Status.FAILED if error else Status.RAN)
    step = {"kind": StepKind.COMPILE, "program": "app", "module": "k", "target": target}
    return step_report(f"app/compile/k/{target}", done, error=error, **step)


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
    missing = [
        StepFinished(report=step_report(name, Status.FAILED, error=ToolNotFoundError("no C compiler")))
        for name in ("cc/a.c", "cc/b.c")
    ]
    assert [len(failures.note(event)) for event in missing] == [1, 0]


def closing(*steps: StepReport, programs: int = 1) -> list[str]:
    return closing_lines(build_report(*steps), programs=programs)


def test_closing_lines_name_what_failed_and_what_was_not_tried() -> None:
    error = StepError("it broke")
    steps = (
        compiled("sm_60", error),
        compiled("cpu", error),
        step_report("cc/a.c", Status.FAILED, error=error),
        step_report("app/link", Status.SKIPPED, reason="cc/a.c failed"),
        step_report("cc/b.c", Status.SKIPPED, reason=STOPPED),
        *(step_report(f"cc/{n}.c", Status.SKIPPED, reason=STOPPED) for n in range(4)),
    )
    assert closing(*steps) == [
        "failed: app/compile/k/{sm_60,cpu}, cc/a.c",
        "hint: -k also builds skipped independent steps: cc/b.c, cc/0.c, cc/1.c and 2 more",
    ]
    assert closing(compiled("cpu", error)) == ["failed: app/compile/k/cpu"]
    assert closing(compiled("cpu")) == []
    outline = step_report("outline/a.mlir", Status.FAILED, error=error, kind=StepKind.OUTLINE)
    assert closing(outline) == ["failed: outline/a.mlir"]
    assert "-k builds those" in closing(outline, programs=2)[1], "it keeps other programs from being built"
