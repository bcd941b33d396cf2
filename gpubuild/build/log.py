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
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gpubuild.build.state import Orphan, StepRecord
from gpubuild.model.digest import Digest, is_digest
from gpubuild.model.result import BuildReport, Status, StepReport
from gpubuild.model.step import CompileParams, Step, StepKind
from gpubuild.plan.layout import Layout
from gpubuild.plan.plan import Plan
from gpubuild.support.files import write_atomically
from gpubuild.support.frozen import field, frozen
from gpubuild.support.plain_data import plain, typed
from gpubuild.targets.registry import vendor

SCHEMA = 2
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
    ``device`` the kind of target and the chip that they were compiled for. ``made`` are paths and digests
    of the outputs that ``file``, the project file, has from a program's own step.
    """

    id: str
    kind: str
    status: str
    began: float
    ended: float
    program: str = ""
    module: str = ""
    target: str = ""
    reason: str = ""
    cost_seconds: float = 0.0
    stages: tuple[tuple[str, float], ...] = ()
    needs: tuple[str, ...] = ()
    error: str = ""
    worker: str = ""  # of a cluster
    sizes: Mapping[str, int] = field(default_factory=dict)
    kernels: tuple[Mapping[str, Any], ...] = ()
    device: tuple[str, str] = ("", "")
    file: str = ""
    made: tuple[tuple[str, str], ...] = ()


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
        build = LoggedBuild(
            began=round(self._began, 3),
            seconds=round(report.seconds, 4),
            ok=report.ok,
            workers=workers,
            up_to_date=len(report.steps) - len(listed),
            steps=tuple(
                _logged(step, plan.steps.get(step.id), plan, record(step.id), self._ended.get(step.id))
                for step in listed
            ),
            errors=_errors(report) if report.failed else (),
        )
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            whole = _trim(self._path)
            with open(self._path, "a", encoding="utf-8", opener=_open_no_link) as stream:
                stream.write("\n" * (not whole) + _line(plain(build)))


def read_log(path: Path) -> History:
    """Return the history in a file, without damaged lines and lines of another version."""
    builds, base = [], dict[str, LoggedStep]()
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        lines = []
    for line in lines:
        with suppress(KeyError, TypeError, ValueError, AttributeError, RecursionError):
            document = json.loads(line)
            if document.pop("schema") != SCHEMA:
                continue
            if "base" in document:
                base.update(typed(dict[str, LoggedStep], document["base"]))
            else:
                builds.append(typed(LoggedBuild, document))
    return History(builds=tuple(builds), base=base)


def _open_no_link(path: str, flags: int) -> int:
    """Open a file that is no link: the target of a link is not ours to append to."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _errors(report: BuildReport) -> tuple[str, ...]:
    from gpubuild.build.diagnosis import grouped  # for failures only

    errors = grouped(step.error for step in report.failed if step.error is not None)
    texts = (error.render() for error in errors[:_MOST_ERRORS])
    return tuple(text if len(text) <= _LONGEST_ERROR else text[:_LONGEST_ERROR] + "\n…" for text in texts)


def read_made(path: Path) -> dict[str, Orphan]:
    """Return the outputs of programs' own steps in the builds of a log, by path, as last made."""
    history = read_log(path)
    return {
        output: Orphan(digest=Digest(digest), file=step.file, program=step.program)
        for step in (*history.base.values(), *(step for build in history.builds for step in build.steps))
        for output, digest in step.made
        if is_digest(digest)
    }


def _logged(
    report: StepReport, step: Step | None, plan: Plan, record: StepRecord | None, ended: float | None
) -> LoggedStep:
    end = max((report.seconds if ended is None else ended) - report.waited_seconds, 0.0)
    # The time of a report includes waiting for a worker, that of its stages does not.
    took = min(sum(s.seconds for s in report.stages) if report.stages else report.seconds, report.seconds)
    more: dict[str, Any] = {}
    if record is not None and report.outputs:
        more["cost_seconds"] = round(record.result.seconds, 4)
        more["sizes"] = {blob.name: blob.size_bytes for blob in record.result.blobs}
    if record is not None and record.origin is not None:
        outputs = zip(record.origin.outputs, record.result.blobs, strict=False)
        more |= {"file": record.origin.file, "made": tuple((path, blob.digest) for path, blob in outputs)}
    if step is not None and isinstance(step.params, CompileParams) and report.outputs:
        target = step.params.target
        more["device"] = (target.kind, vendor(target.kind).arch(target.chip, target.features))
        with suppress(OSError, ValueError, KeyError, TypeError):
            more["kernels"] = tuple(json.loads(step.output_path("info").read_bytes())["kernels"])
    return LoggedStep(
        id=report.id,
        kind=report.kind.value,
        program=report.program,
        module=report.module,
        target=report.target,
        status=report.status.value,
        reason=report.reason,
        began=round(max(end - took, 0.0), 4),
        ended=round(end, 4),
        stages=tuple((s.stage, round(s.seconds, 4)) for s in report.stages),
        needs=tuple(sorted(plan.needs(report.id))) if step is not None else (),
        worker=report.worker,
        error=report.error.message if report.error is not None else "",
        **more,
    )


def _trim(path: Path) -> bool:
    """Merge the older half into one line if the file is long. Return whether it ends with a newline.

    Raises ``OSError``.
    """
    if not path.exists():
        return True
    data = path.read_bytes()
    if data.count(b"\n") < _MOST_BUILDS:
        return data.endswith(b"\n")
    history = read_log(path)
    base = dict(history.base)
    for build in history.builds[:-_KEPT_BUILDS]:
        base |= {s.id: s for s in build.steps if (s.kind in _MEASURED and s.sizes) or s.made}
    documents = [{"base": base}, *history.builds[-_KEPT_BUILDS:]]
    write_atomically(path, "".join(_line(plain(document)) for document in documents))
    return True


def _line(document: Any) -> str:  # noqa: ANN401 - plain data
    return json.dumps({"schema": SCHEMA, **document}, separators=(",", ":")) + "\n"
