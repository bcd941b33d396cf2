import fcntl
import os
import time
from contextlib import closing
from pathlib import Path

import pytest
from conftest import fill
from unit.cache.samples import CONTENT, KEY, blob_path, make_result

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.folder import read_note, write_note
from gpubuild.cache.local.upkeep import collect, verify
from gpubuild.model.digest import Digest, digest_bytes

DAY = 86400.0


def publish(store: DiskStore, folder: Path, n: int, *, age_days: float = 0.0) -> Digest:
    """A result of 100 bytes, last used a while ago."""
    data = bytes([n]) * 100
    key = digest_bytes(bytes([n]))
    assert store.publish(key, *make_result(folder / f"out{n}", {"object": data}))
    was_used(folder, data, age_days)
    return key


def was_used(folder: Path, data: bytes, days_ago: float) -> None:
    used = time.time() - days_ago * DAY
    os.utime(blob_path(folder / "cache", data), (used, used))


def test_what_was_used_last_stays(store: DiskStore, tmp_path: Path) -> None:
    keys = [publish(store, tmp_path, n, age_days=9 - n) for n in range(4)]
    now = time.time()
    os.utime(blob_path(tmp_path / "cache", bytes([0]) * 100), (now, 0))  # read since
    done = collect(store, max_size_bytes=250)
    assert (done.freed_bytes, done.blobs, done.records, done.kept_bytes) == (200, 2, 2, 200)
    assert [store.lookup(key) is not None for key in keys] == [True, False, False, True]
    assert store.stats().records == 2
    assert collect(store, max_size_bytes=250).freed_bytes == 0
    assert read_note(tmp_path / "cache") == 200


def test_what_was_not_used_for_long_goes(store: DiskStore, tmp_path: Path) -> None:
    old, new = publish(store, tmp_path, 1, age_days=8), publish(store, tmp_path, 2, age_days=6)
    assert collect(store, max_age_seconds=7 * DAY).freed_bytes == 100
    assert store.lookup(old) is None
    assert store.lookup(new) is not None


@pytest.mark.parametrize("first", ["empty", "full"])
def test_empty_files_go_with_their_result(store: DiskStore, tmp_path: Path, first: str) -> None:
    """They free nothing, so that whether they were reached hung on the order of use."""
    store.publish(KEY, *make_result(tmp_path / "out", {"empty": b"", "full": b"data"}))
    was_used(tmp_path, b"" if first == "empty" else b"data", 9)
    collect(store, max_size_bytes=0)
    assert not [path for path in (tmp_path / "cache" / "cas").rglob("*") if path.is_file()]


def test_a_result_goes_with_one_of_its_blobs_and_not_with_those_that_others_need(
    store: DiskStore, tmp_path: Path
) -> None:
    other = digest_bytes(b"other")
    store.publish(KEY, *make_result(tmp_path / "out", {"a": b"old" * 10, "b": b"shared"}))
    store.publish(other, *make_result(tmp_path / "out2", {"b": b"shared"}))
    was_used(tmp_path, b"old" * 10, 9)
    assert collect(store, max_size_bytes=10).records == 1
    assert store.lookup(KEY) is None
    assert store.lookup(other) is not None
    assert store.stats().records == 1
    assert blob_path(tmp_path / "cache", b"shared").exists()


@pytest.mark.parametrize(("age_days", "stays"), [(0.5, True), (2, False)])
def test_a_blob_without_a_record_may_be_one_under_way(
    store: DiskStore, tmp_path: Path, age_days: float, stays: bool
) -> None:
    key = publish(store, tmp_path, 1, age_days=age_days)
    store.discard(key)
    collect(store)
    assert blob_path(tmp_path / "cache", bytes([1]) * 100).exists() == stays


def test_a_blob_used_since_it_was_looked_at_stays(
    store: DiskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, tmp_path, 1, age_days=30)
    real = store.discard

    def discard_while_another_build_publishes(key: Digest) -> None:
        real(key)
        os.utime(blob_path(tmp_path / "cache", bytes([1]) * 100))

    monkeypatch.setattr(store, "discard", discard_while_another_build_publishes)
    collect(store, max_size_bytes=0)
    assert blob_path(tmp_path / "cache", bytes([1]) * 100).exists()


def test_one_process_collects_at_a_time(store: DiskStore, tmp_path: Path) -> None:
    publish(store, tmp_path, 1)
    with (tmp_path / "cache" / "gc.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert collect(store, max_size_bytes=0).busy
        assert store.stats().records == 1
    assert not collect(store, max_size_bytes=0).busy
    assert store.stats().records == 0


def test_a_full_cache_is_reported_when_a_build_ends(tmp_path: Path) -> None:
    calls: list[tuple[Path, int]] = []

    def build(n: int) -> None:
        with closing(
            DiskStore(
                tmp_path / "cache", max_size_bytes=250, on_full=lambda path, size: calls.append((path, size))
            )
        ) as store:
            publish(store, tmp_path, n)
        store.close()

    build(1)
    build(2)
    assert calls == []
    build(3)
    assert calls == [(tmp_path / "cache", 225)]
    with closing(
        DiskStore(tmp_path / "cache", max_size_bytes=250, on_full=lambda *_: pytest.fail("stored nothing"))
    ) as reader:
        assert reader.lookup(digest_bytes(bytes([1])))


@pytest.mark.parametrize("text", [b"", b"x", b"9" * 30, b"-1", b"1\0"])
def test_a_damaged_size_note_leads_to_a_count(tmp_path: Path, text: bytes) -> None:
    with closing(DiskStore(tmp_path / "cache")) as store:
        publish(store, tmp_path, 1)
    assert read_note(tmp_path / "cache") == 100
    (tmp_path / "cache" / "size").write_bytes(text)
    assert read_note(tmp_path / "cache") is None
    publish(store, tmp_path, 2)
    store.close()
    assert read_note(tmp_path / "cache") == 200


def test_a_truncated_size_note(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    write_note(tmp_path, 12345)
    assert read_note(tmp_path) == 12345
    for length in range(len("12345\n")):
        (tmp_path / "size").write_text("12345\n"[:length])
        assert read_note(tmp_path) is None


def test_verify_sets_bad_blobs_aside_and_drops_their_results(store: DiskStore, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    store.publish(KEY, result, files)
    good = publish(store, tmp_path, 1)
    path = blob_path(tmp_path / "cache", CONTENT["object"])
    path.chmod(0o644)
    path.write_bytes(CONTENT["object"][:-1] + b"x")  # same size: look-ups do not notice
    assert store.lookup(KEY) is not None
    found = verify(store)
    assert not found.ok
    assert found.damaged == (digest_bytes(CONTENT["object"]),)
    assert (found.records, found.incomplete) == (1, 1)
    assert store.lookup(KEY) is None
    assert store.lookup(good) is not None
    assert store.stats().quarantined == 1
    assert verify(store).ok
    assert store.publish(KEY, result, files)
    assert store.lookup(KEY) == result


def test_verify_drops_results_that_eviction_left_incomplete(store: DiskStore, tmp_path: Path) -> None:
    store.publish(KEY, *make_result(tmp_path / "out"))
    blob_path(tmp_path / "cache", CONTENT["asm"]).unlink()
    found = verify(store)
    assert found.ok
    assert found.incomplete == 1
    assert store.stats().records == 0


def test_upkeep_of_a_cache_that_is_not_there(tmp_path: Path) -> None:
    store = DiskStore(tmp_path / "cache", read_only=True)
    assert collect(store, max_size_bytes=0).blobs == 0
    assert verify(store).blobs == 0
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("clears", [False, True], ids=["collect", "clear"])
def test_a_full_disk_can_be_made_emptier(small_disk: Path, clears: bool) -> None:
    """SQLite needs room for files beside the database before it can delete a record."""
    with closing(DiskStore(small_disk / "cache")) as store:
        keys = [publish_big(store, small_disk, n) for n in range(4)]
    fill(small_disk)
    with closing(DiskStore(small_disk / "cache")) as store:
        freed = store.clear() if clears else collect(store, max_size_bytes=700_000).freed_bytes
        assert store.warnings == ()
        assert freed == (4 if clears else 3) * 600_000
        assert [store.lookup(key) is not None for key in keys] == [False, False, False, not clears]
        assert store.stats().records == len(list(store.blobs.scan())) == (0 if clears else 1)


def publish_big(store: DiskStore, folder: Path, n: int) -> Digest:
    data, key = bytes([n]) * 600_000, digest_bytes(bytes([n]))
    result, files = make_result(folder / "out", {"object": data})
    assert store.publish(key, result, files)
    was_used(folder, data, 9 - n)
    return key


def test_a_new_cache_on_a_full_disk_is_reported_once(small_disk: Path) -> None:
    fill(small_disk)
    with closing(DiskStore(small_disk / "cache")) as store:
        assert store.lookup(KEY) is None
        assert not store.publish(KEY, *make_result(small_disk.parent / "out"))
        (warning,) = store.warnings
    assert "No space left on device" in warning and "network" not in warning
