"""Whole builds, killed, beside each other and beside evictions: the right program, every time.

The engine is the fake one of the unit tests, so that a build takes milliseconds and hundreds can
be killed; cache, state, scheduling and files are the real ones.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from conftest import Counted
from fault.test_cache_processes import exit_status, in_child
from fault.whole_builds import PROGRAM, VARIANTS, build, check, make_world

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.upkeep import collect, verify

KILLS = 4 * int(os.environ.get("GPUBUILD_TEST_FAULTS", "5"))


def test_killed_at_random_moments(tmp_path: Path, right: list[bytes], counted: Counted) -> None:
    world, cache = make_world(tmp_path / "project"), tmp_path / "cache"
    choose = random.Random(7)
    longest, killed, builds = 0.1, 0, 0
    while killed < KILLS:
        variant = choose.randrange(VARIANTS)
        if builds % 10 == 0:
            shutil.rmtree(world.root / "build", ignore_errors=True)
        if builds % 25 == 0:
            shutil.rmtree(cache, ignore_errors=True)
        pid = in_child(lambda variant=variant: build(world, variant, cache))
        time.sleep(choose.uniform(0, longest))
        os.kill(pid, signal.SIGKILL)
        late = exit_status(pid) == 0
        # Wherever builds end on this machine, most kills come before, some shortly before.
        longest = max(0.005, longest * (0.9 if late else 1.05))
        killed += not late
        builds += 1
        other = choose.randrange(VARIANTS)
        report = build(world, other, cache)
        assert report.ok, report.failed
        assert report.warnings == ()
        assert (world.root / PROGRAM).read_bytes() == right[other]
    with closing(DiskStore(cache)) as store:
        assert verify(store).ok
    check(world, cache, right, complete=True)
    counted("whole builds killed before their end", killed, at_least=KILLS)


def test_sixteen_builders_on_one_cache(tmp_path: Path, right: list[bytes]) -> None:
    def work(n: int) -> None:
        world = make_world(tmp_path / f"project{n}")
        for turn in range(3):
            variant = (n + turn) % VARIANTS
            report = build(world, variant, tmp_path / "cache")
            assert report.ok and report.warnings == (), report.warnings
            assert (world.root / PROGRAM).read_bytes() == right[variant]

    children = [in_child(lambda n=n: work(n)) for n in range(16)]
    assert [exit_status(pid) for pid in children] == [0] * 16
    with closing(DiskStore(tmp_path / "cache")) as store:
        assert verify(store).ok
        assert store.stats().reclaimable_bytes == 0


def test_sixteen_builders_each_of_which_collects(
    tmp_path: Path, right: list[bytes], counted: Counted
) -> None:
    """The automatic collection, beside fifteen others and their collections."""
    cache, limit = tmp_path / "cache", 1500
    done = tmp_path / "collections"

    def evict(directory: Path, size_bytes: int) -> None:
        with closing(DiskStore(directory)) as store:
            collected = collect(store, max_size_bytes=size_bytes)
        with done.open("a") as log:
            log.write("." if collected.freed_bytes else "")

    def work(n: int) -> None:
        world = make_world(tmp_path / f"project{n}")
        for turn in range(3):
            variant = (n + turn) % VARIANTS
            shutil.rmtree(world.root / "build", ignore_errors=True)
            report = build(world, variant, cache, max_size_bytes=limit, on_full=evict)
            assert report.ok and report.warnings == (), report.warnings
            assert (world.root / PROGRAM).read_bytes() == right[variant]

    children = [in_child(lambda n=n: work(n)) for n in range(16)]
    assert [exit_status(pid) for pid in children] == [0] * 16
    evict(cache, limit)
    with closing(DiskStore(cache)) as store:
        assert verify(store).ok
        assert store.stats().size_bytes <= limit
    counted("collections beside sixteen builders", len(done.read_text()), at_least=3)
    check(make_world(tmp_path / "project"), tmp_path / "new", right, complete=True)


def test_builds_while_others_evict_and_clear(tmp_path: Path, right: list[bytes]) -> None:
    cache = tmp_path / "cache"
    end = time.monotonic() + 1.5

    def work(n: int) -> None:
        world, turn = make_world(tmp_path / f"project{n}"), n
        while time.monotonic() < end:
            turn += 1
            shutil.rmtree(world.root / "build", ignore_errors=True)
            assert build(world, turn % VARIANTS, cache).ok
            assert (world.root / PROGRAM).read_bytes() == right[turn % VARIANTS]

    def evict(how: Callable[[DiskStore], object]) -> None:
        while time.monotonic() < end:
            with closing(DiskStore(cache)) as store:
                how(store)

    children = [in_child(lambda n=n: work(n)) for n in range(3)]
    children.append(in_child(lambda: evict(lambda store: collect(store, max_size_bytes=500))))
    children.append(in_child(lambda: evict(lambda store: (time.sleep(0.1), store.clear()))))
    assert [exit_status(pid) for pid in children] == [0] * 5
    check(make_world(tmp_path / "project"), cache, right)
