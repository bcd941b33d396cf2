"""Bring one step up to date in the cheapest way that is certainly correct."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from gpubuild.build.include_scan import concerns, from_store, surroundings_digest, to_store
from gpubuild.build.outputs import StepOutputs
from gpubuild.build.reasons import Explanation, Vocabulary, key_parts, rows, why_changed
from gpubuild.build.state import BuildState, Origin, StepRecord
from gpubuild.cache.store import Store
from gpubuild.errors import GpubuildError
from gpubuild.execute.executor import Executor, Future
from gpubuild.execute.workdir import WorkArea
from gpubuild.model.digest import Digest
from gpubuild.model.job import Job, JobInput, JobResult
from gpubuild.model.result import FIRST_BUILD, Status, StepReport
from gpubuild.model.step import Action, ActionResult, CompileParams, Step, StepKind, action_key
from gpubuild.plan.layout import file_name
from gpubuild.plan.plan import Plan
from gpubuild.support.frozen import frozen, replace
from gpubuild.targets.target import Target
from gpubuild.toolchain.find import Toolchain
from gpubuild.toolchain.fingerprint import Tool

ABSENT = "absent"  # the fingerprint of a missing optional tool
# Larger ones, which contain weights, are linked again as fast as they are copied. Each edit makes another
# one, so that a few of them would fill the cache.
_LARGEST_STORED_LINK = 64 << 20


class StepRunner:
    """See the module. ``work`` makes private folders on the build folder's file system."""

    def __init__(
        self,
        *,
        toolchain: Toolchain,
        store: Store,
        executor: Executor,
        state: BuildState,
        work: WorkArea,
        root: Path = Path("/"),
        project_file: Path = Path(),
        dump_ir: Path | None = None,
        targets: Collection[Target] = (),
    ) -> None:
        self._toolchain = toolchain
        self._store = store
        self._executor = executor
        self._state = state
        self._work = work
        self._outputs = StepOutputs(state=state, store=store, root=root)
        self._root = root  # messages name files relative to it
        self._project_file = project_file
        self._dump_ir = dump_ir  # then steps with IR always run
        self._targets = targets  # those that new modules will be compiled for
        self._keeps = True  # store results of earlier builds that the cache lacks, until it refuses one
        self._damaged: set[Digest] = set()  # keys with a damaged entry in the cache
        self._made: dict[Digest, tuple[Step, ActionResult]] = {}  # by this process
        self._unstored = deque[tuple[Prepared, ActionResult]]()

    def prepare(self, step: Step, expected: Mapping[Path, Digest] | None = None) -> Prepared:
        """Digest inputs and tools; ``expected`` replaces the digests of some files.

        Raises ``StepError`` for a missing input, ``ToolNotFoundError``.
        """
        started = time.monotonic()
        inputs = []
        for item in step.inputs:
            digest = (expected or {}).get(item.path) or self._state.files.digest(item.path)
            if digest is None:
                from gpubuild.build.diagnosis import missing_input

                raise missing_input(item.path, self._root)
            inputs.append((item, digest))
        tools = {name: self._toolchain.require(name) for name in step.tools}
        missing = {}
        for name in step.optional_tools:
            tool = self._toolchain.find_optional(name)
            if tool is not None:
                tools[name] = tool
            else:
                missing[name] = self._toolchain.why_missing(name)
        action = Action(
            kind=step.kind,
            params=step.params,
            inputs=tuple((item.name, digest) for item, digest in inputs if item.in_key),
            tools=tuple(
                (name, tools[name].fingerprint if name in tools else ABSENT)
                for name in (*step.tools, *step.optional_tools)
            ),
        )
        parts = key_parts(action)
        key = action_key(action)
        record = self._state.record(step.id)
        versions = {tool.fingerprint: tool.version for tool in tools.values()}
        why = "unchanged"
        if record is None or record.key != key:
            why = self._why(step, record, parts, versions)
        return Prepared(
            step=step,
            key=key,
            parts=parts,
            inputs=tuple(
                JobInput(name=i.name, path=i.path, digest=d, proof=self._state.files.proof(i.path, d))
                for i, d in inputs
            ),
            tools=tools,
            missing=missing,
            why=why,
            versions=versions,
            started=started,
        )

    def _why(
        self,
        step: Step,
        record: StepRecord | None,
        parts: Mapping[str, str],
        versions: Mapping[str, str],
    ) -> str:
        if record is None:
            return FIRST_BUILD
        self._note_texts(step, parts)
        words = Vocabulary(
            version=lambda f: versions.get(f, "") or self._state.version(f), summary=self._state.summary
        )
        return why_changed(step, record.parts, parts, words)

    def _note_texts(self, step: Step, parts: Mapping[str, str]) -> None:
        """Note summaries of the module texts that the step reads, to explain later what changed."""
        for item in step.inputs:
            if item.name in ("module", "host"):
                self._state.note_text(parts[f"input {item.name}"], item.path)

    def _current(self, prepared: Prepared) -> tuple[StepRecord | None, str]:
        """Return the record of the step if its key is the same, and why its outputs are others, or ""."""
        record = self._state.record(prepared.step.id)
        if record is None or record.key != prepared.key:
            return None, ""
        return record, self._outputs.stale(prepared.step, record)

    def settle(self, prepared: Prepared) -> StepReport | None:
        """Bring the step up to date without running it, or return ``None``: it must run."""
        step, key = prepared.step, prepared.key
        if self._dumps(step):
            return None
        record, stale = self._current(prepared)
        if record is not None and not stale:
            self._keep(prepared, record)
            return self._report(prepared, Status.UP_TO_DATE, record.result)
        reason = stale or prepared.why
        if key in self._made:
            other, result = self._made[key]
            if concerns(result, step) and self._copied(other, step, result):
                reason = f"{reason}; same as {other.id}"
                record = self._state.record(other.id)
                self._remember(prepared, result, reason, kept_in=record.kept_in if record else "")
                return self._report(prepared, Status.UP_TO_DATE, result, reason)
        warnings = self._store.warnings
        cached = self._if_valid(step, self._store.lookup(key))
        fetched = cached is not None and self._outputs.fetch(step, key, cached)
        if not fetched and any("damaged" in w for w in self._store.warnings if w not in warnings):
            self._damaged.add(key)
        if cached is not None and fetched:
            self._remember(prepared, cached, reason, kept_in=self._store.identity)
            status = Status.HIT_REMOTE if self._store.is_remote(key) else Status.HIT_LOCAL
            return self._report(prepared, status, cached, reason)
        return None

    def _copied(self, made_by: Step, step: Step, result: ActionResult) -> bool:
        scratch = self._work.new()
        copied = self._outputs.copy(made_by, step, result, scratch)
        self._work.release(scratch)
        return copied

    def peek(self, prepared: Prepared) -> ActionResult | None:
        """Return the cached result of the step; move and write nothing."""
        return self._if_valid(prepared.step, self._store.peek(prepared.key))

    def _if_valid(self, step: Step, stored: ActionResult | None) -> ActionResult | None:
        if stored is None or not stored.discovered:
            return stored
        return from_store(stored, step, self._root, self._state.files.digest)

    def wanted_key(self, step: Step) -> Digest | None:
        """Return the key that :meth:`settle` would look up, if any. Raises like :meth:`prepare`."""
        prepared = self.prepare(step)
        if prepared.key in self._made:
            return None
        record, stale = self._current(prepared)
        return prepared.key if record is None or stale else None

    def would_run(self, prepared: Prepared) -> StepReport:
        """Return the report for a dry run; touch no file."""
        record, stale = self._current(prepared)
        if record is None:
            return self._report(prepared, Status.WOULD_RUN, None, prepared.why)
        status = Status.WOULD_RUN if stale else Status.UP_TO_DATE
        return self._report(prepared, status, record.result, stale)

    def explain(self, plan: Plan, step: Step) -> Explanation:
        """Compare what ``step`` depends on with its record; run nothing.

        Raises ``StepError`` when an input is missing, ``ToolNotFoundError``.
        """
        for step_id in plan.order_before(step.id):
            earlier = self.would_run(self.prepare(plan.steps[step_id]))
            if earlier.status is not Status.UP_TO_DATE:
                first = f"{step_id} comes first ({earlier.reason})"
                return replace(self._explain_alone(step), status=Status.WOULD_RUN, state=first)
        return self._explain_alone(step)

    def _explain_alone(self, step: Step) -> Explanation:
        record = self._state.record(step.id)
        why = record.why if record else ""
        if any(i.producer and not i.path.exists() for i in step.inputs):
            words = "its inputs must be made first" if record else "first build"
            return Explanation(step=step.id, status=Status.WOULD_RUN, state=words, why=why, rows=())
        prepared = self.prepare(step)
        report = self.would_run(prepared)
        up_to_date = report.status is Status.UP_TO_DATE
        before = {**record.parts, **(record.before if up_to_date else {})} if record else {}
        return Explanation(
            step=step.id,
            status=report.status,
            state="up to date" if up_to_date else f"would be looked at again: {report.reason}",
            why=why,
            rows=rows(
                {name: value for name, value in before.items() if value},
                prepared.parts,
                lambda f: prepared.versions.get(f) or self._state.version(f),
            ),
        )

    def start(self, prepared: Prepared, rank: int = 0) -> tuple[Future, Path]:
        """Submit the step to a worker. Pass the folder to :meth:`finish` or :meth:`fail` later."""
        step = prepared.step
        workdir = self._work.new()
        job = Job(
            step_id=step.id,
            kind=step.kind,
            params=step.params,
            inputs=prepared.inputs,
            output_names=tuple(o.name for o in step.outputs),
            tools={name: tool.command for name, tool in prepared.tools.items()},
            missing_tools=dict(prepared.missing),
            fingerprints={name: tool.fingerprint for name, tool in prepared.tools.items()},
            workdir=workdir,
            executable_outputs=tuple(o.name for o in step.outputs if o.executable),
            dump_ir=dump_folder(self._dump_ir, step) if self._dump_ir and self._dumps(step) else None,
        )
        future = self._executor.submit(job, rank)
        if step.kind is StepKind.OUTLINE:
            self._expect_compile_steps()
        return future, workdir

    def _expect_compile_steps(self) -> None:
        """Announce that a module may be new: back ends are loaded while nothing can be compiled yet."""
        targets, self._targets = self._targets, ()
        if targets:
            self._executor.expect(CompileParams(module="", target=target) for target in targets)

    def _dumps(self, step: Step) -> bool:
        return self._dump_ir is not None and step.kind in KINDS_WITH_IR

    def finish(self, prepared: Prepared, done: JobResult, workdir: Path) -> StepReport:
        """Move outputs into place and queue them for the cache. Raises ``OSError``."""
        step, result = prepared.step, done.result
        record, why = self._current(prepared)
        if record is None:
            why = prepared.why
        elif not why:
            why = "its IR was asked for" if self._dumps(step) else "it is not in the cache"
        if prepared.key in self._damaged:
            why += "; its entry in the cache was corrupt: set aside"
        self._outputs.place(step, result, workdir / "out")
        self._work.reuse(workdir)
        self._remember(prepared, result, why, kept_in="")
        self._unstored.append((prepared, result))
        return self._report(prepared, Status.RAN, result, why)

    @property
    def unstored(self) -> int:
        """Number of results that are not in the cache yet."""
        return len(self._unstored)

    def store_next(self) -> None:
        """Store the oldest of them durably: this waits for the disk."""
        prepared, result = self._unstored.popleft()
        if not self._store_result(prepared, result, self._store.publish):
            return
        record = self._state.record(prepared.step.id)
        if record is not None and record.key == prepared.key:
            self._state.remember(prepared.step.id, replace(record, kept_in=self._store.identity))

    def _keep(self, prepared: Prepared, record: StepRecord) -> None:
        """Store an up-to-date result that this cache does not have yet."""
        cache = self._store.identity if self._keeps else ""
        if not cache or cache == record.kept_in:
            return
        self._keeps = self._store_result(prepared, record.result, self._store.keep)
        if self._keeps:
            self._state.remember(prepared.step.id, replace(record, kept_in=self._store.identity))

    def _store_result(self, prepared: Prepared, result: ActionResult, store: Callable[..., bool]) -> bool:
        """Store a result; False if the cache refused it, True also if it must not be cached."""
        step = prepared.step
        if step.kind is StepKind.LINK and sum(b.size_bytes for b in result.blobs) > _LARGEST_STORED_LINK:
            return True
        files = {b.name: step.output_path(b.name) for b in result.blobs}
        stored = to_store(result, step, self._root) if result.discovered else result
        return stored is None or store(prepared.key, stored, files)

    def fail(self, step: Step, error: GpubuildError, *, started: float, workdir: Path | None) -> StepReport:
        """Report the failure and remove the step's old outputs, which no longer match its inputs."""
        if workdir is not None:
            self._work.release(workdir)
        warnings = self._outputs.remove(step)
        seconds = time.monotonic() - started
        return replace(self.failed(step, error), seconds=seconds, warnings=warnings)

    def failed(self, step: Step, error: GpubuildError) -> StepReport:
        """Return the report of a step that failed with ``error``; change no file."""
        from gpubuild.build.diagnosis import completed

        error = completed(error, step, root=self._root, project_file=self._project_file)
        return StepReport.of(step, Status.FAILED, error.message, error=error)

    def remove_outputs(self, step: Step) -> tuple[str, ...]:
        """Delete the outputs of an earlier build, which do not match the step's inputs; return warnings."""
        return self._outputs.remove(step)

    def _remember(self, prepared: Prepared, result: ActionResult, why: str, *, kept_in: str) -> None:
        step, parts = prepared.step, prepared.parts
        self._made[prepared.key] = (step, result)
        self._note_texts(step, parts)
        for fingerprint, version in prepared.versions.items():
            self._state.note_version(fingerprint, version)
        old = self._state.record(step.id)
        before: Mapping[str, str] = {}
        if old is not None:
            names = parts.keys() | old.parts.keys()
            before = {n: old.parts.get(n, "") for n in names if parts.get(n, "") != old.parts.get(n, "")}
        origin = None
        if step.program:
            outputs = tuple(str(step.output_path(blob.name)) for blob in result.blobs)
            origin = Origin(file=str(self._project_file), program=step.program, outputs=outputs)
            if old is not None:
                self._state.note_orphans(old, outputs)
        record = StepRecord(
            key=prepared.key,
            parts=parts,
            result=result,
            why=why,
            before=before,
            kept_in=kept_in,
            origin=origin,
            around=surroundings_digest(step, result, self._root),
        )
        self._state.remember(step.id, record)

    def _report(
        self, prepared: Prepared, status: Status, result: ActionResult | None, reason: str = ""
    ) -> StepReport:
        seconds = time.monotonic() - prepared.started
        return StepReport.of(prepared.step, status, reason, key=prepared.key, result=result, seconds=seconds)


@frozen
class Prepared:
    """A step whose inputs exist and whose key is known."""

    step: Step
    key: Digest
    parts: Mapping[str, str]
    inputs: tuple[JobInput, ...]
    tools: Mapping[str, Tool]
    missing: Mapping[str, str]  # optional tools that were not found, with the reasons
    why: str  # what differs from its record
    versions: Mapping[str, str]  # of tools, by fingerprint
    started: float  # time.monotonic()


KINDS_WITH_IR = frozenset({StepKind.OUTLINE, StepKind.COMPILE, StepKind.HOST, StepKind.LLVM})


def dump_folder(folder: Path, step: Step) -> Path:
    """Return the folder of one step: its id, as a path below ``folder``."""
    return folder.joinpath(*(file_name(part) for part in step.id.split("/")))
