"""Several processes, some of them killed, around one cache."""

import os
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import Counted
from unit.cache.samples import KEY, make_result

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.folder import locked
from gpubuild.cache.local.upkeep import collect
from gpubuild.model.digest import Digest, digest_bytes


def in_child(work: Callable[[], None]) -> int:
    """Fork; the child does ``work`` and exits 0, or 1 after printing a traceback."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def exit_status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def number(n: int) -> tuple[Digest, dict[str, bytes]]:
    """The n-th key and its content; neighbours share a blob."""
    return digest_bytes(b"key %d" % n), {"own": b"own %d" % n * 1000, "shared": b"%d" % (n // 3) * 500}


def assert_whole(directory: Path, scratch: Path, keys: int) -> int:
    """Every record that is there can be fetched, with the right bytes; how many there are."""
    with closing(DiskStore(directory)) as store:
        hits = 0
        for n in range(keys):
            key, content = number(n)
            found = store.lookup(key)
            if found is None:
                continue
            hits += 1
            for blob in found.blobs:
                assert store.fetch(blob, scratch / "copy")
                assert (scratch / "copy").read_bytes() == content[blob.name]
        assert store.warnings == ()
    return hits


def publish_all(directory: Path, scratch: Path, keys: int) -> None:
    with closing(DiskStore(directory)) as store:
        for n in range(keys):
            key, content = number(n)
            store.publish(key, *make_result(scratch / str(os.getpid()), content))
        assert store.warnings == (), store.warnings


def test_killed_at_every_system_call_of_a_publication(tmp_path: Path, counted: Counted) -> None:
    import gpubuild.cache.local.index  # noqa: F401  # so that children need not import it

    def publish_until(after: int) -> None:
        left = after

        def deadly(real):
            def call(*args, **kwargs):
                nonlocal left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **kwargs)

            return call

        for name in ("open", "write", "fsync", "replace", "mkdir", "fchmod", "close", "unlink"):
            setattr(os, name, deadly(getattr(os, name)))
        publish_all(tmp_path / "cache", tmp_path, 2)

    for after in range(200):
        status = exit_status(in_child(lambda after=after: publish_until(after)))
        hits = assert_whole(tmp_path / "cache", tmp_path, 2)
        if status == 0:
            assert hits == 2
            break
        assert status == -signal.SIGKILL
    counted("publications killed, one at each of their system calls", after, at_least=10)


def test_what_killed_processes_left_is_swept(tmp_path: Path) -> None:
    with closing(DiskStore(tmp_path / "cache")) as store:
        store.publish(KEY, *make_result(tmp_path / "out"))
        for name, age in (("old", 2 * 86400), ("new", 0)):
            path = tmp_path / "cache" / "tmp" / name
            path.write_bytes(b"half")
            os.utime(path, (time.time() - age,) * 2)
        collect(store)
        assert [p.name for p in (tmp_path / "cache" / "tmp").iterdir()] == ["new"]


def test_eight_find_a_corrupt_index_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    publish_all(directory, tmp_path, 3)
    (directory / "index" / "cache.db").write_bytes(b"x" * 8192)

    def publish(n: int) -> None:
        key, content = number(n)
        with closing(DiskStore(directory)) as store:
            assert store.publish(key, *make_result(tmp_path / f"out{n}", content)), store.warnings

    children = [in_child(lambda n=n: publish(n)) for n in range(8)]
    assert [exit_status(pid) for pid in children] == [0] * 8
    assert assert_whole(directory, tmp_path, 8) == 8
    assert len(list((directory / "quarantine").iterdir())) == 1


def test_an_index_is_not_opened_while_it_is_replaced(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    publish_all(directory, tmp_path, 1)
    publisher = threading.Thread(target=publish_all, args=(directory, tmp_path, 2))
    with locked(directory / "lock", wait_seconds=0):
        publisher.start()
        publisher.join(0.5)
        (directory / "index").rename(directory / "quarantine" / "index")
        (directory / "index").mkdir()
    publisher.join()
    assert assert_whole(directory, tmp_path, 2) == 2


@pytest.mark.parametrize("disturb", ["gc", "clear"])
def test_eviction_during_reads_and_publications(tmp_path: Path, disturb: str) -> None:
    directory = tmp_path / "cache"
    publish_all(directory, tmp_path, 12)
    end = time.monotonic() + 0.8

    def read(n: int) -> None:
        with closing(DiskStore(directory)) as store:
            while time.monotonic() < end:
                for number_of_key in range(12):
                    key, content = number(number_of_key)
                    found = store.lookup(key)
                    for blob in found.blobs if found else ():
                        if store.fetch(blob, tmp_path / f"copy{n}"):
                            assert (tmp_path / f"copy{n}").read_bytes() == content[blob.name]
            assert store.warnings == (), store.warnings

    def evict() -> None:
        with closing(DiskStore(directory)) as store:
            while time.monotonic() < end:
                collect(store, max_size_bytes=20_000) if disturb == "gc" else store.clear()

    def publish() -> None:
        while time.monotonic() < end:
            with closing(DiskStore(directory)) as store:
                for n in range(12):
                    key, content = number(n)
                    store.publish(key, *make_result(tmp_path / "publisher", content))

    children = [in_child(lambda: read(0)), in_child(lambda: read(1)), in_child(evict), in_child(publish)]
    assert [exit_status(pid) for pid in children] == [0] * 4
    publish_all(directory, tmp_path, 12)
    assert assert_whole(directory, tmp_path, 12) == 12


def test_blobs_are_durable_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpubuild.cache.local.index import Index

    events: list[str] = []
    real_fsync, real_replace, real_write = os.fsync, os.replace, Index.write

    def fsync(handle: int) -> None:
        name = Path(f"/proc/self/fd/{handle}").readlink().relative_to(tmp_path / "cache").parts[0]
        events.append(f"sync {name}")
        real_fsync(handle)

    def replace(source: str, target: str) -> None:
        real_replace(source, target)  # fails where there is no folder yet
        if Path(target).is_relative_to(tmp_path):  # Python's own libraries rename files, too
            events.append("rename")

    def write(self: Index, key: str, value: bytes) -> None:
        events.append("record")
        real_write(self, key, value)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    monkeypatch.setattr(Index, "write", write)
    with closing(DiskStore(tmp_path / "cache")) as store:
        assert store.lookup(KEY) is None  # makes what a cache consists of
        # A new cache; one that lost the folders of its blobs; one that lost blobs, whose folders' names
        # are durable already.
        for lost, folders in (("", 3), ("*", 3), ("*/*", 2)):
            for path in (tmp_path / "cache" / "cas").glob(lost) if lost else ():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            events.clear()
            assert store.publish(KEY, *make_result(tmp_path / "out", {"one": b"1", "two": b"2"}))
            # Contents, then names, then the folders of the names, then the record.
            assert events == ["sync tmp"] * 2 + ["rename"] * 2 + ["sync cas"] * folders + ["record"], lost
