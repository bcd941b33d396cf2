"""What can befall a build folder, a cache and a build, and what no later build must mind."""

from __future__ import annotations

import copy
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from fault.test_cache_processes import exit_status, in_child
from fuzz import small_engine
from fuzz.edited_world import World, tree
from fuzz.random_project import edit, write
from unit.fakes import MemoryStore

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.upkeep import collect
from gpubuild.errors import ConfigError, InterruptedBuildError, UsageError
from gpubuild.model.job import Job, JobResult

DAY_NS = 86_400 * 10**9


def disturb(world: World) -> str:
    """Do something that a later build must not mind; what it was."""
    do = world.choose.choice(_DISTURBANCES)
    do(world)
    return do.__name__


def _some_file(world: World, folder: Path) -> Path | None:
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "lock"]
    return world.choose.choice(found) if found else None


def _spoil(world: World, path: Path | None) -> None:
    """Flip a bit or cut the file."""
    if path is not None and (data := bytearray(path.read_bytes())):
        at = world.choose.randrange(len(data))
        data[at] ^= 1 << world.choose.randrange(8)
        path.chmod(0o644)
        path.write_bytes(data if world.choose.random() < 0.6 else data[:at])


def touched(world: World) -> None:
    for name in world.model.files:
        if world.choose.random() < 0.5:
            os.utime(world.root / name)


def spoilt_cache(world: World) -> None:
    _spoil(world, _some_file(world, world.cache))


def spoilt_state(world: World) -> None:
    """State, receipts, memo."""
    world.exact = False
    folder = world.root / "build/.gpubuild"
    found = [*folder.glob("receipts/*"), *folder.glob("state.json")]
    _spoil(world, world.choose.choice(found) if found else None)
    _nobody_knows_the_outputs(world)


def _nobody_knows_the_outputs(world: World) -> None:
    """What no later build can know to be its own stays where it is when no step makes it any more."""
    world.meddled.update(tree(world.root / "build"))


def no_cache_any_more(world: World) -> None:
    shutil.rmtree(world.cache, ignore_errors=True)


def collected(world: World) -> None:
    store = DiskStore(world.cache)
    collect(store, max_size_bytes=world.choose.choice((0, 2000, 5000)))
    store.close()


def no_outputs_any_more(world: World) -> None:
    world.exact = False
    shutil.rmtree(world.root / "build", ignore_errors=True)


def output_deleted(world: World) -> None:
    if path := _some_file(world, world.root / "build"):
        path.unlink()


def output_edited(world: World) -> None:
    """With its size and modification time kept, perhaps, or exchanged with another."""
    one, other = (_some_file(world, world.root / "build") for _ in range(2))
    if one is None or other is None or ".gpubuild" in {one.parent.name, other.parent.name}:
        return
    world.meddled.update(str(path.relative_to(world.root / "build")) for path in (one, other))
    way = world.choose.random()
    stat = one.stat()
    if way < 0.3:
        one.chmod(0o600)
    elif way < 0.6:
        data, others = one.read_bytes(), other.read_bytes()
        one.write_bytes(others)
        other.write_bytes(data)
    else:
        one.write_bytes(bytes(byte ^ 1 for byte in one.read_bytes()))
        os.utime(one, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def at_job(number: int, do: Callable[[], object]) -> Callable[[Job], JobResult]:
    """An engine that does something else before one of its jobs."""
    left = [number]

    def engine(job: Job) -> JobResult:
        left[0] -= 1
        if left[0] == 0:
            do()
        return small_engine.run(job)

    return engine


def killed(world: World) -> None:
    world.exact = False
    engine = at_job(world.choose.randint(1, 9), lambda: os._exit(9))
    assert exit_status(in_child(lambda: quietly(world, engine=engine))) in (0, 9)
    _nobody_knows_the_outputs(world)


def interrupted(world: World) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    world.exact = False
    quietly(world, engine=at_job(world.choose.randint(1, 9), stop))


def edited_meanwhile(world: World) -> None:
    def change() -> None:
        edit(world.model, world.choose, world.history)
        world.write()

    world.exact = False
    quietly(world, engine=at_job(world.choose.randint(1, 6), change))


def quietly(world: World, **options: object) -> None:
    """Build something, whatever comes of it."""
    world.exact = False
    with suppress(ConfigError, UsageError, InterruptedBuildError, FileNotFoundError):
        world.build(**options)  # type: ignore[arg-type]


def some_programs(world: World) -> None:
    quietly(world, programs=(world.choose.choice(list(world.model.config["programs"])),))


def some_targets(world: World) -> None:
    quietly(world, targets=(world.choose.choice(list(world.model.config["targets"])),))


def dry(world: World) -> None:
    quietly(world, dry_run=True)


def without_cache(world: World) -> None:
    quietly(world, store=MemoryStore())


def stopping_at_the_first_failure(world: World) -> None:
    quietly(world, keep_going=False)


def clock_off(world: World) -> None:
    now, days = time.time_ns, world.choose.choice((-1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: now() + days * DAY_NS)
        quietly(world)


def copied(world: World) -> None:
    """Every file is a new one, with its old times."""
    place = world.root.with_name("moved")
    shutil.copytree(world.root, place, symlinks=True)
    shutil.rmtree(world.root)
    place.rename(world.root)


def beside_another(world: World) -> None:
    """A checkout elsewhere is built with the same cache at the same time."""
    other = copy.deepcopy(world)
    other.model.root = world.root.with_name("other")
    write(other.model, other.choose, keep=set())
    shutil.rmtree(other.tools, ignore_errors=True)
    other.write()
    pid = in_child(lambda: quietly(other))
    quietly(world)
    assert exit_status(pid) == 0


_DISTURBANCES = (
    touched, spoilt_cache, spoilt_cache, spoilt_state, spoilt_state, no_cache_any_more, collected,
    no_outputs_any_more, output_deleted, output_deleted, output_edited, output_edited, killed, killed,
    interrupted, edited_meanwhile, edited_meanwhile, some_programs, some_targets, dry, without_cache,
    stopping_at_the_first_failure, clock_off, copied, beside_another,
)  # fmt: skip
