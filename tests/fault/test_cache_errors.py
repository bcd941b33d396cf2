"""Failing system calls: every method of the store returns, with one warning per cause."""

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, make_result

from gpubuild.cache.local import index
from gpubuild.cache.local.blobs import DestinationError
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.model.digest import digest_bytes

CALLS = ("open", "write", "fsync", "replace", "mkdir", "read", "fchmod", "lstat")
OTHER_KEY = digest_bytes(b"another key")


@contextmanager
def failing(call: str, code: int, after: int = 0, below: Path | None = None) -> Iterator[list[int]]:
    """``os.call`` fails, from the ``after``-th time on; yields a list that counts the failures.

    With ``below`` only for files in that folder.
    """
    real = getattr(os, call)
    calls, failed = [0], [0]

    def concerned(argument: object) -> bool:
        if isinstance(argument, int) and not isinstance(argument, bool) and argument > 2:
            with suppress(OSError):
                return below in Path(f"/proc/self/fd/{argument}").readlink().parents
        return isinstance(argument, str | Path) and below in (Path(argument), *Path(argument).parents)

    def fake(*args, **kwargs):
        if below is None or any(map(concerned, args[:2])):
            calls[0] += 1
            if calls[0] > after:
                failed[0] += 1
                raise OSError(code, os.strerror(code), args[0] if isinstance(args[0], str) else None)
        return real(*args, **kwargs)

    setattr(os, call, fake)
    try:
        yield failed
    finally:
        setattr(os, call, real)


@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO], ids=errno.errorcode.get
)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_during_publish(tmp_path: Path, call: str, code: int) -> None:
    """Failing from the first, second, … call on, until publish gets through."""
    result, files = make_result(tmp_path / "out")
    for after in range(40):
        with closing(DiskStore(tmp_path / str(after))) as store:
            with failing(call, code, after) as failed:
                stored = store.publish(KEY, result, files)
                found = store.lookup(KEY)
            assert found in (None, result)
            assert len(store.warnings) <= 2, store.warnings
            assert stored or store.warnings, "a result that is not stored must be reported"
        with closing(DiskStore(tmp_path / str(after))) as fresh:
            again = fresh.lookup(KEY)
            assert again in (None, result)
            assert again == result or not stored
            for blob in again.blobs if again else ():
                assert fresh.fetch(blob, tmp_path / "copy")
                assert (tmp_path / "copy").read_bytes() == CONTENT[blob.name]
            assert fresh.publish(OTHER_KEY, result, files), (
                "the fault is gone, but the store does not recover"
            )
            assert fresh.warnings == ()
        if not failed[0]:
            return
    pytest.fail("publish never got through")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EIO], ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["open", "read", "write", "replace", "mkdir", "fchmod", "lstat"])
def test_a_call_that_fails_during_a_hit(tmp_path: Path, call: str, code: int) -> None:
    result, files = make_result(tmp_path / "out")
    with closing(DiskStore(tmp_path / "cache")) as store:
        assert store.publish(KEY, result, files)
        (tmp_path / "build").mkdir()
        for after in range(20):
            (tmp_path / "build" / "object").write_bytes(b"old")
            with failing(call, code, after) as failed:
                found, fetched = store.lookup(KEY), False
                with suppress(DestinationError):
                    fetched = found is not None and store.fetch(found.blobs[1], tmp_path / "build" / "object")
            assert (tmp_path / "build" / "object").read_bytes() == (CONTENT["object"] if fetched else b"old")
            assert len(store.warnings) <= 2
            assert sorted(p.name for p in (tmp_path / "build").iterdir()) == ["object"]
            if not failed[0]:
                break
        assert store.stats().quarantined == 0, "an unreadable blob is not a bad blob"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    with closing(DiskStore(tmp_path / "cache")) as store:
        store.lookup(KEY)
        with failing("write", errno.ENOSPC):
            assert not store.publish(KEY, result, files)
        assert list((tmp_path / "cache" / "tmp").iterdir()) == []
        assert store.publish(KEY, result, files)


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sqlite3.Connection]:
    """A client of the index of a cache with one result; for its locks nobody waits long."""
    monkeypatch.setattr(index, "_BUSY_SECONDS", 0.05)
    with closing(DiskStore(tmp_path / "cache")) as store:
        assert store.publish(KEY, *make_result(tmp_path / "out"))
    with closing(sqlite3.connect(tmp_path / "cache/index/cache.db", isolation_level=None)) as connection:
        yield connection


def test_an_index_locked_by_a_dead_client(holder: sqlite3.Connection, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    holder.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with closing(DiskStore(tmp_path / "cache")) as reader:
            assert reader.lookup(KEY) == result
            assert not reader.publish(OTHER_KEY, result, files)
            assert len(reader.warnings) == 1 and "locked" in reader.warnings[0]
    holder.execute("ROLLBACK")
    with closing(DiskStore(tmp_path / "cache")) as after:
        assert after.publish(OTHER_KEY, result, files)
        assert after.stats().records == 2


def test_an_index_locked_by_a_client_that_works(tmp_path: Path, holder: sqlite3.Connection) -> None:
    """All that others stored is still in the database's journal."""
    result, files = make_result(tmp_path / "out")
    with closing(DiskStore(tmp_path / "cache")) as other:
        assert other.publish(OTHER_KEY, result, files)
        holder.execute("BEGIN IMMEDIATE")
        with closing(DiskStore(tmp_path / "cache")) as reader:
            assert reader.lookup(OTHER_KEY) == result
            (warning,) = reader.warnings
    assert "locked" in warning


def test_an_index_that_becomes_locked_costs_one_wait(holder: sqlite3.Connection, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    with closing(DiskStore(tmp_path / "cache")) as store:
        assert store.lookup(KEY) == result
        holder.execute("BEGIN IMMEDIATE")
        assert not store.publish(OTHER_KEY, result, files)
        holder.execute("ROLLBACK")
        assert not store.publish(OTHER_KEY, result, files), "writing is given up, not tried again and again"
        assert store.lookup(KEY) == result
        assert len(store.warnings) == 1
