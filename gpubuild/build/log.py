"""Build log: what each build did, one line of JSON per build, for ``gpubuild report``.

It lies in the build folder; losing it loses history only. It lists the outputs of earlier builds, which
are needed when the build state is lost. A build that found everything up to date adds no line. When old
lines are dropped, their last sizes and resources go into the first line, so that a report can still
compare with them.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpubuild.build.state import Orphan, StepRecord
from gpubuild.model.digest import Digest, is_digest
from gpubuild.model.result import BuildReport, Status, StepReport
from gpubuild.model.step import CompileParams, Step, StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.support.atomic_write import write_atomically
from gpubuild.support.frozen import field, frozen
from gpubuild.targets.registry import vendor

SCHEMA = 1
_MOST_BUILDS = 40
_KEPT_BUILDS = 20
_MOST_ERRORS = 20
_LONGEST_ERROR = 4000
_MEASURED = (StepKind.COMPILE, StepKind.BUNDLE, StepKind.HOST, StepKind.LINK)


@frozen
class LoggedStep:
    """A step that was not simply up to date. Times are seconds since the build began.

    ``began`` is when a worker began, ``ended`` when it ended, or outputs were in place here.
    ``cost_seconds`` is the time of the run that made the result, perhaps on another machine. ``needs``
    are ids of steps. ``sizes`` are those of the outputs in bytes, ``kernels`` those that ``info`` lists,
    ``device`` the kind of target and the chip that they were compiled for.
    """

    id: str
    kind: str
    program: str
    module: str
    target: str
    status: str
    reason: str
    began: float
    ended: float
    cost_seconds: float
    stages: tuple[tuple[str, float], ...]
    needs: tuple[str, ...]
    error: str
    worker: str = ""  # of a cluster
    sizes: Mapping[str, int] = field(default_factory=dict)
    kernels: tuple[Mapping[str, Any], ...] = ()
    device: tuple[str, str] = ("", "")


@frozen
class LoggedBuild:
    """One build. ``began`` is in seconds since 1970; ``up_to_date`` counts steps not listed."""

    began: float
    seconds: float
    ok: bool
    workers: int
    up_to_date: int
    steps: tuple[LoggedStep, ...]
    errors: tuple[str, ...] = ()  # as shown: equal errors of several targets are one


@frozen
class History:
    """Builds, oldest first, and the last entries of steps from dropped builds."""

    builds: tuple[LoggedBuild, ...]
    base: Mapping[str, LoggedStep]


def log_file(layout: Layout) -> Path:
    """Return the log file of a build folder."""
    return layout.private / "builds.jsonl"


class BuildLog:
    """Collects the end times of steps, and adds a line when the build has ended."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._zero = clock()
        self._began = time.time()
        self._ended: dict[str, float] = {}

    def note(self, report: StepReport) -> None:
        """Note that a step has just ended."""
        self._ended[report.id] = self._clock() - self._zero

    def append(
        self,
        plan: Plan,
        report: BuildReport,
        record: Callable[[str], StepRecord | None],
        workers: int,
    ) -> None:
        """Add the build, unless it had nothing to do. Errors of writing are ignored."""
        listed = [s for s in report.steps if s.status is not Status.UP_TO_DATE or s.reason]
        if not listed:
            return
        line = {
            "schema": SCHEMA,
            "began": round(self._began, 3),
            "seconds": round(report.seconds, 4),
            "ok": report.ok,
            "workers": workers,
            "up_to_date": len(report.steps) - len(listed),
            "steps": [
                _step_line(step, plan.steps.get(step.id), plan, record(step.id), self._ended.get(step.id))
                for step in listed
            ],
        }
        if report.failed:
            from gpubuild.build.diagnosis import grouped

            errors = grouped(step.error for step in report.failed if step.error is not None)
            line["errors"] = [_shortened(error.render()) for error in errors[:_MOST_ERRORS]]
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            whole = _trim(self._path)
            with open(self._path, "a", encoding="utf-8", opener=_open_no_link) as stream:
                stream.write("\n" * (not whole) + json.dumps(line, separators=(",", ":")) + "\n")


def read_log(path: Path) -> History:
    """Return the history in a file, without damaged lines and lines of another version."""
    builds, base = [], dict[str, LoggedStep]()
    for document in _lines(path):
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            if "base" in document:
                base.update({str(name): _step(data) for name, data in document["base"].items()})
            else:
                builds.append(_build(document))
    return History(builds=tuple(builds), base=base)


def _open_no_link(path: str, flags: int) -> int:
    """Open a file that is no link: the target of a link is not ours to append to."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else text[:_LONGEST_ERROR] + "\n…"


def read_made(path: Path) -> dict[str, Orphan]:
    """Return the outputs of programs' own steps in the builds of a log, by path, as last made."""
    made: dict[str, Orphan] = {}
    for document in _lines(path):
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            for step in document["base"].values() if "base" in document else document["steps"]:
                if "made" not in step:
                    continue
                file, outputs = step["made"]
                for output, digest in outputs:
                    if is_digest(digest):
                        orphan = Orphan(digest=Digest(digest), file=str(file), program=str(step["program"]))
                        made[str(output)] = orphan
    return made


def _step_line(
    report: StepReport, step: Step | None, plan: Plan, record: StepRecord | None, ended: float | None
) -> dict[str, Any]:
    end = max((report.seconds if ended is None else ended) - report.waited_seconds, 0.0)
    # The time of a report includes waiting for a worker, that of its stages does not.
    took = min(sum(s.seconds for s in report.stages) if report.stages else report.seconds, report.seconds)
    line: dict[str, Any] = {
        "id": report.id,
        "kind": report.kind.value,
        "program": report.program,
        "module": report.module,
        "target": report.target,
        "status": report.status.value,
        "reason": report.reason,
        "began": round(max(end - took, 0.0), 4),
        "ended": round(end, 4),
        "stages": [[s.stage, round(s.seconds, 4)] for s in report.stages],
        "needs": sorted(plan.needs(report.id)) if step is not None else [],
    }
    if report.worker:
        line["worker"] = report.worker
    if report.error is not None:
        line["error"] = report.error.message
    if record is not None and report.outputs:
        line["cost"] = round(record.result.seconds, 4)
        line["sizes"] = {blob.name: blob.size_bytes for blob in record.result.blobs}
    if record is not None and record.origin is not None:
        outputs = zip(record.origin.outputs, record.result.blobs, strict=False)
        line["made"] = [record.origin.file, [[path, blob.digest] for path, blob in outputs]]
    if step is not None and isinstance(step.params, CompileParams) and report.outputs:
        target = step.params.target
        line["device"] = [target.kind, vendor(target.kind).arch(target.chip, target.features)]
        with suppress(OSError, ValueError, KeyError, TypeError):
            line["kernels"] = json.loads(step.output_path("info").read_bytes())["kernels"]
    return line


def _trim(path: Path) -> bool:
    """Merge the older half into one line if the file is long. Return whether it ends with a newline.

    Raises ``OSError``.
    """
    if not path.exists():
        return True
    data = path.read_bytes()
    if data.count(b"\n") < _MOST_BUILDS:
        return data.endswith(b"\n")
    documents = list(_lines(path))
    builds = [d for d in documents if "steps" in d]
    base: dict[str, Any] = {}
    for document in documents:
        with suppress(TypeError, AttributeError):
            base.update(document.get("base", {}))
    for build in builds[:-_KEPT_BUILDS]:
        with suppress(KeyError, TypeError, AttributeError):
            for step in build["steps"]:
                if (step["kind"] in _MEASURED and "sizes" in step) or "made" in step:
                    base[step["id"]] = step
    lines = [{"schema": SCHEMA, "base": base}, *builds[-_KEPT_BUILDS:]]
    write_atomically(path, "".join(json.dumps(d, separators=(",", ":")) + "\n" for d in lines))
    return True


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    try:
        data = path.read_bytes()
    except OSError:
        return
    for line in data.split(b"\n"):
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict) and document.get("schema") == SCHEMA:
            yield document


def _build(document: Mapping[str, Any]) -> LoggedBuild:
    return LoggedBuild(
        began=float(document["began"]),
        seconds=float(document["seconds"]),
        ok=bool(document["ok"]),
        workers=int(document["workers"]),
        up_to_date=int(document["up_to_date"]),
        steps=tuple(_step(step) for step in document["steps"]),
        errors=tuple(str(error) for error in document.get("errors", ())),
    )


def _step(data: Mapping[str, Any]) -> LoggedStep:
    return LoggedStep(
        id=str(data["id"]),
        kind=str(data["kind"]),
        program=str(data["program"]),
        module=str(data["module"]),
        target=str(data["target"]),
        status=str(data["status"]),
        reason=str(data["reason"]),
        began=float(data["began"]),
        ended=float(data["ended"]),
        cost_seconds=float(data.get("cost", 0.0)),
        stages=tuple((str(name), float(seconds)) for name, seconds in data["stages"]),
        needs=tuple(str(need) for need in data["needs"]),
        error=str(data.get("error", "")),
        worker=str(data.get("worker", "")),
        sizes={str(name): int(size) for name, size in data.get("sizes", {}).items()},
        kernels=tuple(dict(kernel) for kernel in data.get("kernels", ())),
        device=(str(data["device"][0]), str(data["device"][1])) if "device" in data else ("", ""),
    )
