"""File digests: what is believed of a file whose stat data are unchanged."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpubuild.build.file_digests import FileDigests
from gpubuild.model.digest import digest_bytes
from gpubuild.support import file_stamp

TICK = 0.04


@pytest.fixture(autouse=True)
def short_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stamp, "RACY_NS", int(TICK * 1e9 / 2))


def settled_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    time.sleep(TICK)
    return path


def next_process(files: FileDigests) -> FileDigests:
    later = FileDigests()
    later.load(files.dump())
    return later


def test_a_settled_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = settled_file(tmp_path / "a", b"one")
    files = FileDigests()
    assert files.digest(path) == digest_bytes(b"one")
    later = next_process(files)
    monkeypatch.setattr("gpubuild.build.file_digests.digest_file", lambda _: pytest.fail("read again"))
    assert later.digest(path) == digest_bytes(b"one")


def test_a_fresh_file_is_read_again_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    files = FileDigests()
    files.digest(path)
    entry = files.known(path)
    assert entry is not None
    path.write_bytes(b"two")
    dump = {str(path): [list(file_stamp.stat_of(path)), entry[1], entry[2]]}  # as if within one tick
    later = FileDigests()
    later.load(dump)
    assert later.digest(path) == digest_bytes(b"two")


def test_an_old_time_of_modification_proves_nothing_when_the_change_time_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``cp -p``, ``tar x`` and the like set old times on files they have just written."""
    monkeypatch.setattr(file_stamp, "RACY_NS", 3_600_000_000_000)  # however slow this machine is
    path = tmp_path / "a"
    path.write_bytes(b"one")
    os.utime(path, ns=(0, 0))
    files = FileDigests()
    files.digest(path)
    entry = files.known(path)
    assert entry is not None
    assert not file_stamp.is_settled(entry[0], entry[1])


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_that_was_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    right = time.time_ns
    path = settled_file(tmp_path / "a", b"one")
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time_ns", lambda: right() + hours * 3600 * 10**9)
        files = FileDigests()
        files.digest(path)
    path.write_bytes(b"two")
    assert next_process(files).digest(path) == digest_bytes(b"two")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert FileDigests().digest(tmp_path / "pipe") is None


def test_what_cannot_be_read_has_no_digest(tmp_path: Path) -> None:
    files = FileDigests()
    assert files.digest(tmp_path / "absent") is None
    assert files.digest(tmp_path) is None
    files.note(tmp_path / "absent", digest_bytes(b""))
    assert files.known(tmp_path / "absent") is None
