import gzip
import io
import json
import os
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, blob_path, make_result

from gpubuild.cache.local.archive import _header, export_archive, import_archive
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.errors import UsageError
from gpubuild.model.digest import digest_bytes

OTHER_KEY = digest_bytes(b"another key")


@pytest.fixture
def store(store: DiskStore, tmp_path: Path) -> DiskStore:
    assert store.publish(KEY, *make_result(tmp_path / "out"))
    other = {"object": b"other" * 300, "asm": CONTENT["asm"]}
    assert store.publish(OTHER_KEY, *make_result(tmp_path / "out2", other))
    return store


def complete(directory: Path, scratch: Path, *, other: bool = True) -> None:
    with closing(DiskStore(directory)) as reader:
        assert reader.lookup(KEY) == make_result(scratch / "expected")[0]
        assert (reader.lookup(OTHER_KEY) is not None) == other
        for blob in reader.lookup(KEY).blobs:
            assert reader.fetch(blob, scratch / "copy")
            assert (scratch / "copy").read_bytes() == CONTENT[blob.name]


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz"])
def test_there_and_back(store: DiskStore, tmp_path: Path, name: str) -> None:
    done = export_archive(store, tmp_path / name, None)
    assert (done.records, done.blobs, done.missing) == (2, 4, 0)
    with closing(DiskStore(tmp_path / "second")) as target:
        taken = import_archive(target, tmp_path / name)
    assert (taken.records, taken.blobs, taken.problems) == (2, 4, ())
    assert taken.size_bytes == done.size_bytes
    complete(tmp_path / "second", tmp_path)
    with closing(DiskStore(tmp_path / "second")) as again:
        assert import_archive(again, tmp_path / name).size_bytes == 0, (
            "existing results are not imported again"
        )


def test_only_what_was_asked_for(store: DiskStore, tmp_path: Path) -> None:
    assert export_archive(store, tmp_path / "a.tar", {KEY}).records == 1
    with closing(DiskStore(tmp_path / "second")) as target:
        import_archive(target, tmp_path / "a.tar")
    complete(tmp_path / "second", tmp_path, other=False)


def test_results_that_are_gone_are_counted(store: DiskStore, tmp_path: Path) -> None:
    blob_path(tmp_path / "cache", CONTENT["object"]).unlink()
    done = export_archive(store, tmp_path / "a.tar", [KEY, OTHER_KEY, digest_bytes(b"x")])
    assert (done.records, done.missing) == (1, 2)


def test_equal_content_gives_equal_bytes(store: DiskStore, tmp_path: Path) -> None:
    for name in ("a.tar", "a.tar.gz"):
        export_archive(store, tmp_path / name, None)
        first = (tmp_path / name).read_bytes()
        os.utime(blob_path(tmp_path / "cache", CONTENT["asm"]), (1, 1))
        export_archive(store, tmp_path / name, None)
        assert (tmp_path / name).read_bytes() == first


def test_tar_can_list_it(store: DiskStore, tmp_path: Path) -> None:
    export_archive(store, tmp_path / "a.tar", None)
    with tarfile.open(tmp_path / "a.tar") as tar:
        names = tar.getnames()
        assert names[0] == "manifest.json" and len(names) == 5
        assert tar.extractfile(f"cas/{digest_bytes(CONTENT['object'])}").read() == CONTENT["object"]


def test_a_damaged_cache_is_not_exported(store: DiskStore, tmp_path: Path) -> None:
    path = blob_path(tmp_path / "cache", CONTENT["object"])
    path.chmod(0o644)
    path.write_bytes(bytes(256))
    with pytest.raises(UsageError, match="damaged"):
        export_archive(store, tmp_path / "a.tar", None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "out", "out2"]


def test_a_place_that_cannot_be_written(store: DiskStore, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        export_archive(store, tmp_path / "nowhere" / "a.tar", None)
    with pytest.raises(UsageError, match="cannot read"):
        import_archive(store, tmp_path / "nowhere" / "a.tar")


# --- archives from strangers ---


@pytest.fixture
def archive(store: DiskStore, tmp_path: Path) -> bytes:
    export_archive(store, tmp_path / "good.tar", None)
    return (tmp_path / "good.tar").read_bytes()


def take(data: bytes, tmp_path: Path, **options):
    """Import into a new cache; whatever is served from it afterwards must be right."""
    (tmp_path / "bad.tar").write_bytes(data)
    number = len(list(tmp_path.glob("taken*")))
    with closing(DiskStore(tmp_path / f"taken{number}")) as target:
        done = import_archive(target, tmp_path / "bad.tar", **options)
        for key in (KEY, OTHER_KEY):
            found = target.lookup(key)
            for blob in found.blobs if found else ():
                assert target.fetch(blob, tmp_path / "copy")
                assert digest_bytes((tmp_path / "copy").read_bytes()) == blob.digest
        records = target.stats().records
        assert target.stats().quarantined == 0
    assert records == done.records
    assert not list((tmp_path / f"taken{number}" / "tmp").iterdir())
    return done


def test_every_truncation_of_the_small_parts(archive: bytes, tmp_path: Path) -> None:
    lengths = {*range(0, 600, 11), *range(600, len(archive) - 1024, 97), len(archive) - 1025}
    for length in sorted(lengths):
        done = take(archive[:length], tmp_path)
        assert done.problems
        assert done.records < 2 or length > len(archive) - 2048


def test_a_flipped_bit_anywhere(archive: bytes, tmp_path: Path) -> None:
    for n, position in enumerate([*range(0, 600, 7), *range(600, len(archive) - 1024, 103)]):
        bad = bytearray(archive)
        bad[position] ^= 1 << n % 8
        take(bytes(bad), tmp_path)


def members(archive: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [(m.name, tar.extractfile(m).read()) for m in tar]


def pack(parts: list[tuple[str, bytes]]) -> bytes:
    out = b"".join(_header(name, len(data)) + data + bytes(-len(data) % 512) for name, data in parts)
    return out + bytes(1024)


@pytest.mark.parametrize(
    "name",
    ["../../evil", "/etc/cron.d/evil", "cas/../../evil", "cas/" + "0" * 64, "evil", "cas/", "index/cache.db"],
)
def test_a_file_that_does_not_belong(archive: bytes, tmp_path: Path, name: str) -> None:
    parts = members(archive)
    done = take(pack([parts[0], (name, b"evil"), *parts[1:]]), tmp_path)
    assert done.records == 0
    assert "does not mention" in done.problems[0]
    assert not list(tmp_path.rglob("evil"))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, b"x", b"L"]
)
def test_links_and_extensions_are_refused(archive: bytes, tmp_path: Path, kind: bytes) -> None:
    info = tarfile.TarInfo(f"cas/{digest_bytes(CONTENT['object'])}")
    info.type, info.linkname = kind, "/etc/passwd"
    parts = members(archive)
    done = take(pack(parts[:1])[:-1024] + info.tobuf(tarfile.USTAR_FORMAT) + bytes(1024), tmp_path)
    assert done.records == 0
    assert "header" in done.problems[0]


def test_a_file_twice(archive: bytes, tmp_path: Path) -> None:
    parts = members(archive)
    done = take(pack([*parts[:2], parts[1], *parts[2:]]), tmp_path)
    assert "not in order" in done.problems[0]


def test_wrong_content_is_not_taken(archive: bytes, tmp_path: Path) -> None:
    parts = [
        (n, bytes(len(d)) if n.endswith(digest_bytes(CONTENT["object"])) else d) for n, d in members(archive)
    ]
    done = take(pack(parts), tmp_path)
    assert done.records == 1, "the other result is good"
    assert len(done.problems) == 2 and "is damaged" in done.problems[0]


def test_more_than_the_limit(archive: bytes, tmp_path: Path) -> None:
    done = take(archive, tmp_path, limit_bytes=1000)
    assert done.records == done.blobs == 0
    assert "more than the limit" in done.problems[0]


def test_a_compressed_bomb(archive: bytes, tmp_path: Path) -> None:
    """Zeros after the end are not read; a manifest of zeros is refused by its length."""
    assert take(gzip.compress(archive + bytes(50 << 20)), tmp_path).records == 2
    bomb = gzip.compress(_header("manifest.json", 300 << 20) + bytes(50 << 20))
    assert "too large" in take(bomb, tmp_path).problems[0]


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "gpubuild.archive/9"},
        {"records": []},
        {"records": {KEY: "no record"}},
        {"records": {KEY: 7}},
    ],
)
def test_a_manifest_that_cannot_be(archive: bytes, tmp_path: Path, change: dict) -> None:
    parts = members(archive)
    manifest = json.dumps({**json.loads(parts[0][1]), **change}).encode()
    done = take(pack([("manifest.json", manifest), *parts[1:]]), tmp_path)
    assert done.records == 0 and done.problems
