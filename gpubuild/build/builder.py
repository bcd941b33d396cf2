"""Builder of programs: joins plan, cache, executor and engine. No other module knows all of them."""

from __future__ import annotations

import os
import re
import threading
import time
from pathlib import Path

from gpubuild.build.log import BuildLog, log_file, read_made
from gpubuild.build.null_build import request_of
from gpubuild.build.null_build_record import Witness
from gpubuild.build.outputs import remove_leftovers, remove_product, remove_ungenerated
from gpubuild.build.reasons import Explanation
from gpubuild.build.scheduler import Schedule, collect
from gpubuild.build.state import BuildState
from gpubuild.build.step_runner import StepRunner
from gpubuild.cache.store import Store
from gpubuild.errors import GpubuildError, InterruptedBuildError
from gpubuild.execute.executor import Executor
from gpubuild.execute.workdir import WorkArea
from gpubuild.model.events import BuildWarning, Listener, StepFinished
from gpubuild.model.project import BuildOptions, Program, Project
from gpubuild.model.result import BuildReport, Status, StepReport
from gpubuild.model.step import Step, StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.plan.planner import Planner
from gpubuild.plan.sources import ScannedSource, parse_index
from gpubuild.targets.target import cpu_triple
from gpubuild.toolchain.find import Toolchain


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
        self.toolchain = toolchain
        self._witness = witness
        self._options = options
        self._layout = layout
        self._listener = listener
        self._store = store
        self._executor = executor
        self._work = WorkArea(layout.work)
        self.state = BuildState(layout.state_file, layout.root)
        self._runner = StepRunner(
            toolchain=toolchain,
            store=store,
            executor=executor,
            state=self.state,
            work=self._work,
            root=layout.root,
            project_file=project.file,
            dump_ir=options.dump_ir,
            targets=[t for n, t in project.targets.items() if not options.targets or n in options.targets],
        )
        self._planner = Planner(
            project=project,
            layout=layout,
            triple=cpu_triple(os.uname().machine),
            runtime_files=toolchain.runtime_files(),
            only_targets=frozenset(options.targets),
            link=options.link,
        )
        self._reports: dict[str, StepReport] = {}
        self._lock = threading.Lock()
        self._opened = time.monotonic()
        self._advice: tuple[str, ...] = ()
        self._reported: tuple[str, ...] = ()  # the store's warnings that are in a report
        self._log = BuildLog(log_file(layout))
        if self.state.lost:
            self.state.orphans = read_made(log_file(layout))

    def build(self) -> BuildReport:
        """Bring every chosen program up to date.

        Failures of steps are in the report. Raises ``UsageError`` for requests that cannot be
        planned, and ``InterruptedBuildError`` on Ctrl-C, after all running jobs were stopped.
        """
        started = time.monotonic()
        programs = self._planner.choose_programs(self._options.programs)
        try:
            plan = self._planner.scan_plan(programs)
            remove_ungenerated(self._layout, self._project)
            self._run(plan)
            self._remove_outdated(programs)
            if self._options.keep_going and self._broken(plan):
                programs = tuple(p for p in programs if not self._broken(self._planner.scan_plan((p,))))
                plan = self._planner.scan_plan(programs)
            if programs and not self._broken(plan):
                plan = self._full_plan(programs, plan)
                self._run(plan)
                self._remove_leftovers(programs, plan)
            self._store_rest()
            self._executor.finish()
        except KeyboardInterrupt:
            self._executor.cancel()
            raise InterruptedBuildError("interrupted") from None
        finally:
            self._save_state()
        report = self._summed_up(programs, plan, started)
        self._reported = report.warnings
        if not self._options.dry_run:
            self._log.append(plan, report, self.state.record, self._executor.workers)
        if self._witness is not None and not self._options.dry_run:
            self._witness.leave_receipt(
                request=request_of(
                    str(self._project.file),
                    str(self._options.build_dir),
                    self._options.programs,
                    self._options.targets,
                    self._project.variant.request(),
                ),
                project=self._project,
                plan=plan,
                report=report,
                state=self.state,
                toolchain=self.toolchain,
            )
        return report

    def send_late_warnings(self) -> None:
        """Send warnings of the store that are in no report yet, for example about its last uploads."""
        reported = {_without_count(warning) for warning in self._reported}
        for warning in self._store.warnings:
            if _without_count(warning) not in reported:
                self._listener.on_event(BuildWarning(message=warning))

    def scan(self, names: tuple[str, ...] | None = None, *, run: bool = True, partial: bool = False) -> Plan:
        """Run the steps that find the modules, and return the full plan.

        ``names`` are programs, by default those of the options; later calls may name others.
        Raises the first ``StepError`` when a source cannot be read; a ``partial`` plan then has only
        the steps that read sources. Without ``run`` the modules are those that were found last;
        raises ``OSError`` when there are none.
        """
        programs = self._planner.choose_programs(self._options.programs if names is None else names)
        plan = self._planner.scan_plan(programs)
        if not run:
            return self._full_plan(programs, plan)
        remove_ungenerated(self._layout, self._project)
        self._run(plan, dry_run=False)
        self._store_rest()
        if any(self._reports[s].status is not Status.UP_TO_DATE for s in plan.steps):
            self._save_state()  # SCons asks for each program in turn
        for report in self._reports.values():
            if report.error is not None:
                if partial:
                    return plan
                raise report.error
        return self._full_plan(programs, plan)

    def look(self) -> tuple[BuildReport | None, str]:
        """Return the report of :meth:`build` if all is up to date, else which step is not, and why.

        Runs and writes nothing.
        """
        started = time.monotonic()
        programs = self._planner.choose_programs(self._options.programs)
        plan = self._planner.scan_plan(programs)
        try:
            trouble = self._first_outdated(plan)
            if not trouble:
                plan = self._full_plan(programs, plan)
                trouble = self._first_outdated(plan)
        except GpubuildError as error:
            trouble = error.message
        return (None, trouble) if trouble else (self._summed_up(programs, plan, started), "")

    def _first_outdated(self, plan: Plan) -> str:
        for step_id in plan.order():
            report = self._runner.would_run(self._runner.prepare(plan.steps[step_id]))
            if report.status is not Status.UP_TO_DATE:
                return f"{step_id} ({report.reason})"
            self._reports[step_id] = report
        return ""

    def _summed_up(self, programs: tuple[Program, ...], plan: Plan, started: float) -> BuildReport:
        in_plan = [self._reports[step_id] for step_id in plan.steps if step_id in self._reports]
        others = [report for report in self._reports.values() if report.id not in plan.steps]
        return BuildReport(
            steps=(*in_plan, *others),
            executables={
                p.name: self._layout.product(p)
                for p in programs
                if f"{p.name}/link" in self._reports
                and self._reports[f"{p.name}/link"].status not in (Status.FAILED, Status.SKIPPED)
            },
            seconds=time.monotonic() - started,
            warnings=self._store.warnings,
            advice=self._advice,
            links=self._links(programs, plan),
            installs={
                p.name: tuple(
                    output
                    for step in plan.steps.values()
                    if step.program == p.name
                    for output in step.outputs
                    if output.install
                )
                for p in programs
            },
        )

    def run_step(self, step: Step) -> StepReport:
        """Bring one step up to date whose inputs are. Thread-safe: for SCons.

        Raises nothing for a failing step; see ``StepReport.error``.
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
            future.exception()  # waits
        with self._lock:
            if report is None:
                report = collect(self._runner, prepared, future, workdir)
                self._store_rest()
            self._note(report)
        return report

    def explain(self, plan: Plan, step: Step) -> Explanation:
        """See ``StepRunner.explain``."""
        return self._runner.explain(plan, step)

    def conclude(self, plan: Plan) -> None:
        """Save and log what :meth:`run_step` did, as :meth:`build` does at its end: for SCons.

        ``plan`` has all steps that SCons could run. It runs only those that it finds outdated; the
        log does not mention the others.
        """
        self._save_state()
        steps = tuple(self._reports.values())
        report = BuildReport(steps=steps, executables={}, seconds=time.monotonic() - self._opened)
        self._log.append(plan, report, self.state.record, self._executor.workers)

    def _remove_outdated(self, programs: tuple[Program, ...]) -> None:
        """Delete products of programs with a source that could not be read: no later step does."""
        if self._options.dry_run:
            return
        for program in programs:
            if self._broken(self._planner.scan_plan((program,))):
                remove_product(self.state, layout=self._layout, project=self._project, program=program)

    def _remove_leftovers(self, programs: tuple[Program, ...], plan: Plan) -> None:
        """Delete outputs that no step makes any more, if this build knows all steps."""
        if self._options.targets or self._options.dry_run or self._broken(plan) or not self._options.link:
            return
        built = [program.name for program in programs]
        remove_leftovers(self.state, layout=self._layout, project=self._project, plan=plan, built=built)

    def _broken(self, plan: Plan) -> bool:
        """Whether a step of ``plan`` has failed."""
        reports = (self._reports.get(step_id) for step_id in plan.steps)
        return any(r is not None and r.status in (Status.FAILED, Status.SKIPPED) for r in reports)

    def _full_plan(self, programs: tuple[Program, ...], scanned: Plan) -> Plan:
        scans = self._scans(scanned)
        self._advice = self._planner.advice(programs, scans)
        return self._planner.full_plan(programs, scans)

    def _links(self, programs: tuple[Program, ...], plan: Plan) -> dict[str, Step]:
        """Return the link steps that this build leaves out."""
        if self._options.link or self._broken(plan):
            return {}
        return self._planner.link_steps(programs, self._scans(plan))

    def _scans(self, scanned: Plan) -> dict[str, ScannedSource]:
        return {
            step.id: parse_index(step.output_path("index.json").read_text(encoding="utf-8"))
            for step in scanned.steps.values()
            if step.kind is StepKind.OUTLINE
        }

    def _run(self, plan: Plan, *, dry_run: bool | None = None) -> None:
        Schedule(
            plan,
            runner=self._runner,
            executor=self._executor,
            store=self._store,
            state=self.state,
            listener=self._listener,
            reports=self._reports,
            note=self._note,
            keep_going=self._options.keep_going,
            dry_run=self._options.dry_run if dry_run is None else dry_run,
        ).run()

    def _store_rest(self) -> None:
        while self._runner.unstored:
            self._runner.store_next()

    def _note(self, report: StepReport) -> None:
        self._reports[report.id] = report
        self._log.note(report)
        for warning in report.warnings:
            self._listener.on_event(BuildWarning(message=warning))
        self._listener.on_event(StepFinished(report=report))

    def _save_state(self) -> None:
        try:
            self.state.save()
        except OSError as error:
            self._listener.on_event(
                BuildWarning(
                    message=f"the build state was not saved ({error.strerror}): "
                    "the next build checks everything again"
                )
            )


def _without_count(warning: str) -> str:
    return re.sub(r" \(\d+ times\)$", "", warning)
