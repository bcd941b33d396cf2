"""Keeping: what is up to date in a build folder gets into a cache that lacks it."""

import shutil
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from unit.fakes import FaultyStore, MemoryStore
from unit.world import World, fake_engine

from gpubuild.build import step_runner
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.upkeep import collect
from gpubuild.cache.store import NullStore
from gpubuild.model.digest import Digest
from gpubuild.model.job import Job, JobResult
from gpubuild.model.result import BuildReport, Status
from gpubuild.model.step import ActionResult


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "project").mkdir()
    return World(tmp_path / "project")


def build(world: World, cache: Path | None, **options: bool) -> BuildReport:
    world.store = DiskStore(cache, **options) if cache else NullStore()
    try:
        return world.build()
    finally:
        world.store.close()


def is_up_to_date(report: BuildReport) -> bool:
    return {s.status for s in report.steps} == {Status.UP_TO_DATE} and report.warnings == ()


def is_served(world: World, cache: Path) -> bool:
    """Whether a fresh build folder needs no step to run."""
    shutil.rmtree(world.root / "build")
    return {s.status for s in build(world, cache).steps} == {Status.HIT_LOCAL}


def clear(cache: Path) -> None:
    with closing(DiskStore(cache)) as store:
        store.clear()


def spoil_index(cache: Path) -> None:
    (cache / "index" / "cache.db").write_bytes(b"not a database" * 1000)
    with closing(DiskStore(cache)) as store:
        store.lookup("0" * 64)


EMPTIED: dict[str, Callable[[Path], object]] = {
    "deleted": shutil.rmtree,
    "cleared": clear,
    "its index deleted": lambda cache: shutil.rmtree(cache / "index"),
    "its index damaged": spoil_index,
}


@pytest.mark.parametrize("how", EMPTIED)
def test_a_cache_that_was_emptied(world: World, tmp_path: Path, how: str) -> None:
    cache = tmp_path / "cache"
    build(world, cache)
    EMPTIED[how](cache)
    if how == "its index deleted":
        with closing(DiskStore(cache)) as store:  # whoever opens it next makes another
            assert store.stats().records == 0
    assert is_up_to_date(build(world, cache))
    assert is_served(world, cache)


@pytest.mark.parametrize(
    ("first", "options"),
    [(None, {}), ("one", {}), ("cache", {"read_only": True})],
    ids=["none", "another", "read-only"],
)
def test_built_without_a_cache(
    world: World, tmp_path: Path, first: str | None, options: dict[str, bool]
) -> None:
    build(world, tmp_path / first if first else None, **options)
    assert not (tmp_path / "cache").exists()
    assert is_up_to_date(build(world, tmp_path / "cache"))
    assert is_served(world, tmp_path / "cache")


def test_what_is_there_is_not_looked_at_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    build(world, cache)
    assert is_up_to_date(build(world, cache))
    monkeypatch.setattr(DiskStore, "_ready", lambda store: pytest.fail("the cache was opened"))
    assert is_up_to_date(build(world, cache))


@pytest.mark.parametrize("where", ["folder", "parent"])
def test_a_folder_without_permission_is_not_tried(
    world: World, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build with nothing to do does not mention it and stays quick."""
    place = tmp_path / "place"
    place.mkdir()
    build(world, None)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != place)  # root may do anything
    assert is_up_to_date(build(world, place if where == "folder" else place / "cache"))
    assert not list(place.iterdir())


def test_a_copied_cache_is_asked_and_not_filled_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(world, tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    monkeypatch.setattr(DiskStore, "publish", lambda *_: pytest.fail("stored again"))
    assert is_up_to_date(build(world, tmp_path / "two"))


def test_what_was_evicted_stays_evicted(world: World, tmp_path: Path) -> None:
    """Storing it again at every build would be a fight between the build and the size limit."""
    cache = tmp_path / "cache"
    build(world, cache)
    with closing(DiskStore(cache)) as store:
        collect(store, max_size_bytes=0)
    assert is_up_to_date(build(world, cache))
    with closing(DiskStore(cache)) as store:
        assert store.stats().records == 0


def test_a_store_that_fails_is_given_up_and_tried_by_the_next_build(world: World) -> None:
    memory = MemoryStore()
    broken = FaultyStore(memory, ["publish"])
    calls: list[object] = []
    world.store = NullStore()
    world.build()
    world.store = broken
    broken_keep = broken.keep
    broken.keep = lambda *a: (calls.append(a), broken_keep(*a))[1]
    report = world.build()
    assert {s.status for s in report.steps} == {Status.UP_TO_DATE}
    assert len(calls) == 1 and len(report.warnings) == 1
    world.store = memory
    assert is_up_to_date(world.build())
    assert memory.records


def test_an_output_that_is_not_what_it_was_is_not_stored(world: World, tmp_path: Path) -> None:
    build(world, None)
    (world.root / "build/app/app").write_bytes(b"edited")
    report = build(world, tmp_path / "cache")
    assert {s.id for s in report.steps if s.status is Status.RAN} == {"app/link"}
    assert is_served(world, tmp_path / "cache")
    assert (world.root / "build/app/app").read_bytes() != b"edited"


# ---- when results are stored ----


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
    assert told.index("stored binary,images") > told.index("ran app/link")
    # Few wait: as many as there are workers, what just ended and what ended meanwhile.
    assert all(sum(r < n for r in ran) - sum(s < n for s in stored) <= 8 for n in range(len(told)))


def test_large_links_are_not_stored(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are linked again: to copy them takes as long, and they would fill the cache."""
    monkeypatch.setattr(step_runner, "_LARGEST_STORED_LINK", 0)
    cache = tmp_path / "cache"
    build(world, cache)
    assert is_up_to_date(build(world, cache))
    shutil.rmtree(world.root / "build")
    statuses = {step.id: step.status for step in build(world, cache).steps}
    ran = {name for name, status in statuses.items() if status is Status.RAN}
    assert ran and all(name.endswith("/link") for name in ran), statuses
    assert {statuses[name] for name in statuses.keys() - ran} == {Status.HIT_LOCAL}
