"""Whole builds around a damaged, killed, crowded or failing cache: the right program, every time.

The engine is the fake one of the unit tests, so that a build takes milliseconds and hundreds can
be killed; cache, state, scheduling and files are the real ones.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from conftest import Counted
from fault.test_cache_processes import exit_status, in_child
from unit.world import World

from gpubuild.cache import index
from gpubuild.cache.disk import DiskStore
from gpubuild.cache.upkeep import collect, verify
from gpubuild.model.result import BuildReport, Status
from gpubuild.state import BuildState

KILLS = 200
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
    store = DiskStore(cache, **options)
    world.store = store
    try:
        return world.build()
    finally:
        store.close()


def make_world(root: Path) -> World:
    root.mkdir(parents=True, exist_ok=True)
    return World(root)


@pytest.fixture(scope="module", autouse=True)
def small_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two files instead of fifty, and no waiting for disks: a killed process loses no page."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in ("mgpu.c", "image.h"):
        (folder / name).write_text(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpubuild.build.RUNTIME_DIR", folder)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def right(small_runtime: None, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The program of each variant, built where nothing ever went wrong."""
    found = []
    for variant in range(VARIANTS):
        world = make_world(tmp_path_factory.mktemp("right") / "project")
        edit(world, variant)
        assert world.build().ok
        found.append((world.root / PROGRAM).read_bytes())
    assert len(set(found)) == VARIANTS
    return found


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
    store = DiskStore(cache)
    assert verify(store).ok
    store.close()
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
    store = DiskStore(tmp_path / "cache")
    assert verify(store).ok
    assert store.stats().reclaimable_bytes == 0
    store.close()


def test_sixteen_builders_each_of_which_collects(
    tmp_path: Path, right: list[bytes], counted: Counted
) -> None:
    """The automatic collection, beside fifteen others and their collections."""
    cache, limit = tmp_path / "cache", 1500
    done = tmp_path / "collections"

    def evict(directory: Path, size_bytes: int) -> None:
        store = DiskStore(directory)
        collected = collect(store, max_size_bytes=size_bytes)
        store.close()
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
    store = DiskStore(cache)
    assert verify(store).ok
    assert store.stats().size_bytes <= limit
    store.close()
    counted("collections beside sixteen builders", len(done.read_text()), at_least=3)
    check(make_world(tmp_path / "project"), tmp_path / "new", right, complete=True)


def test_builds_while_others_evict_and_clear(tmp_path: Path, right: list[bytes]) -> None:
    cache = tmp_path / "cache"
    end = time.monotonic() + 3

    def work(n: int) -> None:
        world, turn = make_world(tmp_path / f"project{n}"), n
        while time.monotonic() < end:
            turn += 1
            shutil.rmtree(world.root / "build", ignore_errors=True)
            assert build(world, turn % VARIANTS, cache).ok
            assert (world.root / PROGRAM).read_bytes() == right[turn % VARIANTS]

    def evict(how: Callable[[DiskStore], object]) -> None:
        while time.monotonic() < end:
            store = DiskStore(cache)
            how(store)
            store.close()

    children = [in_child(lambda n=n: work(n)) for n in range(3)]
    children.append(in_child(lambda: evict(lambda store: collect(store, max_size_bytes=500))))
    children.append(in_child(lambda: evict(lambda store: (time.sleep(0.1), store.clear()))))
    assert [exit_status(pid) for pid in children] == [0] * 5
    check(make_world(tmp_path / "project"), cache, right)


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    """A project with its cache, built and closed."""
    world = make_world(tmp_path / "pristine")
    build(world, 0, tmp_path / "pristine" / "cache")
    return tmp_path / "pristine"


def copy_of(pristine: Path, place: Path) -> World:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(pristine, place)
    return make_world(place)


def test_a_flipped_bit_in_every_file_of_the_cache(
    pristine: Path, tmp_path: Path, right: list[bytes], counted: Counted
) -> None:
    choose = random.Random(3)
    files = sorted(p.relative_to(pristine) for p in (pristine / "cache").rglob("*") if p.is_file())
    flipped, touched = 0, set()
    for file in files:
        size = (pristine / file).stat().st_size
        for position in sorted({choose.randrange(size) for _ in range(2)} if size else ()):
            touched.add(file)
            world = copy_of(pristine, tmp_path / "project")
            shutil.rmtree(world.root / "build")
            data = bytearray((world.root / file).read_bytes())
            data[position] ^= 1 << choose.randrange(8)
            (world.root / file).chmod(0o644)
            (world.root / file).write_bytes(data)
            flipped += 1
            assert build(world, 0, world.root / "cache").ok, file
            assert (world.root / PROGRAM).read_bytes() == right[0], file
            if flipped % 10 == 0:
                check(world, world.root / "cache", right, variant=1)
    empty = {file for file in files if not (pristine / file).stat().st_size}
    assert touched == set(files) - empty, "every file that has a bit"
    assert len(empty) <= 2, empty  # the lock files
    counted("bits flipped in the files of a cache, each before a whole build", flipped, at_least=30)


@pytest.mark.parametrize("folder", ["build/.gpubuild", "cache/history", "cache"])
def test_truncation_of_every_small_persistent_file(
    pristine: Path, tmp_path: Path, right: list[bytes], folder: str, counted: Counted
) -> None:
    small = [p for p in (pristine / folder).iterdir() if p.is_file() and p.stat().st_size]
    assert small
    lengths = 0
    for path in small:
        size = path.stat().st_size
        for length in sorted({0, 1, size - 1, *range(0, size, max(1, size // 25))}):
            lengths += 1
            world = copy_of(pristine, tmp_path / "project")
            os.truncate(world.root / path.relative_to(pristine), length)
            assert build(world, 1, world.root / "cache").ok
            assert (world.root / PROGRAM).read_bytes() == right[1]
    counted("truncations, each before a whole build", lengths, at_least=4 * len(small))


def test_truncation_of_the_state_at_every_byte(pristine: Path, counted: Counted) -> None:
    """Half a state is no state: every digest in it is dropped, none is believed."""
    path = pristine / "build" / ".gpubuild" / "state.json"
    data = path.read_bytes()
    for length in reversed(range(len(data))):
        os.truncate(path, length)
        assert BuildState(path).record("app/link") is None, length
    counted("truncations, at every byte of a file's reader", len(data), at_least=1000)
    path.write_bytes(data)
    assert BuildState(path).record("app/link") is not None


@pytest.mark.parametrize("damage", ["noise", "empty", "another database", "no tables", "log of another"])
def test_a_corrupt_index(pristine: Path, right: list[bytes], damage: str) -> None:
    database = pristine / "cache" / "index" / index.DATABASE
    match damage:
        case "noise":
            database.write_bytes(random.Random(1).randbytes(20_000))
        case "empty":
            database.write_bytes(b"")
        case "another database":
            database.unlink()
            with sqlite3.connect(database) as connection:
                connection.execute("CREATE TABLE Cache (a, b)")
            connection.close()
        case "no tables":
            with sqlite3.connect(database) as connection:
                connection.execute("DROP TABLE Cache")
            connection.close()
        case "log of another":
            (database.parent / f"{index.DATABASE}-wal").write_bytes(random.Random(2).randbytes(9000))
    shutil.rmtree(pristine / "build")
    world = make_world(pristine)
    assert build(world, 0, pristine / "cache").ok
    assert (pristine / PROGRAM).read_bytes() == right[0]
    check(world, pristine / "cache", right, variant=2)


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO], ids=errno.errorcode.get
)
@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace", "fchmod", "mkdir"])
def test_a_failing_disk_under_the_cache(tmp_path: Path, right: list[bytes], call: str, code: int) -> None:
    """From the first, the third, … call of the cache on; the build folder is on a good disk."""
    for after in (0, 2, 7, 23):
        world, cache = make_world(tmp_path / f"project{after}"), tmp_path / f"cache{after}"
        with failing_below(cache, call, code, after) as failed:
            report = build(world, 0, cache)
        assert report.ok, report.failed
        assert (world.root / PROGRAM).read_bytes() == right[0]
        assert len(report.warnings) <= 2
        # A note about sizes or hit rates may be lost in silence, a result may not.
        assert report.warnings or failed[0] <= 2
        assert all(os.strerror(code) in w or "disk" in w for w in report.warnings), report.warnings
        check(world, cache, right, variant=3, complete=True)


@contextmanager
def failing_below(folder: Path, call: str, code: int, after: int) -> Iterator[list[int]]:
    """``os.call`` fails for files in ``folder`` from the ``after``-th time on; yields the count."""
    real = getattr(os, call)
    calls, failed = [0], [0]

    def concerns(argument: object) -> bool:
        if isinstance(argument, int) and not isinstance(argument, bool) and argument > 2:
            with suppress(OSError):
                return folder in Path(f"/proc/self/fd/{argument}").readlink().parents
        return isinstance(argument, str | Path) and folder in (Path(argument), *Path(argument).parents)

    def fake(*args, **kwargs):
        if any(concerns(argument) for argument in args[:2]):
            calls[0] += 1
            if calls[0] > after:
                failed[0] += 1
                raise OSError(code, os.strerror(code), str(args[0]))
        return real(*args, **kwargs)

    setattr(os, call, fake)
    try:
        yield failed
    finally:
        setattr(os, call, real)


def test_a_read_only_cache(pristine: Path, tmp_path: Path, right: list[bytes]) -> None:
    before = {p: p.stat().st_mtime_ns for p in (pristine / "cache").rglob("*")}
    world = make_world(tmp_path / "project")
    report = build(world, 0, pristine / "cache", read_only=True)
    assert {s.status for s in report.steps if s.target} == {Status.HIT_LOCAL}
    assert build(world, 1, pristine / "cache", read_only=True).ok
    assert (world.root / PROGRAM).read_bytes() == right[1]
    after = {p: p.stat().st_mtime_ns for p in (pristine / "cache").rglob("*")}
    assert {p: t for p, t in after.items() if "history" not in str(p) and p != pristine / "cache"} == {
        p: t for p, t in before.items() if "history" not in str(p) and p != pristine / "cache"
    }


@pytest.mark.parametrize("days", [-1, 1])
def test_a_clock_that_jumps(
    pristine: Path, right: list[bytes], monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """Files made before the jump are from the future, or long past; edits after it are seen."""
    world = make_world(pristine)
    real_time, real_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: real_time() + days * 86400)
    monkeypatch.setattr(time, "time_ns", lambda: real_ns() + days * 86400 * 10**9)
    for variant in (1, 2, 1, 0):
        edit(world, variant)
        shifted = real_time() + days * 86400
        os.utime(pristine / "app.mlir", (shifted, shifted))
        assert build_as_is(world).ok
        assert (pristine / PROGRAM).read_bytes() == right[variant]
        store = DiskStore(pristine / "cache")
        collect(store, max_age_seconds=3600.0)  # whatever that evicts
        store.close()
    monkeypatch.undo()
    check(world, pristine / "cache", right, variant=3)


def build_as_is(world: World) -> BuildReport:
    """Build the sources that are there, times included."""
    store = DiskStore(world.root / "cache")
    world.store = store
    try:
        return world.build()
    finally:
        store.close()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EIO], ids=errno.errorcode.get)
def test_a_file_system_without_locks(
    tmp_path: Path, right: list[bytes], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """As on NFS: neither flock nor SQLite's locks work, in a new cache and in one that is there."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    def refuse_sqlite(path: Path) -> None:
        error = sqlite3.OperationalError("locking protocol")
        error.sqlite_errorcode = 15
        raise error

    cache = tmp_path / "cache"
    for warm in (False, True):
        if warm:
            build(make_world(tmp_path / "other"), 0, cache)
        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", refuse)
            patch.setattr(index, "_probe", refuse_sqlite)
            world = make_world(tmp_path / f"project{warm}")
            for variant in (0, 1):
                report = build(world, variant, cache)
                assert report.ok, report.failed
                assert (world.root / PROGRAM).read_bytes() == right[variant]
                assert len(report.warnings) == 1 and "network file system" in report.warnings[0]
        check(world, cache, right, complete=True)
        shutil.rmtree(cache, ignore_errors=True)
