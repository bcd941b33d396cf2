import os
import stat
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, blob_path, make_result

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.model.digest import digest_bytes
from gpubuild.model.step import ActionResult

OTHER_KEY = digest_bytes(b"another key")


@pytest.fixture
def result(store: DiskStore, tmp_path: Path) -> ActionResult:
    """What ``store`` has under KEY."""
    result, files = make_result(tmp_path / "out")
    assert store.publish(KEY, result, files)
    return result


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_published_is_found_by_another_store(store: DiskStore, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    assert store.lookup(KEY) is None
    assert store.publish(KEY, result, files)
    store.close()

    with closing(DiskStore(tmp_path / "cache")) as again:
        assert again.lookup(KEY) == result
        assert again.lookup(OTHER_KEY) is None
        for blob in result.blobs:
            assert again.fetch(blob, tmp_path / "build" / blob.name)
            assert (tmp_path / "build" / blob.name).read_bytes() == CONTENT[blob.name]
        assert again.warnings == ()
        assert sorted(p.name for p in (tmp_path / "build").iterdir()) == sorted(CONTENT)


def test_fetch_replaces_what_is_there_and_sets_the_mode(
    store: DiskStore, result: ActionResult, tmp_path: Path
) -> None:
    destination = tmp_path / "old"
    destination.write_text("old")
    destination.chmod(0o400)
    old = os.umask(0o077)
    try:
        for blob in result.blobs:
            assert store.fetch(blob, destination)
            assert destination.read_bytes() == CONTENT[blob.name]
            assert mode(destination) == (0o755 if blob.executable else 0o644)
    finally:
        os.umask(old)


def test_an_edited_build_output_does_not_reach_the_cache(
    store: DiskStore, result: ActionResult, tmp_path: Path
) -> None:
    blob = result.blobs[0]
    assert store.fetch(blob, tmp_path / "copy")
    with (tmp_path / "copy").open("ab") as stream:
        stream.write(b"edited")
    assert store.fetch(blob, tmp_path / "second")
    assert (tmp_path / "second").read_bytes() == CONTENT[blob.name]


@pytest.mark.parametrize("own", [False, True])
def test_only_the_owner_can_read_the_cache(tmp_path: Path, own: bool) -> None:
    """Unless it lies in a folder that the user made: that keeps its mode."""
    directory = tmp_path / "cache"
    if own:
        directory.mkdir(mode=0o755)
    with closing(DiskStore(directory)) as store:
        assert store.publish(KEY, *make_result(tmp_path / "out"))
    assert mode(directory) == (0o755 if own else 0o700)
    for path in directory.rglob("*"):
        if path.is_dir():
            assert mode(path) == 0o700, path
    assert mode(blob_path(directory, CONTENT["asm"])) == 0o444
    tag = (directory / "CACHEDIR.TAG").read_bytes()
    assert tag.startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


@pytest.mark.parametrize("known", [False, True])
def test_a_file_that_changed_is_not_stored(store: DiskStore, tmp_path: Path, known: bool) -> None:
    result, files = make_result(tmp_path / "out")
    if known:
        assert store.publish(OTHER_KEY, result, files)
    files["asm"].write_bytes(b"edited while the step ran")
    assert not store.publish(KEY, result, files)
    assert store.lookup(KEY) is None
    assert "changed before it was stored" in store.warnings[0]
    files["object"].unlink()
    assert not store.publish(KEY, result, files)


@pytest.mark.parametrize("key", ["", "../../x", "A" * 64, "a" * 63, "a" * 63 + "\n"])
def test_what_is_not_a_digest_is_a_miss(store: DiskStore, tmp_path: Path, key) -> None:
    result, files = make_result(tmp_path / "out")
    assert store.lookup(key) is None
    assert not store.publish(key, result, files)
    assert not store.fetch(replace(result.blobs[0], digest=key), tmp_path / "copy")


def test_equal_outputs_are_stored_once_and_counted(store: DiskStore, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out", {"a": b"same", "b": b"same", "c": b"other"})
    assert store.publish(KEY, result, files)
    assert store.publish(OTHER_KEY, result, files)
    stats = store.stats()
    assert (stats.records, stats.blobs, stats.size_bytes) == (2, 2, 9)
    assert (stats.reclaimable_bytes, stats.quarantined) == (0, 0)
    for key in (KEY, OTHER_KEY, OTHER_KEY):
        store.discard(key)
        assert store.lookup(key) is None
    assert store.stats().reclaimable_bytes == 9
    assert store.publish(KEY, ActionResult(blobs=()), {})
    assert store.lookup(KEY) == ActionResult(blobs=()), "a result without outputs"


def test_clear_deletes_only_what_is_ours(store: DiskStore, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    store.publish(KEY, result, files)
    directory = tmp_path / "cache"
    (directory / "cas" / "thesis.txt").write_text("mine")
    (directory / "notes").mkdir()
    (directory / "notes" / "more.txt").write_text("mine")
    (directory / "tmp" / "left-over").write_bytes(b"12345")
    assert store.clear() == sum(map(len, CONTENT.values())) + 5
    assert store.lookup(KEY) is None
    assert store.stats().blobs == 0
    assert (directory / "cas" / "thesis.txt").exists()
    assert (directory / "notes" / "more.txt").exists()
    assert store.publish(KEY, result, files)


def test_a_read_only_store_serves_and_does_not_write(store: DiskStore, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    store.publish(KEY, result, files)
    store.close()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*")}
    with closing(DiskStore(tmp_path / "cache", read_only=True)) as reader:
        assert reader.lookup(KEY) == result
        assert reader.fetch(result.blobs[1], tmp_path / "copy")
        assert not reader.publish(OTHER_KEY, result, files)
        assert reader.lookup(OTHER_KEY) is None
        reader.discard(KEY)
        assert reader.clear() == 0
        assert reader.stats().records == 1
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "cache").rglob("*")} == before


def test_a_folder_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    directory = tmp_path / os.fsdecode(b"pr\xff")
    result, files = make_result(tmp_path / "out")
    with closing(DiskStore(directory)) as store:
        assert store.publish(KEY, result, files)
        assert store.identity
    with closing(DiskStore(directory, read_only=True)) as reader:
        assert reader.lookup(KEY) == result
        assert reader.warnings == ()


def test_a_folder_whose_content_cannot_be_asked_for_is_not_used(tmp_path: Path) -> None:
    """Asking leads to an error other than that nothing is there, as in a folder that may not be entered."""
    with closing(DiskStore(tmp_path / ("x" * 300))) as opened:
        assert opened.lookup(digest_bytes(b"anything")) is None
    assert [w for w in opened.warnings if "cannot open its index: File name too long" in w]
