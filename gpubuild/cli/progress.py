"""Progress of a build, as plain lines or as a live view with an estimate of the remaining time."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

from gpubuild.cli.console import Console, Failures, paint
from gpubuild.model.events import BuildWarning, Event, PlanGrew, StepFinished, StepStarted, Waiting
from gpubuild.model.result import STATUS_WORDS, BuildReport, Status, StepReport
from gpubuild.model.step import StepKind
from gpubuild.support.text import counted, one_line

_COUNTED = (Status.RAN, Status.HIT_LOCAL, Status.HIT_REMOTE, Status.UP_TO_DATE)


class Estimate:
    """The remaining time of a build, in seconds of the caller's clock.

    A step is expected to take as long as last time, corrected by how much slower this build is. A new step
    takes as long as those of its kind in this build on average, else as long as any. The share of steps that
    had to run so far is the probability that a waiting step will run.
    """

    def __init__(self) -> None:
        self.running: dict[str, float] = {}  # when each step began
        self._workers = 1
        self._waiting: dict[str, Waiting] = {}
        self._before = self._now = _TRUSTED_SECONDS  # seconds of the same steps, last time and now
        self._took: dict[StepKind, list[float]] = {}  # of steps that ran
        self._ended = 0
        self._end: float | None = None  # when the build ends, as shown
        self._share = 0.0  # of the bar

    def grow(self, waiting: Mapping[str, Waiting], workers: int) -> None:
        """Replace the waiting steps; ``workers`` run at once."""
        self._waiting = dict(waiting)
        self._workers = max(workers, 1)

    def finish(self, report: StepReport) -> None:
        """Count a step that ended."""
        waited = self._waiting.pop(report.id, None)
        self.running.pop(report.id, None)
        if report.status in _COUNTED:
            self._ended += 1
            if report.status is Status.RAN:
                self._took.setdefault(report.kind, []).append(report.cost_seconds)
                if waited is not None and waited.seconds is not None:
                    self._before += waited.seconds
                    self._now += report.cost_seconds

    def left(self, now: float) -> float | None:
        """Return the seconds until the build ends; ``None`` where too little is known."""
        if not self._waiting:
            return None
        means = {kind: sum(took) / len(took) for kind, took in tuple(self._took.items())}
        every = [seconds for took in tuple(self._took.values()) for seconds in took]
        probability = len(every) / self._ended if self._ended else 1.0
        work, longest = 0.0, 0.0
        for waiting in tuple(self._waiting.values()):
            if waiting.seconds is not None:
                seconds = waiting.seconds * self._now / self._before
            else:
                if not every:
                    return None
                seconds = means.get(waiting.kind, sum(every) / len(every))
            began = self.running.get(waiting.id)
            if began is None:
                work += seconds * probability
            else:
                rest = max(seconds - (now - began), 0.0)
                work += rest
                longest = max(longest, rest)
        return max(work / self._workers, longest)

    def shown(self, now: float) -> float | None:
        """Return the time to show: it counts down, and changes only if it is far from the estimate."""
        left = self.left(now)
        if left is None:
            self._end = None
            return None
        if self._end is None or abs(now + left - self._end) > max(left * _TOLERANCE, _TOLERATED_SECONDS):
            self._end = now + left
        return max(self._end - now, 0.0)

    def bar(self, elapsed: float, left: float | None) -> str:
        """Return a bar of the time that has passed, of all of it; it never moves back."""
        if left is not None and elapsed + left > 0:
            self._share = max(self._share, elapsed / (elapsed + left))
        cells = int(self._share * _BAR_CELLS)
        return "#" * cells + "-" * (_BAR_CELLS - cells)


if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

_STYLE = {
    Status.RAN: "green",
    Status.HIT_LOCAL: "cyan",
    Status.HIT_REMOTE: "cyan",
    Status.UP_TO_DATE: "dim",
    Status.FAILED: "red",
    Status.SKIPPED: "yellow",
    Status.WOULD_RUN: "yellow",
    Status.WOULD_HIT: "cyan",
}
_WIDTH = max(map(len, Status))
_LISTED_LIVE = (Status.FAILED, Status.WOULD_RUN, Status.WOULD_HIT)  # the view itself shows running steps
_LISTED = (Status.RAN, *_LISTED_LIVE)  # without -v; the summary counts the others
_SCANNED = "scanned"  # what a dry run does to sources that changed, since the plan depends on them
_ROWS = 8  # running steps shown at once
_FRAME_SECONDS = 0.1
_BAR_CELLS = 20
_TOLERANCE, _TOLERATED_SECONDS = 0.25, 2.0  # between the time shown and the estimate
_TRUSTED_SECONDS = 10.0  # of earlier builds: fewer seconds of this one hardly correct them
_LEAST_SAVED_SECONDS = 0.05  # the summary omits less


def make_view(
    console: Console, *, to_err: bool, explain: bool, dry_run: bool = False
) -> PlainView | LiveView:
    """Return the view for the stream. ``to_err`` keeps stdout for results and for output of programs."""
    stream = console.err if to_err else console.out
    if stream.isatty() and not console.quiet:
        return LiveView(console, to_err=to_err, explain=explain, dry_run=dry_run)
    return PlainView(console, to_err=to_err, explain=explain, dry_run=dry_run)


class PlainView:
    """Print a line for each step that ran or failed; with ``explain`` or ``-v`` for each step.

    The errors of a module follow when all of its targets have been tried (:class:`Failures`).
    """

    def __init__(
        self,
        console: Console,
        *,
        to_err: bool,
        explain: bool,
        dry_run: bool = False,
        listed: Collection[Status] = _LISTED,
    ) -> None:
        self._console = console
        self._dry_run = dry_run
        self._listed = listed
        self._to_err = to_err
        self._color = console.color_err if to_err else console.color_out
        self._explain = explain
        self._warned: set[str] = set()
        self._failures = Failures()

    def __enter__(self) -> PlainView:
        return self

    def __exit__(self, *_: object) -> None:
        for error in self._failures.rest():
            self._console.error(error)

    def on_event(self, event: Event) -> None:
        """See ``Listener``."""
        for write in self.lines(event):
            write()

    def lines(self, event: Event) -> list[Callable[[], None]]:
        """Return functions that write what ``event`` leads to. Call once per event."""
        lines: list[Callable[[], None]] = []
        if isinstance(event, BuildWarning) and event.message not in self._warned:
            self._warned.add(event.message)
            lines.append(partial(self._console.warning, event.message))
        if isinstance(event, StepFinished) and self._lists(event.report):
            lines.append(partial(self._write_step, event.report))
        lines += [partial(self._console.error, error) for error in self._failures.note(event)]
        return lines

    def _write_step(self, report: StepReport) -> None:
        line = step_line(report, explain=self._explain, color=self._color, dry_run=self._dry_run)
        self._console.write(line + "\n", to_err=self._to_err)
        (self._console.err if self._to_err else self._console.out).flush()

    def _lists(self, report: StepReport) -> bool:
        if self._explain:
            return True
        return not self._console.quiet and (self._console.verbose or report.status in self._listed)


class LiveView:
    """Draw running steps and counts in a few lines; lines of finished steps scroll above them."""

    def __init__(self, console: Console, *, to_err: bool, explain: bool, dry_run: bool = False) -> None:
        from rich.console import Console as RichConsole

        self._stream = console.err if to_err else console.out
        self._plain = PlainView(console, to_err=to_err, explain=explain, dry_run=dry_run, listed=_LISTED_LIVE)
        self._rich = RichConsole(file=self._stream, no_color=not console.color_err, highlight=False)
        self._live: Live | None = None
        self._total = 0
        self._counts: dict[Status, int] = {}
        self._begun = time.monotonic()
        self._estimate = Estimate()

    def __enter__(self) -> LiveView:
        return self  # draws nothing before the first event: workers are forked in between

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._plain.__exit__()

    def on_event(self, event: Event) -> None:
        """See ``Listener``."""
        if isinstance(event, PlanGrew):
            self._total = event.total
            self._estimate.grow(event.waiting, event.workers)
        elif isinstance(event, StepStarted):
            self._estimate.running[event.id] = time.monotonic()
        elif isinstance(event, StepFinished):
            self._estimate.finish(event.report)
            status = event.report.status
            self._counts[status] = self._counts.get(status, 0) + 1
        self._draw(event)

    def _draw(self, event: Event) -> None:
        from rich.live import Live

        if self._live is None and not self._estimate.running:
            # rich draws in a thread, which must not exist before all workers are forked.
            self._plain.on_event(event)
            return
        if self._live is None:
            self._live = Live(
                console=self._rich,
                get_renderable=self._render,
                refresh_per_second=1 / _FRAME_SECONDS,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        if lines := self._plain.lines(event):
            # Remove the view to let the lines scroll; the next event draws it again below them.
            self._live.stop()
            self._live = None
            for write in lines:
                write()

    def _render(self) -> Text:
        from rich.text import Text

        # Called in a thread of rich: copy what the thread of the build changes.
        found = list(self._counts.items())
        done = sum(n for _, n in found)
        counts = ", ".join(f"{n} {STATUS_WORDS[s]}" for s, n in found)
        running = dict(self._estimate.running)
        now = time.monotonic()
        left = self._estimate.shown(now)
        rest = "" if left is None else f", about {max(round(left), 1)} s left"
        bar = self._estimate.bar(now - self._begun, left)
        lines = [f"[{bar}] {done}/{max(self._total, done)}  {now - self._begun:.1f} s{rest}  {counts}"]
        for step, since in list(running.items())[:_ROWS]:
            begin = f"  {now - since:5.1f} s  "
            lines.append(begin + _tail(one_line(step), self._rich.width - len(begin)))
        if len(running) > _ROWS:
            lines.append(f"           and {len(running) - _ROWS} more")
        return Text("\n".join(lines), no_wrap=True, overflow="ellipsis")


def _tail(step: str, cells: int) -> str:
    """Return the end of a step's id, which is unique, where the whole id is too long."""
    return step if len(step) <= cells else "…" + step[len(step) - max(cells - 1, 1) :]


def step_line(report: StepReport, *, explain: bool, color: bool, dry_run: bool = False) -> str:
    """Return the line of a step: status, id, seconds if it ran, and the reason if ``explain``."""
    status = _SCANNED if dry_run and report.status is Status.RAN else report.status
    line = paint(f"{status:{_WIDTH}}", _STYLE[report.status], on=color)
    line += f"  {one_line(report.id)}"
    if report.status is Status.RAN:
        line += f"  {report.seconds:.2f} s"
    if explain and report.reason and report.error is None:
        line += f"  ({report.reason})"
    return line


def summary_line(report: BuildReport, *, dry_run: bool = False) -> str:
    """Return ``12 steps: 3 ran, 9 from the cache in 0.4 s, 5.2 s saved``, in time of workers."""
    words = {**STATUS_WORDS, Status.RAN: _SCANNED} if dry_run else STATUS_WORDS
    steps, saved = report.steps, report.saved_seconds
    counts = [(s, sum(1 for step in steps if step.status is s)) for s in Status]
    listed = ", ".join(f"{n} {words[s]}" for s, n in counts if n)
    more = f", {saved:.1f} s saved" if saved >= _LEAST_SAVED_SECONDS else ""
    return f"{counted(len(steps), 'step')}: {listed or 'nothing to do'} in {report.seconds:.1f} s{more}"
