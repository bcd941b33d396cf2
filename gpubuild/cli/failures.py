"""Failures: when the errors of a build are shown, and which of them together.

What is wrong with a kernel is most often wrong for each of its targets. The errors of a gpu.module
therefore wait until the last of its targets was tried, and those that say the same are shown once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpubuild.errors import GpubuildError
from gpubuild.model.events import Event, PlanGrew, StepFinished
from gpubuild.model.result import BuildReport, StepReport
from gpubuild.model.step import StepKind
from gpubuild.support.text import one_line

_NAMED = 3  # steps, or gpu.modules
_SCANS = (StepKind.OUTLINE, StepKind.PREPROCESS)


class Failures:
    """Takes every event of a build and gives out errors in the form to show."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}  # of the plan: the same mistakes give the same text
        self._open: dict[tuple[str, str], set[str]] = {}  # by program and module: compile steps to come
        self._held: dict[tuple[str, str], list[StepReport]] = {}
        self._told: set[str] = set()

    def note(self, event: Event) -> list[GpubuildError]:
        """The errors to be shown now that ``event`` has happened."""
        if isinstance(event, PlanGrew):
            for number, waiting in enumerate(event.waiting.values()):
                self._order.setdefault(waiting.id, number)
                if waiting.kind is StepKind.COMPILE:
                    self._open.setdefault((waiting.program, waiting.module), set()).add(waiting.id)
        if not isinstance(event, StepFinished):
            return []
        report = event.report
        if report.kind is not StepKind.COMPILE:
            return self._new([report.error] if report.error is not None else [])
        module = (report.program, report.module)
        if report.error is not None:
            self._held.setdefault(module, []).append(report)
        awaited = self._open.get(module, set())
        awaited.discard(report.id)
        return [] if awaited else self._release(module)

    def rest(self) -> list[GpubuildError]:
        """What is still held back: the build has ended, in whatever way."""
        return [error for module in list(self._held) for error in self._release(module)]

    def _release(self, module: tuple[str, str]) -> list[GpubuildError]:
        reports = sorted(self._held.pop(module, []), key=lambda r: self._order.get(r.id, 0))
        if not reports:
            return []
        from gpubuild.build.diagnosis import grouped  # for failures only

        return self._new(grouped(r.error for r in reports if r.error is not None))

    def _new(self, errors: Iterable[GpubuildError]) -> list[GpubuildError]:
        """Errors that say more than earlier ones: a tool is missing once, not for every step."""
        found = []
        for error in errors:
            text = error.render()
            if text not in self._told:
                self._told.add(text)
                found.append(error)
        return found


def closing_lines(report: BuildReport, *, programs: int) -> list[str]:
    """What failed, and what was left undone because of it; of a build that was asked for ``programs``."""
    lines = []
    if report.failed:
        lines.append(f"failed: {_listed(report.failed)}")
    if report.stopped:
        lines.append(f"hint: -k also builds skipped independent steps: {_listed(report.stopped)}")
    elif programs > 1 and report.failed and all(step.kind in _SCANS for step in report.steps):
        lines.append("hint: no program was built: -k builds those without failed steps")
    return lines


def _listed(steps: Sequence[StepReport]) -> str:
    """``app/compile/k/{sm_60,cpu}, app/link and 4 more``: a gpu.module's targets together."""
    groups: dict[str, list[StepReport]] = {}
    for step in steps:
        compiled = step.kind is StepKind.COMPILE
        groups.setdefault(step.id.removesuffix(step.target) if compiled else step.id, []).append(step)
    named = list(groups.items())[:_NAMED]
    left = len(steps) - sum(len(group) for _, group in named)
    texts = [
        f"{begin}{{{','.join(s.target for s in group)}}}" if len(group) > 1 else group[0].id
        for begin, group in named
    ]
    return one_line(", ".join(texts)) + (f" and {left} more" if left else "")
