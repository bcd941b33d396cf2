"""Damage on disk: whatever a file of the cache holds, readers see the exact result or a miss."""

import os
import pickle
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Counted
from fault.far_server import settled
from unit.cache.samples import CONTENT, KEY, blob_path, make_result

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.folder import DamagedIndexError
from gpubuild.model.digest import digest_bytes


@pytest.fixture
def pristine(tmp_path: Path) -> Path:
    """A cache with one result, closed."""
    with closing(DiskStore(tmp_path / "pristine")) as store:
        result, files = make_result(tmp_path / "out")
        assert store.publish(KEY, result, files)
    return tmp_path / "pristine"


def read(directory: Path, scratch: Path) -> bool:
    """Whether the result was served whole; anything but a miss or the exact bytes fails here."""
    store = DiskStore(directory)
    try:
        return settled(store, scratch)
    finally:
        store.close()


def heals(directory: Path, scratch: Path) -> bool:
    """Whether publishing again makes the next reader hit, as a rebuild would."""
    with closing(DiskStore(directory)) as store:
        result, files = make_result(scratch / "again")
        published = store.publish(KEY, result, files)
        assert published, store.warnings
    return read(directory, scratch)


def restore(pristine: Path, directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    return Path(shutil.copytree(pristine, directory))


@pytest.mark.parametrize("name", ["asm", "object"])
def test_every_flipped_bit_of_a_blob(pristine: Path, tmp_path: Path, name: str, counted: Counted) -> None:
    path = blob_path(pristine, CONTENT[name])
    with closing(DiskStore(pristine)) as store:
        blob = next(blob for blob in store.lookup(KEY).blobs if blob.name == name)
        for position in range(len(CONTENT[name]) * 8):
            bad = bytearray(CONTENT[name])
            bad[position // 8] ^= 1 << position % 8
            path.unlink(missing_ok=True)
            path.write_bytes(bad)
            assert not store.fetch(blob, tmp_path / "copy")
            assert not path.exists()
        assert not (tmp_path / "copy").exists()
        assert len(store.warnings) == 1
        assert store.stats().quarantined == len(CONTENT[name]) * 8
    assert heals(pristine, tmp_path)
    counted("bits flipped in a blob: every one there is", len(CONTENT[name]) * 8, at_least=8)


@pytest.mark.parametrize("name", ["asm", "object"])
def test_every_truncation_of_a_blob(pristine: Path, tmp_path: Path, name: str, counted: Counted) -> None:
    path = blob_path(pristine, CONTENT[name])
    with closing(DiskStore(pristine)) as store:
        blob = next(blob for blob in store.lookup(KEY).blobs if blob.name == name)
        for length in range(len(CONTENT[name])):
            path.unlink(missing_ok=True)
            path.write_bytes(CONTENT[name][:length])
            assert store.lookup(KEY) is None
            assert not store.fetch(blob, tmp_path / "copy")
        counted("truncations of a blob: at every byte", len(CONTENT[name]), at_least=1)
    assert heals(pristine, tmp_path)


def test_flipped_bits_of_the_index(pristine: Path, tmp_path: Path, counted: Counted) -> None:
    size = (pristine / "index" / "cache.db").stat().st_size
    hits = 0
    # Every byte of the header, a spread of the others; a different bit each time.
    for n, offset in enumerate([*range(100), *range(100, size, size // 150)]):
        directory = restore(pristine, tmp_path / "cache")
        with (directory / "index" / "cache.db").open("r+b") as stream:
            stream.seek(offset)
            byte = stream.read(1)[0]
            stream.seek(offset)
            stream.write(bytes([byte ^ (1 << n % 8)]))
        hits += read(directory, tmp_path)
        if n % 10 == 0:
            assert heals(directory, tmp_path), offset
    assert hits  # most of a small database is free space
    counted("bits flipped in an index: one in every byte of its header, 150 elsewhere", n + 1, at_least=250)


@pytest.mark.parametrize("damage", ["flipped bit", "another key"])
def test_a_record_that_is_not_its_keys_is_set_aside(pristine: Path, tmp_path: Path, damage: str) -> None:
    key = digest_bytes(b"other") if damage == "another key" else KEY
    if damage == "another key":
        rewrite(pristine, "UPDATE Record SET key = ?", (key,))
    else:
        database = pristine / "index" / "cache.db"
        data = database.read_bytes()
        database.write_bytes(data.replace(b'"slow kernel"', b'"slow kernem"'))
        assert database.read_bytes() != data
    with closing(DiskStore(pristine)) as store:
        assert store.lookup(key) is None
        assert store.lookup(key) is None
        assert len(store.warnings) == 1 and "malformed" in store.warnings[0]
        assert store.stats().quarantined == 1
    assert heals(pristine, tmp_path)


def test_truncations_of_the_index(pristine: Path, tmp_path: Path, counted: Counted) -> None:
    size = (pristine / "index" / "cache.db").stat().st_size
    lengths = sorted({0, 1, 15, 16, 17, 99, 100, 101, *range(0, size, 256)})
    for length in lengths:
        directory = restore(pristine, tmp_path / "cache")
        os.truncate(directory / "index" / "cache.db", length)
        assert not read(directory, tmp_path) or length > size - 4096
        assert heals(directory, tmp_path), length
    counted("truncations of an index", len(lengths), at_least=40)


@pytest.mark.parametrize("what", ["gone", "folder", "fifo", "link", "dangling"])
def test_something_else_in_the_place_of_a_blob(pristine: Path, tmp_path: Path, what: str) -> None:
    path = blob_path(pristine, CONTENT["object"])
    with closing(DiskStore(pristine)) as store:
        blob = store.lookup(KEY).blobs[1]
        path.unlink()
        (tmp_path / "secret").write_bytes(CONTENT["object"])
        match what:
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "link":
                path.symlink_to(tmp_path / "secret")
            case "dangling":
                path.symlink_to(tmp_path / "nowhere")
        assert store.lookup(KEY) is None
        assert what != "gone" or store.warnings == ()  # eviction is no accident
        assert not store.fetch(blob, tmp_path / "copy")
    assert heals(pristine, tmp_path)


@pytest.mark.parametrize("name", ["cas", "tmp", "quarantine", "index", "lock", "CACHEDIR.TAG"])
def test_a_part_of_the_cache_that_is_gone(pristine: Path, tmp_path: Path, name: str) -> None:
    path = pristine / name
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    assert read(pristine, tmp_path) == (name not in ("cas", "index"))
    assert heals(pristine, tmp_path)


@pytest.mark.parametrize("name", ["cas", "tmp", "quarantine", "index", "."])
def test_a_file_in_the_place_of_a_folder(pristine: Path, tmp_path: Path, name: str) -> None:
    shutil.rmtree(pristine / name)
    (pristine / name).resolve().write_text("in the way")
    with closing(DiskStore(pristine)) as store:
        result, files = make_result(tmp_path / "again")
        store.lookup(KEY)
        assert not store.publish(KEY, result, files)
        assert not store.fetch(result.blobs[0], tmp_path / "copy") or name in ("tmp", "quarantine", "index")
        store.stats()
        store.discard(KEY)
        assert 1 <= len(store.warnings) <= 2


def rewrite(directory: Path, statement: str, values: tuple) -> None:
    connection = sqlite3.connect(directory / "index" / "cache.db")
    with connection:
        assert connection.execute(statement, values).rowcount == 1
    connection.close()


class Bomb:
    """Touches a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_a_pickle_in_the_index_is_never_loaded(pristine: Path, tmp_path: Path) -> None:
    bomb = pickle.dumps(Bomb(str(tmp_path / "boom")))
    pickle.loads(bomb).close()
    assert (tmp_path / "boom").exists(), "the bomb works"
    (tmp_path / "boom").unlink()

    rewrite(pristine, "UPDATE Record SET value = ?", (bomb,))
    assert not read(pristine, tmp_path)
    assert heals(pristine, tmp_path)
    rewrite(pristine, "INSERT INTO Record (key, value) VALUES (?, ?)", (bomb, bomb))
    with closing(DiskStore(pristine)) as store:
        assert store.stats().records == 1
    assert not (tmp_path / "boom").exists()


def test_an_index_replaced_by_another_process_is_not_set_aside_again(
    pristine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, first = DiskStore(pristine), DiskStore(pristine)
    assert late.lookup(KEY) and first.lookup(KEY)
    result, files = make_result(tmp_path / "again")

    def damaged(key: str) -> bytes | None:
        raise DamagedIndexError("as if pages were bad")

    for store in (first, late):
        monkeypatch.setattr(store._index, "read", damaged)
        assert store.lookup(KEY) is None
        if store is first:
            assert store.publish(KEY, result, files)
    assert late.lookup(KEY) == result
    assert late.stats().quarantined == 1
    first.close()
    late.close()
