"""The remote cache against a real nginx, as docs/how-to/ci.md sets it up."""

import base64
import shutil
import stat
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, blob_path, make_result, noise, open_tiered
from unit.cache.servers import LOCATION, NGINX, nginx

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.remote.http import TimeLimits
from gpubuild.cache.remote.store import RemoteStore
from gpubuild.cache.remote.tiered import TieredStore
from gpubuild.model.digest import digest_bytes
from gpubuild.model.project import RemoteMode

pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)")

OTHER_KEY = digest_bytes(b"another key")
TEXT = b"  mov.u32 %r1, %tid.x;\n" * 2000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address, and the folder in which nginx keeps what it is given."""
    folder = tmp_path_factory.mktemp("nginx") / "server"
    with nginx(folder) as url:
        yield url, folder / "srv" / "gpubuild"


@pytest.fixture
def url(server: tuple[str, Path], tmp_path: Path) -> str:
    """A cache of the test's own."""
    return f"{server[0]}/{tmp_path.name}"


@pytest.fixture
def content(server: tuple[str, Path], tmp_path: Path) -> Path:
    """Where nginx keeps what is sent to ``url``."""
    return server[1] / tmp_path.name


def fill(url: str, folder: Path, content: dict[str, bytes] = CONTENT, *, damage: bytes = b""):
    """Store a result at ``url`` and in ``folder/first``, where the blob ``damage`` is spoiled then."""
    result, files = make_result(folder / "out", content)
    with closing(open_tiered(folder / "first", url)) as store:
        assert store.publish(KEY, result, files)
    assert store.warnings == ()
    if damage:
        path = blob_path(folder / "first", damage)
        path.chmod(0o644)
        path.write_bytes(bytes(len(damage)))
    return result, files


def test_one_machine_stores_and_another_finds(url: str, tmp_path: Path) -> None:
    result, _ = fill(url, tmp_path)
    with closing(open_tiered(tmp_path / "second", url)) as store:
        assert store.lookup(OTHER_KEY) is None
        assert store.lookup(KEY) == result
        assert store.is_remote(KEY) and not store.is_remote(OTHER_KEY)
        for blob in result.blobs:
            assert store.fetch(blob, tmp_path / "build" / blob.name)
            assert (tmp_path / "build" / blob.name).read_bytes() == CONTENT[blob.name]
        assert stat.S_IMODE((tmp_path / "build" / "object").stat().st_mode) == 0o755
    assert store.warnings == ()

    with closing(DiskStore(tmp_path / "second")) as alone:
        assert alone.lookup(KEY) == result, "what came from afar is kept here"
        assert alone.fetch(result.blobs[1], tmp_path / "copy")
    with closing(open_tiered(tmp_path / "second", url)) as again:
        again.anticipate([KEY])  # what is here is not asked for
        assert again.lookup(KEY) == result and not again.is_remote(KEY)


def test_a_glance_moves_nothing(url: str, tmp_path: Path) -> None:
    result, _ = fill(url, tmp_path)
    with closing(open_tiered(tmp_path / "second", url)) as store:
        assert store.peek(KEY) == result and store.is_remote(KEY)
        assert store.peek(OTHER_KEY) is None
        assert store._local.stats().blobs == store._local.stats().records == 0
        assert store.lookup(KEY) == store.peek(KEY) == result, "here by now"
        assert store._local.stats().blobs == len({blob.digest for blob in result.blobs})
    assert store.warnings == ()


def test_many_at_once(url: str, tmp_path: Path) -> None:
    keys = {digest_bytes(b"%d" % n): {"object": noise(3000, n), "shared": TEXT} for n in range(60)}
    with closing(open_tiered(tmp_path / "first", url)) as first:
        for n, (key, content) in enumerate(keys.items()):
            first.publish(key, *make_result(tmp_path / f"out{n}", content))
    assert first.warnings == ()
    with closing(open_tiered(tmp_path / "second", url)) as second:
        second.anticipate([*keys, OTHER_KEY])
        assert second.lookup(OTHER_KEY) is None
        for key, content in keys.items():
            found = second.lookup(key)
            assert found is not None and second.is_remote(key)
            for blob in found.blobs:
                assert second.fetch(blob, tmp_path / "copy")
                assert (tmp_path / "copy").read_bytes() == content[blob.name]
    assert second.warnings == ()


def test_text_is_stored_compressed_under_the_digest_of_what_is_stored(
    url: str, content: Path, tmp_path: Path
) -> None:
    random = noise(20_000)
    result, _ = fill(url, tmp_path, {"text": TEXT, "noise": random})
    files = {path.name: path.read_bytes() for path in (content / "cas").iterdir()}
    assert sorted(files) == sorted(digest_bytes(data) for data in files.values())
    assert random in files.values()
    assert [zlib.decompress(data) for data in files.values() if data != random] == [TEXT]
    assert sum(map(len, files.values())) < 22_000
    with closing(open_tiered(tmp_path / "second", url)) as store:
        assert store.lookup(KEY) == result
        assert store.fetch(result.blobs[0], tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == TEXT


def test_read_only_sends_nothing(url: str, content: Path, tmp_path: Path) -> None:
    with closing(open_tiered(tmp_path / "first", url, mode=RemoteMode.READ_ONLY)) as store:
        store.publish(KEY, *make_result(tmp_path / "out"))
    assert not content.exists()
    result, _ = fill(url, tmp_path)
    with closing(open_tiered(tmp_path / "second", url, mode=RemoteMode.READ_ONLY)) as reader:
        assert reader.lookup(KEY) == result


def test_write_only_asks_nothing(url: str, tmp_path: Path) -> None:
    fill(url, tmp_path)
    with closing(open_tiered(tmp_path / "second", url, mode=RemoteMode.WRITE_ONLY)) as store:
        assert not store.has_remote
        assert store.lookup(KEY) is None
        store.publish(OTHER_KEY, *make_result(tmp_path / "out"))
    with closing(open_tiered(tmp_path / "third", url)) as reader:
        assert reader.lookup(OTHER_KEY) is not None


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "flip": lambda data: bytes([*data[:40], data[40] ^ 4, *data[41:]]),
    "cut": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "other": lambda data: b"x" * len(data),
}


@pytest.mark.parametrize("damage", [*DAMAGE, "gone"])
@pytest.mark.parametrize("name", ["text", "noise"])
def test_a_blob_that_is_not_what_it_was(
    url: str, content: Path, tmp_path: Path, damage: str, name: str
) -> None:
    """A miss, and what is built instead repairs the server."""
    made = {"text": TEXT, "noise": noise(5000)}
    result, files = fill(url, tmp_path, made)
    as_it_is = content / "cas" / digest_bytes(made["noise"])  # the other one is compressed
    (path,) = (p for p in (content / "cas").iterdir() if (p == as_it_is) == (name == "noise"))
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with closing(open_tiered(tmp_path / "second", url)) as store:
        assert store.lookup(KEY) is None
        assert len(store.warnings) == (0 if damage == "gone" else 1)
        store.publish(KEY, result, files)
    with closing(open_tiered(tmp_path / "third", url)) as reader:
        assert reader.lookup(KEY) == result
        for blob in result.blobs:
            assert reader.fetch(blob, tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == made[blob.name]


def test_a_local_cache_that_cannot_be_written(url: str, tmp_path: Path) -> None:
    """Results then come straight from afar, every time."""
    result, _ = fill(url, tmp_path)
    (tmp_path / "file").write_text("in the way")
    with closing(open_tiered(tmp_path / "file" / "cache", url)) as store:
        assert store.lookup(KEY) == result
        for blob in result.blobs:
            assert store.fetch(blob, tmp_path / "build" / blob.name)
            assert (tmp_path / "build" / blob.name).read_bytes() == CONTENT[blob.name]
        assert 1 <= len(store.warnings) <= 2
        assert not store.publish(OTHER_KEY, *make_result(tmp_path / "out"))
    with closing(open_tiered(tmp_path / "third", url)) as reader:
        assert reader.lookup(OTHER_KEY) is not None, "it was sent all the same"


def test_a_file_that_changed_before_it_was_sent(url: str, content: Path, tmp_path: Path) -> None:
    big = noise(700_000)
    result, files = make_result(tmp_path / "out", {"object": big})
    files["object"].write_bytes(big[:-1] + bytes([big[-1] ^ 1]))
    remote = RemoteStore(url)
    assert not remote.send(KEY, result, lambda blob: files[blob.name])
    assert "changed" in remote.warnings[0]
    remote.close()
    assert not (content / "ac" / KEY).exists()
    assert not list((content / "cas").iterdir()) if (content / "cas").exists() else True


def test_a_blob_that_was_received_is_not_sent_again(url: str, content: Path, tmp_path: Path) -> None:
    result, files = fill(url, tmp_path)
    remote = RemoteStore(url)
    record = remote.find(KEY)
    blob = result.blobs[0]
    assert record is not None
    received: list[bytes] = []
    assert remote.receive(blob, record.stored[blob.digest], received.extend)
    assert b"".join(received) == CONTENT[blob.name]
    shutil.rmtree(content / "cas")
    assert remote.send_blob(blob, files[blob.name]) == record.stored[blob.digest]
    assert not (content / "cas").exists()
    remote.close()


def test_a_result_with_files_of_this_machine_stays_here(url: str, content: Path, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    with closing(open_tiered(tmp_path / "first", url)) as store:
        assert store.publish(KEY, replace(result, discovered=(("/usr/include/stdio.h", OTHER_KEY),)), files)
    assert not content.exists()


def test_a_discarded_result_is_not_asked_for_again(url: str, tmp_path: Path) -> None:
    fill(url, tmp_path)
    with closing(open_tiered(tmp_path / "second", url)) as store:
        assert store.lookup(KEY) is not None
        store.discard(KEY)
        assert store.lookup(KEY) is None


def test_a_blob_evicted_here_comes_from_the_server(url: str, tmp_path: Path) -> None:
    result, _ = fill(url, tmp_path)
    with closing(open_tiered(tmp_path / "second", url)) as store:
        assert store.lookup(KEY) is not None
        blob_path(tmp_path / "second", CONTENT["asm"]).unlink()
        assert store.fetch(result.blobs[0], tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == CONTENT["asm"]


@pytest.mark.parametrize("mode", [RemoteMode.READ_WRITE, RemoteMode.READ_ONLY])
def test_a_blob_damaged_here_is_repaired_from_the_server(url: str, tmp_path: Path, mode: RemoteMode) -> None:
    result, _ = fill(url, tmp_path, damage=CONTENT["object"])
    with closing(open_tiered(tmp_path / "first", url, mode=mode)) as store:
        assert store.lookup(KEY) == result and not store.is_remote(KEY)
        for blob in result.blobs:
            assert store.fetch(blob, tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == CONTENT[blob.name]
        assert store.is_remote(KEY)
    assert len(store.warnings) == 1 and "set aside" in store.warnings[0]
    with closing(DiskStore(tmp_path / "first")) as alone:
        assert alone.lookup(KEY) == result
        assert all(alone.fetch(blob, tmp_path / "copy") for blob in result.blobs)
    assert alone.warnings == ()


@pytest.mark.parametrize("here", ["writable", "read-only"])
@pytest.mark.parametrize("there", ["gone", "damaged", "not asked"])
def test_a_blob_damaged_here_that_cannot_be_repaired(
    url: str, content: Path, tmp_path: Path, there: str, here: str
) -> None:
    result, _ = fill(url, tmp_path, damage=CONTENT["object"])
    match there:
        case "gone":
            (content / "ac" / KEY).unlink()
        case "damaged":
            (content / "cas" / result.blobs[1].digest).write_bytes(bytes(256))
    mode = RemoteMode.WRITE_ONLY if there == "not asked" else RemoteMode.READ_ONLY
    remote = RemoteStore(url, mode=mode, limits=TimeLimits(back_off=0.0))
    with closing(TieredStore(DiskStore(tmp_path / "first", read_only=here == "read-only"), remote)) as store:
        assert store.lookup(KEY) == result
        assert not store.fetch(result.blobs[1], tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
        store.discard(KEY)
        assert store.lookup(KEY) is None


def test_credentials(tmp_path: Path) -> None:
    guarded = LOCATION.replace(
        "dav_methods", f"auth_basic cache;\n      auth_basic_user_file {tmp_path}/users;\n      dav_methods"
    )
    (tmp_path / "users").write_text("ci:{PLAIN}s3cret word\n")
    right = "Basic " + base64.b64encode(b"ci:s3cret word").decode()
    with nginx(tmp_path / "server", guarded) as url:
        for authorization, works in ((right, True), ("Basic d3Jvbmc6d3Jvbmc=", False), ("", False)):
            one, two = (tmp_path / f"{name}{len(authorization)}" for name in ("cache", "reader"))
            with closing(open_tiered(one, url, authorization=authorization)) as store:
                store.publish(KEY, *make_result(tmp_path / "out"))
            with closing(open_tiered(two, url, authorization=authorization)) as reader:
                assert (reader.lookup(KEY) is not None) == works
                assert reader.has_remote == works
            assert (reader.warnings == ()) == works
            assert works or "401" in reader.warnings[0]
            assert "s3cret" not in str(reader.warnings)
