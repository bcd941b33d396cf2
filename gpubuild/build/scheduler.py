"""Schedule: run the steps of a plan in parallel, producers first, and report each of them.

Without ``keep_going`` a failure stops the build, except for steps that report related errors: every
source is still read, and the gpu.modules of a failing source are compiled for all their targets.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue

from gpubuild.build.state import BuildState
from gpubuild.build.step_runner import Prepared, StepRunner
from gpubuild.cache.store import Store
from gpubuild.errors import GpubuildError, NoRoomError
from gpubuild.execute.executor import Executor, Future
from gpubuild.model.digest import Digest
from gpubuild.model.events import Listener, PlanGrew, StepStarted, Waiting
from gpubuild.model.result import STOPPED, Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.plan.plan import Plan
from gpubuild.support.frozen import replace
from gpubuild.support.text import shown_path

_LOOK_SECONDS = 0.5
_SCANS = (StepKind.GENERATE, StepKind.OUTLINE, StepKind.PREPROCESS)


class Schedule:
    """One run of ``plan``. ``reports`` has the steps that were reported before; ``note`` adds one."""

    def __init__(
        self,
        plan: Plan,
        *,
        runner: StepRunner,
        executor: Executor,
        store: Store,
        state: BuildState,
        listener: Listener,
        reports: MutableMapping[str, StepReport],
        note: Callable[[StepReport], None],
        keep_going: bool,
        dry_run: bool,
    ) -> None:
        self._plan = plan
        self._runner = runner
        self._executor = executor
        self._store = store
        self._state = state
        self._listener = listener
        self._reports = reports
        self._note = note
        self._keep_going = keep_going
        # The scan phase runs even in a dry run: without it there is no plan to show.
        scan_only = all(s.kind in _SCANS for s in plan.steps.values())
        self._dry_run = dry_run and not scan_only
        self._is_whole = not scan_only
        self._expected: dict[Path, Digest] = {}  # in a dry run: digests of files that would be fetched
        self._stopping = False
        self._kin: set[tuple[str, str]] = set()  # programs and sources of failed compile steps
        self._anticipated: set[str] = set()
        self._waiting: dict[str, set[str]] = {}  # steps, and the steps that they still need
        self._ready: list[tuple[int, str]] = []  # a heap: the longest path to the end comes first
        self._running: dict[Future, tuple[Prepared, Path]] = {}
        self._ended: SimpleQueue[Future] = SimpleQueue()  # those of them that are done
        self._busy: dict[Digest, list[str]] = {}  # running keys, and steps that need the same result

    def run(self) -> None:
        """Run all steps that were not reported yet. The last results may stay unstored."""
        plan, reports = self._plan, self._reports
        self._waiting = {s: plan.needs(s) - reports.keys() for s in plan.steps if s not in reports}
        known = {s: self._expect(plan.steps[s]) for s in self._waiting} if self._is_whole else {}
        self._listener.on_event(
            PlanGrew(total=len(plan.steps), waiting=known, workers=self._executor.workers)
        )
        for step_id, needs in self._waiting.items():
            if not needs:
                self._push(step_id)
        while self._ready or self._running:
            if self._store.has_remote and not self._dry_run:
                self._anticipate()
            while self._ready and len(self._running) < self._executor.workers + 1:
                step = plan.steps[heapq.heappop(self._ready)[1]]
                if not self._stopping or self._may_report_more(step):
                    self._start(step)
            if not self._running:
                continue
            self._store_meanwhile()
            for future in self._wait():
                prepared, workdir = self._running.pop(future)
                for step_id in self._busy.pop(prepared.key, ()):
                    self._push(step_id)
                self._done(collect(self._runner, prepared, future, workdir))
        for step_id in self._waiting:
            if step_id not in reports:
                self._note(skipped(plan.steps[step_id], STOPPED))

    def _wait(self) -> list[Future]:
        """Return jobs that have ended; none if meanwhile there may be workers for waiting steps."""
        ended: list[Future] = []
        with suppress(Empty):
            ended.append(self._ended.get(timeout=_LOOK_SECONDS if self._ready else None))
            while True:
                ended.append(self._ended.get_nowait())
        return ended

    def _store_meanwhile(self) -> None:
        """Store results while jobs run: waiting for the disk earlier would delay steps that can begin.

        At most as many results as workers stay unstored: a killed build loses them.
        """
        while unstored := self._runner.unstored:
            if unstored <= self._executor.workers and not self._ended.empty():
                return
            self._runner.store_next()

    def _expect(self, step: Step) -> Waiting:
        record = self._state.record(step.id)
        return Waiting(
            id=step.id,
            kind=step.kind,
            seconds=record.result.seconds if record else None,
            program=step.program,
            module=step.module,
        )

    def _push(self, step_id: str) -> None:
        heapq.heappush(self._ready, (-self._plan.rank(step_id), step_id))

    def _start(self, step: Step) -> None:
        if step.id in self._reports:
            return
        report = self._dry(step) if self._dry_run else self._begin(step)
        if report is not None:
            self._done(report)

    def _begin(self, step: Step) -> StepReport | None:
        """Bring a step up to date, or start it in a worker and return ``None``."""
        started = time.monotonic()
        try:
            prepared = self._runner.prepare(step)
            if prepared.key in self._busy:
                self._busy[prepared.key].append(step.id)
                return None
            report = self._runner.settle(prepared)
            if report is not None:
                return report
            future, workdir = self._runner.start(prepared, self._plan.rank(step.id))
        except GpubuildError as error:
            return self._runner.fail(step, error, started=started, workdir=None)
        self._running[future] = (prepared, workdir)
        self._busy[prepared.key] = []
        future.when_done(self._ended.put)
        self._listener.on_event(StepStarted(id=step.id))
        return None

    def _anticipate(self) -> None:
        """Announce the keys of ready steps to a store with a remote cache."""
        for _, step_id in self._ready:
            if step_id not in self._anticipated:
                self._anticipated.add(step_id)
                with suppress(GpubuildError):  # reported when the step begins
                    key = self._runner.wanted_key(self._plan.steps[step_id])
                    self._store.anticipate([key] if key else [])

    def _dry(self, step: Step) -> StepReport:
        blocked = [n for n in self._plan.needs(step.id) if self._reports[n].status is Status.WOULD_RUN]
        if blocked:
            return replace(skipped(step, f"needs {min(blocked)}"), status=Status.WOULD_RUN)
        try:
            prepared = self._runner.prepare(step, self._expected)
            report = self._runner.would_run(prepared)
            if report.status is Status.UP_TO_DATE or (found := self._runner.peek(prepared)) is None:
                return report
            # Nothing is fetched, but the digests allow to look up later steps.
            self._expected |= {step.output_path(blob.name): blob.digest for blob in found.blobs}
        except GpubuildError as error:
            return self._runner.failed(step, error)
        except KeyError:  # a result with other outputs, which a build would not use
            return report
        return replace(report, status=Status.WOULD_HIT)

    def _done(self, report: StepReport) -> None:
        self._note(report)
        failed = report.status in (Status.FAILED, Status.SKIPPED)
        if failed and not self._keep_going:
            self._stopping = True
            self._kin |= self._origins(self._plan.steps[report.id])
        for follower in self._plan.feeds(report.id):
            if follower not in self._waiting or follower in self._reports:
                continue
            if failed:
                self._skip(follower, f"{report.id} failed")
            self._waiting[follower].discard(report.id)
            if not self._waiting[follower] and follower not in self._reports:
                self._push(follower)

    def _may_report_more(self, step: Step) -> bool:
        """Whether a step is worth starting after a failure of another one."""
        return step.kind in _SCANS or not self._kin.isdisjoint(self._origins(step))

    def _origins(self, step: Step) -> set[tuple[str, str]]:
        """Return, for a compile step, its program with each step that reads the source of its module."""
        if step.kind is not StepKind.COMPILE:
            return set()
        return {(step.program, needed) for needed in self._plan.needs(step.id)}

    def _skip(self, step_id: str, reason: str) -> None:
        """Report a step without an input, and all steps after it; remove their outdated outputs."""
        if step_id in self._reports:
            return
        step = self._plan.steps[step_id]
        warnings = self._runner.remove_outputs(step)
        self._note(replace(skipped(step, reason), warnings=warnings))
        for follower in sorted(self._plan.feeds(step_id)):
            self._skip(follower, reason)


def collect(runner: StepRunner, prepared: Prepared, future: Future, workdir: Path | None) -> StepReport:
    """Return the report of a step whose worker has ended."""
    assert workdir is not None  # noqa: S101 - a running step has one
    try:
        done = future.result()
        return replace(
            runner.finish(prepared, done, workdir),
            stages=done.stages,
            worker=done.worker,
            waited_seconds=done.waited_seconds,
        )
    except GpubuildError as error:
        return runner.fail(prepared.step, error, started=prepared.started, workdir=workdir)
    except OSError as error:
        what, hint = error.filename, "free some space or choose another folder with --build-dir"
        if isinstance(error, PermissionError):
            what = error.filename2 or what
            hint = "make it writable for yourself, or choose another folder with --build-dir"
        elif isinstance(error, IsADirectoryError) and error.filename2:
            what = error.filename2
            hint = f"remove the folder {shown_path(what)}, or choose another one with --build-dir"
        failure = NoRoomError(
            f"cannot write to the build folder: {error.strerror}: {what}", stage="store outputs", hint=hint
        )
        return runner.fail(prepared.step, failure, started=prepared.started, workdir=workdir)


def skipped(step: Step, reason: str) -> StepReport:
    """Return the report of a step that was not tried."""
    return StepReport.of(step, Status.SKIPPED, reason)
