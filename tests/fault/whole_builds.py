"""Whole builds around a real cache, with a fake engine so that hundreds take seconds."""

import shutil
from contextlib import closing
from pathlib import Path

from unit.world import World

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.model.result import BuildReport, Status

VARIANTS = 4
PROGRAM = Path("build/app/app")


def edit(world: World, variant: int) -> None:
    """Sources that differ in one module, one in all, from variant to variant."""
    world.root.mkdir(parents=True, exist_ok=True)
    (world.root / "app.mlir").write_text(f"k one\nj {variant}\n")
    (world.root / "main.c").write_text("int main;" + ";" * (variant // 2))


def build(world: World, variant: int, cache: Path, **options) -> BuildReport:
    """One build, as one process would do it."""
    edit(world, variant)
    return build_as_is(world, cache, **options)


def build_as_is(world: World, cache: Path, **options) -> BuildReport:
    """Build the sources that are there, times included."""
    with closing(DiskStore(cache, **options)) as store:
        world.store = store
        return world.build()


def make_world(root: Path) -> World:
    root.mkdir(parents=True, exist_ok=True)
    return World(root)


def check(
    world: World, cache: Path, right: list[bytes], variant: int = 0, *, complete: bool = False
) -> BuildReport:
    """The next build is right, and once a fresh folder was built the cache serves the next wholly.

    ``complete``: nothing was evicted or damaged, so the cache serves the fresh folder, too.
    """
    report = build(world, variant, cache)
    assert report.ok, report.failed
    assert (world.root / PROGRAM).read_bytes() == right[variant]
    assert {s.status for s in build(world, variant, cache).steps} == {Status.UP_TO_DATE}
    for turn in range(2):
        shutil.rmtree(world.root / "build")
        again = build(world, variant, cache)
        assert again.warnings == ()
        assert (world.root / PROGRAM).read_bytes() == right[variant]
        assert (turn == 0 and not complete) or {s.status for s in again.steps if s.target} == {
            Status.HIT_LOCAL
        }
    return report


def copy_of(pristine: Path, place: Path) -> World:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(pristine, place)
    return make_world(place)
