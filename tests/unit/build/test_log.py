"""The build log: what a line tells, what survives damage and trimming."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from unit.projects import build_report, step_report

from gpubuild.build.log import BuildLog, read_log
from gpubuild.build.state import StepRecord
from gpubuild.errors import StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import StageTime
from gpubuild.model.result import Status, StepReport
from gpubuild.model.step import (
    ActionResult,
    Blob,
    CompileParams,
    Input,
    Output,
    RuntimeParams,
    Step,
    StepKind,
)
from gpubuild.plan.plan import Plan
from gpubuild.targets.target import Target

SM_90 = Target(name="sm_90", kind="nvvm", chip="sm_90", triple="nvptx64-nvidia-cuda")
KERNELS = [{"name": "k", "registers": 7, "shared_bytes": 0, "spill_bytes": 0, "tier": None}]


def plan(folder: Path) -> Plan:
    compile_ = Step(
        id="app/compile/k/sm_90",
        kind=StepKind.COMPILE,
        params=CompileParams(module="k", target=SM_90),
        inputs=(),
        outputs=(Output(name="info", path=folder / "info"),),
        program="app",
        module="k",
        target="sm_90",
    )
    link = Step(
        id="app/link",
        kind=StepKind.LINK,
        params=RuntimeParams(),
        inputs=(Input(name="in", path=folder / "info", producer=compile_.id),),
        outputs=(Output(name="executable", path=folder / "app"),),
    )
    return Plan([compile_, link])


def reports(status: Status, size: str = "") -> tuple[StepReport, ...]:
    def report(name: str, kind: StepKind, seconds: float) -> StepReport:
        return step_report(
            name,
            status,
            kind=kind,
            program="app",
            reason="" if status is Status.UP_TO_DATE else "first build",
            seconds=seconds,
            outputs=(Path(size),),
            stages=(StageTime(stage="lower", seconds=1.0), StageTime(stage="ptxas", seconds=0.5)),
        )

    return (report("app/compile/k/sm_90", StepKind.COMPILE, 4.0), report("app/link", StepKind.LINK, 2.0))


def record(size_bytes: int):
    def find(_: str) -> StepRecord:
        blob = Blob(name="object", digest=digest_bytes(b""), size_bytes=size_bytes)
        result = ActionResult(blobs=(blob,), seconds=1.5)
        return StepRecord(key=digest_bytes(b""), parts={}, result=result)

    return find


def write(folder: Path, *, status: Status = Status.RAN, size_bytes: int = 10) -> Path:
    (folder / "info").write_text(json.dumps({"schema": 1, "kernels": KERNELS}))
    now = iter([100.0, 105.0, 107.5])
    log = BuildLog(folder / "private" / "log", clock=lambda: next(now))
    steps = reports(status)
    for step in steps:
        log.note(step)
    log.append(plan(folder), build_report(*steps, seconds=8.0), record(size_bytes), 2)
    return folder / "private" / "log"


def test_a_line_tells_when_a_worker_was_busy_and_what_came_out(tmp_path: Path) -> None:
    (build,) = read_log(write(tmp_path)).builds
    compile_, link = build.steps
    # It ended after 5 s and its stages took 1.5 s: before that it waited for a worker.
    assert (compile_.began, compile_.ended) == (3.5, 5.0)
    assert compile_.stages == (("lower", 1.0), ("ptxas", 0.5))
    assert (compile_.sizes, compile_.kernels) == ({"object": 10}, tuple(KERNELS))
    assert (compile_.device, link.device) == (("nvvm", "sm_90"), ("", ""))
    assert link.needs == ("app/compile/k/sm_90",)
    assert link.kernels == ()
    assert (build.seconds, build.ok, build.workers, build.up_to_date) == (8.0, True, 2, 0)


def test_nothing_to_do_leaves_no_line(tmp_path: Path) -> None:
    assert not write(tmp_path, status=Status.UP_TO_DATE).exists()


@pytest.mark.parametrize("what", ["folder", "log"])
def test_a_log_that_cannot_be_written_is_no_failure(tmp_path: Path, what: str) -> None:
    """Where there is a file for its folder, or a link, which is not followed."""
    file = tmp_path / ("private" if what == "folder" else "precious")
    file.write_text("mine")
    if what == "log":
        (tmp_path / "private").mkdir()
        (tmp_path / "private/log").symlink_to(file)
    write(tmp_path)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    "damage", [b"{", b"\xff\xfe", b'{"schema": 1}', b'{"schema": 9, "steps": []}', b"[" * 9000]
)
def test_damaged_lines_hide_no_other(tmp_path: Path, damage: bytes) -> None:
    path = write(tmp_path)
    path.write_bytes(damage + b"\n" + path.read_bytes() + path.read_bytes()[:40])
    assert len(read_log(path).builds) == 1


def test_old_builds_are_dropped_but_not_what_they_measured(tmp_path: Path) -> None:
    for number in range(60):
        path = write(tmp_path, size_bytes=number)
    history = read_log(path)
    assert 20 <= len(history.builds) <= 40
    oldest = history.builds[0].steps[0].sizes["object"]
    assert history.base["app/compile/k/sm_90"].sizes["object"] == oldest - 1
    assert history.builds[-1].steps[0].sizes["object"] == 59


def test_errors_are_kept_as_they_were_shown(tmp_path: Path) -> None:
    def failed(target: str, text: str) -> StepReport:
        error = StepError(text).with_(target=target)
        (report, _) = reports(Status.FAILED)
        return replace(report, id=f"app/compile/k/{target}", target=target, error=error)

    steps = (failed("sm_60", "no such thing"), failed("cpu", "no such thing"), failed("gfx90a", "x" * 9000))
    log = BuildLog(tmp_path / "log")
    log.append(plan(tmp_path), build_report(*steps, seconds=1.0), lambda _: None, 2)
    ((first, second),) = (b.errors for b in read_log(tmp_path / "log").builds)
    assert first == "no such thing (targets sm_60, cpu)"
    assert second.endswith("\n…")
    assert len(second) < 5000
