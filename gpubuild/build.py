"""Build: joins plan, cache, executor and engine. The one place that knows all of them."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gpubuild.cache.opening import open_store
from gpubuild.cache.protocol import Store
from gpubuild.errors import GpubuildError, InterruptedBuildError, StepError
from gpubuild.events import BuildWarning, Listener, PlanGrew, Silent, StepFinished, StepStarted
from gpubuild.execute.lazy import LazyExecutor
from gpubuild.execute.local import LocalExecutor
from gpubuild.execute.protocol import Executor
from gpubuild.execute.workdir import WorkArea
from gpubuild.graph.layout import Layout
from gpubuild.graph.plan import Plan
from gpubuild.graph.planner import Planner
from gpubuild.graph.scan import ScannedSource, parse_index
from gpubuild.lock import build_lock
from gpubuild.model.digest import Digest
from gpubuild.model.job import JobResult
from gpubuild.model.project import Program, Project
from gpubuild.model.result import BuildReport, CacheUse, Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.model.target import Kind, cpu_triple
from gpubuild.proof import Witness
from gpubuild.quote import quote_sources
from gpubuild.receipt import request_of
from gpubuild.runner import Prepared, StepRunner
from gpubuild.settings import Settings, python_command
from gpubuild.state import BuildState
from gpubuild.toolchain.detach import start_detached
from gpubuild.toolchain.find import Toolchain

RUNTIME_DIR = Path(__file__).parent / "runtime"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """What the user asked for on top of targets.yaml. ``build_dir`` is absolute."""

    build_dir: Path
    programs: tuple[str, ...] = ()  # empty: all
    targets: tuple[str, ...] = ()  # restrict device code to these; empty: all
    cache_dir: Path | None = None  # overrides targets.yaml and the environment
    use_cache: bool = True
    jobs: int = 0  # 0: GPUBUILD_JOBS, else the number of CPUs
    keep_going: bool = False
    dry_run: bool = False


@contextmanager
def open_builder(
    project: Project,
    settings: Settings,
    options: BuildOptions,
    listener: Listener | None = None,
    *,
    witness: Witness | None = None,
    threads: bool = True,
) -> Iterator[Builder]:
    """A builder that holds the build folder's lock, and releases everything at the end.

    Raises ``UsageError`` when the build folder cannot be used. Workers are forked here; only a
    caller that has no ``threads`` by the time of the first step may leave it until then.
    With a ``witness``, a build that ended well leaves a receipt.
    """
    layout = Layout(root=project.root, build_dir=options.build_dir)
    listener = listener or Silent()
    with build_lock(layout, listener):
        directory = options.cache_dir or settings.cache_dir or project.cache.directory
        config = replace(project.cache, directory=directory) if options.use_cache else None
        store = open_store(config, settings, on_full=collect_later)
        workers = options.jobs or settings.jobs or len(os.sched_getaffinity(0))
        executor = LazyExecutor(workers, LocalExecutor)
        if threads or store.has_remote:
            executor.start()
        try:
            resolved = resolve_native(project)
            if witness is not None and resolved is not project:
                witness.note_native()
            yield Builder(
                project=resolved,
                options=options,
                layout=layout,
                listener=listener,
                toolchain=Toolchain(settings, memo=layout.tools_memo),
                store=store,
                executor=executor,
                witness=witness,
            )
        except BaseException:
            executor.cancel()
            store.cancel()
            raise
        finally:
            executor.close()
            store.close()


class Builder:
    """Builds programs of one project in one build folder."""

    def __init__(
        self,
        *,
        project: Project,
        options: BuildOptions,
        layout: Layout,
        listener: Listener,
        toolchain: Toolchain,
        store: Store,
        executor: Executor,
        witness: Witness | None = None,
    ) -> None:
        self._project = project
        self._toolchain = toolchain
        self._witness = witness
        self._options = options
        self._layout = layout
        self._listener = listener
        self._store = store
        self._executor = executor
        self._work = WorkArea(layout.private / "work")
        self._state = BuildState(layout.state_file)
        self._runner = StepRunner(
            toolchain=toolchain, store=store, executor=executor, state=self._state, work=self._work
        )
        self._planner = Planner(
            project=project,
            layout=layout,
            triple=cpu_triple(platform.machine()),
            runtime_sources=tuple(sorted(p for p in RUNTIME_DIR.iterdir() if p.suffix in (".c", ".h", ".S"))),
            only_targets=frozenset(options.targets),
        )
        self._reports: dict[str, StepReport] = {}
        self._anticipated: set[str] = set()
        self._lock = threading.Lock()

    def build(self) -> BuildReport:
        """Bring every chosen program up to date.

        Failures of steps are in the report. Raises ``UsageError`` for requests that cannot be
        planned, and ``InterruptedBuildError`` on Ctrl-C, after everything under way was stopped.
        """
        started = time.monotonic()
        programs = self._planner.choose_programs(self._options.programs)
        try:
            plan = self._planner.scan_plan(programs)
            self._run(plan)
            if self._options.keep_going and self._broken(plan):
                programs = tuple(p for p in programs if not self._broken(self._planner.scan_plan((p,))))
                plan = self._planner.scan_plan(programs)
            if programs and not self._broken(plan):
                plan = self._full_plan(programs, plan)
                self._run(plan)
        except KeyboardInterrupt:
            self._executor.cancel()
            raise InterruptedBuildError("interrupted") from None
        finally:
            self._save_state()
        in_plan = [self._reports[step_id] for step_id in plan.steps if step_id in self._reports]
        others = [report for report in self._reports.values() if report.id not in plan.steps]
        report = BuildReport(
            steps=(*in_plan, *others),
            executables={
                p.name: self._layout.executable(p.name)
                for p in programs
                if f"{p.name}/link" in self._reports
                and self._reports[f"{p.name}/link"].status not in (Status.FAILED, Status.SKIPPED)
            },
            seconds=time.monotonic() - started,
            warnings=self._store.warnings,
            cache=self._note_use(plan),
        )
        if self._witness is not None and not self._options.dry_run:
            self._witness.leave_receipt(
                request=request_of(
                    str(self._project.file),
                    str(self._options.build_dir),
                    self._options.programs,
                    self._options.targets,
                ),
                project=self._project,
                plan=plan,
                report=report,
                state=self._state,
                toolchain=self._toolchain,
            )
        return report

    def scan(self, names: tuple[str, ...] | None = None) -> Plan:
        """Run the steps that tell what the modules are, and return the full plan.

        ``names`` are programs, by default those of the options; later calls may name others.
        Raises the first ``StepError`` when a source cannot be read as it is.
        """
        programs = self._planner.choose_programs(self._options.programs if names is None else names)
        plan = self._planner.scan_plan(programs)
        self._run(plan, dry_run=False)
        self._save_state()
        for report in self._reports.values():
            if report.error is not None:
                raise report.error
        return self._full_plan(programs, plan)

    def run_step(self, step: Step) -> StepReport:
        """Bring one step up to date, given that its inputs are. Thread-safe: for SCons.

        Never raises for a failing step; see ``StepReport.error``.
        """
        started = time.monotonic()
        workdir: Path | None = None
        with self._lock:
            try:
                prepared = self._runner.prepare(step)
                report = self._runner.settle(prepared)
                if report is None:
                    future, workdir = self._runner.start(prepared)
            except GpubuildError as error:
                report = self._runner.fail(step, error, started=started, workdir=workdir)
        if report is None:
            wait([future])
            with self._lock:
                report = self._collect(prepared, future, workdir)
        with self._lock:
            self._note(report)
        return report

    def save(self) -> None:
        """Write the build state; :meth:`build` does so itself."""
        self._save_state()

    def _broken(self, plan: Plan) -> bool:
        """Whether a step of ``plan`` has failed."""
        reports = (self._reports.get(step_id) for step_id in plan.steps)
        return any(r is not None and r.status in (Status.FAILED, Status.SKIPPED) for r in reports)

    def _full_plan(self, programs: tuple[Program, ...], scanned: Plan) -> Plan:
        scans: dict[str, ScannedSource] = {}
        for step in scanned.steps.values():
            if step.kind is StepKind.OUTLINE:
                scans[step.id] = parse_index(step.output_path("index.json").read_text())
        return self._planner.full_plan(programs, scans)

    def _run(self, plan: Plan, *, dry_run: bool | None = None) -> None:
        """Run all steps of ``plan`` that were not reported yet, producers first."""
        # The scan phase runs even in a dry run: without it there is no plan to show.
        scan_only = all(s.kind in (StepKind.OUTLINE, StepKind.PREPROCESS) for s in plan.steps.values())
        dry = self._options.dry_run and not scan_only if dry_run is None else dry_run
        self._listener.on_event(PlanGrew(total=len(plan.steps)))
        waiting = {s: plan.needs(s) - self._reports.keys() for s in plan.steps if s not in self._reports}
        ready = [s for s, needs in waiting.items() if not needs]
        running: dict[Future[JobResult], tuple[Prepared, Path]] = {}
        busy: dict[Digest, list[str]] = {}  # keys under way, and steps that want the same result
        stopping = False

        def done(report: StepReport) -> None:
            nonlocal stopping
            self._note(report)
            failed = report.status in (Status.FAILED, Status.SKIPPED)
            stopping |= failed and not self._options.keep_going
            for follower in plan.feeds(report.id):
                if follower not in waiting or follower in self._reports:
                    continue
                if failed:
                    self._skip(plan, follower, f"{report.id} failed")
                waiting[follower].discard(report.id)
                if not waiting[follower] and follower not in self._reports:
                    ready.append(follower)

        while ready or running:
            ready.sort(key=lambda s: (-plan.rank(s), s))
            if self._store.has_remote and not dry:
                self._anticipate(plan.steps[s] for s in ready)
            while ready and not stopping and len(running) < self._executor.workers + 1:
                step = plan.steps[ready.pop(0)]
                if step.id in self._reports:
                    continue
                if dry:
                    done(self._dry(plan, step))
                    continue
                report = self._begin(step, running, busy)
                if report is not None:
                    done(report)
            if stopping and not running:
                break
            if not running:
                continue
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                prepared, workdir = running.pop(future)
                ready.extend(busy.pop(prepared.key, ()))
                done(self._collect(prepared, future, workdir))
        for step_id in waiting:
            if step_id not in self._reports:
                self._note(self._skipped(plan.steps[step_id], "the build stopped after a failure"))

    def _begin(
        self,
        step: Step,
        running: dict[Future[JobResult], tuple[Prepared, Path]],
        busy: dict[Digest, list[str]],
    ) -> StepReport | None:
        started = time.monotonic()
        try:
            prepared = self._runner.prepare(step)
            if prepared.key in busy:
                busy[prepared.key].append(step.id)
                return None
            report = self._runner.settle(prepared)
            if report is not None:
                return report
            future, workdir = self._runner.start(prepared)
        except GpubuildError as error:
            return self._runner.fail(step, error, started=started, workdir=None)
        running[future] = (prepared, workdir)
        busy[prepared.key] = []
        self._listener.on_event(StepStarted(id=step.id))
        return None

    def _note_use(self, plan: Plan) -> CacheUse | None:
        """Add this build to the cache's history, if it asked the cache for anything."""
        directory = self._store.directory
        reports = self._reports.values()
        if self._options.dry_run or directory is None or all(r.status is Status.UP_TO_DATE for r in reports):
            return None
        from gpubuild.cache.history import record_build

        def parts_of(step_id: str) -> Mapping[str, str] | None:
            record = self._state.record(step_id)
            return record.parts if record else None

        return record_build(directory, self._project.programs, plan.steps, reports, parts_of)

    def _anticipate(self, steps: Iterable[Step]) -> None:
        """Tell a store that has to ask other machines what is about to be looked up."""
        for step in steps:
            if step.id not in self._anticipated:
                self._anticipated.add(step.id)
                with suppress(GpubuildError):  # told when the step's turn comes
                    key = self._runner.wanted_key(step)
                    self._store.anticipate([key] if key else [])

    def _collect(self, prepared: Prepared, future: Future[JobResult], workdir: Path | None) -> StepReport:
        assert workdir is not None  # noqa: S101 - a running step has one
        try:
            return self._runner.finish(prepared, future.result(), workdir)
        except GpubuildError as error:
            return self._runner.fail(prepared.step, error, started=prepared.started, workdir=workdir)
        except OSError as error:
            failure = StepError(
                f"cannot write to the build folder: {error.strerror}: {error.filename}",
                stage="store outputs",
                hint="free some space or choose another folder with --build-dir",
            )
            return self._runner.fail(prepared.step, failure, started=prepared.started, workdir=workdir)

    def _dry(self, plan: Plan, step: Step) -> StepReport:
        blocked = [n for n in plan.needs(step.id) if self._reports[n].status is Status.WOULD_RUN]
        if blocked:
            return replace(self._skipped(step, f"needs {blocked[0]}"), status=Status.WOULD_RUN)
        try:
            return self._runner.would_run(self._runner.prepare(step))
        except GpubuildError as error:
            return replace(self._skipped(step, error.message), status=Status.FAILED, error=error)

    def _skip(self, plan: Plan, step_id: str, reason: str) -> None:
        """Report a step that lost an input, and everything after it; remove what is now outdated."""
        if step_id in self._reports:
            return
        step = plan.steps[step_id]
        self._runner.remove_outputs(step)
        self._note(self._skipped(step, reason))
        for follower in sorted(plan.feeds(step_id)):
            self._skip(plan, follower, reason)

    def _skipped(self, step: Step, reason: str) -> StepReport:
        return StepReport(
            id=step.id,
            kind=step.kind,
            program=step.program,
            module=step.module,
            target=step.target,
            status=Status.SKIPPED,
            reason=reason,
        )

    def _note(self, report: StepReport) -> None:
        quote_sources(report.error, self._layout.root)
        self._reports[report.id] = report
        for warning in report.warnings:
            self._listener.on_event(BuildWarning(message=warning))
        self._listener.on_event(StepFinished(report=report))

    def _save_state(self) -> None:
        try:
            self._state.save()
        except OSError as error:
            self._listener.on_event(
                BuildWarning(
                    message=f"the build state was not saved ({error.strerror}): "
                    "the next build looks at everything again"
                )
            )


def collect_later(directory: Path, size_bytes: int) -> None:
    """Have another process collect garbage in the cache ``directory``: this one has a user waiting."""
    gc = ("cache", "gc", "--background", "--cache-dir", str(directory), "--max-size", str(size_bytes))
    with suppress(OSError):
        start_detached((*python_command(), *gc))


def resolve_native(project: Project) -> Project:
    """Replace ``chip: native`` by this machine's CPU, so that it becomes part of the key."""
    if not any(t.kind is Kind.CPU and t.chip == "native" for t in project.targets.values()):
        return project
    from gpubuild.engine.llvm import host_cpu

    name, features = host_cpu()
    targets = {
        key: replace(t, chip=name, features=",".join(f for f in (features, t.features) if f))
        if t.kind is Kind.CPU and t.chip == "native"
        else t
        for key, t in project.targets.items()
    }
    return replace(project, targets=targets)
