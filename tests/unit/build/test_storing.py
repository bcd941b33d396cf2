"""Results get into the cache behind the schedule: what they make ready begins first, and none is lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from unit.fakes import MemoryStore
from unit.world import World, fake_engine

from gpubuild.errors import InterruptedBuildError
from gpubuild.model.digest import Digest
from gpubuild.model.job import Job, JobResult
from gpubuild.model.result import Status
from gpubuild.model.step import ActionResult


class Watched(MemoryStore):
    """Notes what is stored, among what runs."""

    def __init__(self, told: list[str]) -> None:
        super().__init__()
        self.told = told

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        self.told.append(f"stored {','.join(sorted(files))}")
        return super().publish(key, result, files)


@pytest.fixture
def told(world: World) -> list[str]:
    told: list[str] = []
    world.store = Watched(told)

    def engine(job: Job) -> JobResult:
        told.append(f"ran {job.step_id}")
        return fake_engine(job)

    world.engine = engine
    return told


def test_what_a_result_makes_ready_begins_first(world: World, told: list[str]) -> None:
    report = world.build()
    assert report.ok
    ran = [n for n, text in enumerate(told) if text.startswith("ran ")]
    stored = [n for n, text in enumerate(told) if text.startswith("stored ")]
    assert len(ran) == len(stored) == len(report.steps)
    assert told.index("stored binary") > told.index("ran app/host")
    # Few wait: as many as there are workers, what just ended and what ended meanwhile.
    assert all(sum(r < n for r in ran) - sum(s < n for s in stored) <= 8 for n in range(len(told)))


def test_nothing_is_stored_twice(world: World, told: list[str]) -> None:
    world.build()
    told.clear()
    assert {s.status for s in world.build().steps} == {Status.UP_TO_DATE}
    assert told == []


def test_an_interrupted_build_loses_nothing_that_it_made(world: World, told: list[str]) -> None:
    def engine(job: Job) -> JobResult:
        if job.step_id == "app/host":
            raise KeyboardInterrupt
        return fake_engine(job)

    world.engine = engine
    with pytest.raises(InterruptedBuildError):
        world.build()
    world.engine = fake_engine
    world.build()
    assert world.ran() == {"app/host", "app/link"}
    assert isinstance(world.store, MemoryStore)
    kept = {record.key for record in world.builder().state.records().values()}
    assert kept == set(world.store.records)
