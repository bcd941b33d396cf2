"""Inputs edited while their step runs: no result is stored under a key that is not its own."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Counted
from fault.whole_builds import PROGRAM, build, build_as_is, edit, make_world
from unit.world import World, fake_engine

from gpubuild.engine.ir.step_io import StepIO
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import StepKind

OLD, NEW = 0, 3
NEVER = -1


pytestmark = pytest.mark.usefixtures("small_runtime")


class Meddler:
    """The fake engine behind the real door; the sources are edited around its ``at``-th job."""

    def __init__(self, world: World, at: int, *, before_reading: bool) -> None:
        self._world = world
        self._at = at
        self._before = before_reading
        self.count = 0

    def __call__(self, job: Job) -> JobResult:
        now = self.count == self._at
        self.count += 1
        if now and self._before:
            edit(self._world, NEW)
        io = StepIO(job)
        copies = []
        for item in job.inputs:
            if (job.kind, item.name) == (StepKind.CC, "source") or item.name == "located":
                continue  # outside the key: for messages only, no engine makes outputs of it
            copy = io.copy_in(item.name, f"input-{len(copies)}")  # what does not match is refused
            copies.append(replace(item, path=copy))
        if now and not self._before:
            edit(self._world, NEW)
        return fake_engine(replace(job, inputs=tuple(copies)))


def test_an_edit_around_a_job(tmp_path: Path, counted: Counted) -> None:
    right = {}
    for variant in (OLD, NEW):
        world = make_world(tmp_path / f"right{variant}")
        world.engine = Meddler(world, NEVER, before_reading=False)
        assert build(world, variant, tmp_path / f"cache{variant}").ok
        right[variant] = (world.root / PROGRAM).read_bytes()
    assert right[OLD] != right[NEW]
    jobs = len(world.jobs)
    refused = 0
    moments = (0, 1, 2, jobs // 2, jobs - 1)  # the sources are read by the first two
    for at in moments:
        for before_reading in (True, False):
            world = make_world(tmp_path / f"{at}{before_reading}")
            cache = world.root / "cache"
            world.engine = Meddler(world, at, before_reading=before_reading)
            report = build(world, OLD, cache)
            for step in report.failed:
                assert step.error is not None and "changed while the build was running" in step.error.message
            refused += not report.ok
            world.engine = Meddler(world, NEVER, before_reading=False)
            assert build_as_is(world, cache).ok
            assert (world.root / PROGRAM).read_bytes() == right[NEW], (at, before_reading)
            for variant in (OLD, NEW):
                shutil.rmtree(world.root / "build")
                assert build(world, variant, cache).ok
                assert (world.root / PROGRAM).read_bytes() == right[variant], (at, before_reading)
    assert refused >= 2, "at least outlining and preprocessing read what was edited"
    counted("edits of the sources while a step ran", 2 * len(moments), at_least=10)
