"""Whole builds around a damaged or failing cache: the right program, every time."""

import errno
import fcntl
import os
import random
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Counted
from fault.test_cache_errors import failing
from fault.whole_builds import PROGRAM, build, build_as_is, check, copy_of, edit, make_world
from variants import few

from gpubuild.build.state import BuildState
from gpubuild.cache.local import index
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.upkeep import collect
from gpubuild.model.result import Status

FLIPS = min(10, int(os.environ.get("GPUBUILD_TEST_FAULTS", "1")))  # in each file of a cache


def test_a_flipped_bit_in_every_file_of_the_cache(
    pristine: Path, tmp_path: Path, right: list[bytes], counted: Counted
) -> None:
    choose = random.Random(3)
    files = sorted(p.relative_to(pristine) for p in (pristine / "cache").rglob("*") if p.is_file())
    flipped, touched = 0, set()
    for file in files:
        size = (pristine / file).stat().st_size
        for position in {choose.randrange(size) for _ in range(FLIPS if size else 0)}:
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
    counted("bits flipped in the files of a cache, each before a whole build", flipped, at_least=20)


@pytest.mark.parametrize("folder", ["build/.gpubuild", "cache"])
def test_truncation_of_every_small_persistent_file(
    pristine: Path, tmp_path: Path, right: list[bytes], folder: str, counted: Counted
) -> None:
    small = [p for p in (pristine / folder).iterdir() if p.is_file() and p.stat().st_size]
    assert small
    lengths = 0
    for path in small:
        size = path.stat().st_size
        for length in sorted({0, 1, size - 1, *range(0, size, max(1, size // 10))}):
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


def test_flipped_bits_of_the_state(pristine: Path, right: list[bytes], counted: Counted) -> None:
    """A digest with one wrong digit is one, too: builds would fail over files that are as they were."""
    path = pristine / "build" / ".gpubuild" / "state.json"
    data = path.read_bytes()
    places = [*range(100), *range(100, len(data), 5)]
    for place in places:
        with path.open("r+b") as stream:
            stream.seek(place)
            stream.write(bytes([data[place] ^ 1 << place % 7]))
        assert BuildState(path).records() == {}, place
        with path.open("r+b") as stream:
            stream.seek(place)
            stream.write(data[place : place + 1])
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    world = make_world(pristine)
    assert build(world, 1, pristine / "cache").ok
    assert (pristine / PROGRAM).read_bytes() == right[1]
    counted("bits flipped in a state file", len(places), at_least=1000)


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
                connection.execute("CREATE TABLE Record (a, b)")
            connection.close()
        case "no tables":
            with sqlite3.connect(database) as connection:
                connection.execute("DROP TABLE Record")
            connection.close()
        case "log of another":
            (database.parent / f"{index.DATABASE}-wal").write_bytes(random.Random(2).randbytes(9000))
    shutil.rmtree(pristine / "build")
    world = make_world(pristine)
    report = build(world, 0, pristine / "cache")
    assert report.ok
    assert damage != "noise" or [w for w in report.warnings if w.endswith("a new one was started")]
    assert len(report.warnings) == len(list((pristine / "cache/quarantine").iterdir())) <= 1, "set aside once"
    assert (pristine / PROGRAM).read_bytes() == right[0]
    check(world, pristine / "cache", right, variant=2)


@pytest.mark.parametrize(
    "code", few([errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS]), ids=errno.errorcode.get
)
@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace", "fchmod", "mkdir"])
def test_a_failing_disk_under_the_cache(tmp_path: Path, right: list[bytes], call: str, code: int) -> None:
    """From the first, the third, … call of the cache on; the build folder is on a good disk."""
    for after in (0, 2, 7, 23) if code == errno.ENOSPC else (0, 7):
        world, cache = make_world(tmp_path / f"project{after}"), tmp_path / f"cache{after}"
        with failing(call, code, after, below=cache) as failed:
            report = build(world, 0, cache)
        assert report.ok, report.failed
        assert (world.root / PROGRAM).read_bytes() == right[0]
        assert len(report.warnings) <= 2
        # A note about sizes or hit rates may be lost in silence, a result may not.
        assert report.warnings or failed[0] <= 2
        assert all(os.strerror(code) in w or "disk" in w for w in report.warnings), report.warnings
        check(world, cache, right, variant=3, complete=True)


def test_a_read_only_cache(pristine: Path, tmp_path: Path, right: list[bytes]) -> None:
    before = {p: p.stat().st_mtime_ns for p in (pristine / "cache").rglob("*")}
    world = make_world(tmp_path / "project")
    report = build(world, 0, pristine / "cache", read_only=True)
    assert {s.status for s in report.steps if s.target} == {Status.HIT_LOCAL}
    assert build(world, 1, pristine / "cache", read_only=True).ok
    assert (world.root / PROGRAM).read_bytes() == right[1]
    after = {p: p.stat().st_mtime_ns for p in (pristine / "cache").rglob("*")}
    assert after == before


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
        assert build_as_is(world, pristine / "cache").ok
        assert (pristine / PROGRAM).read_bytes() == right[variant]
        with closing(DiskStore(pristine / "cache")) as store:
            collect(store, max_age_seconds=3600.0)  # whatever that evicts
    monkeypatch.undo()
    check(world, pristine / "cache", right, variant=3)


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
