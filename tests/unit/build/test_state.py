"""The build state: what is believed of files, what survives saving, and what damage does."""

import errno
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpubuild.build import null_build
from gpubuild.build.state import BuildState, FileDigests, Origin, StepRecord
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.step import ActionResult, Blob
from gpubuild.support import file_stamp

TICK = 0.04


@pytest.fixture(autouse=True)
def short_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stamp, "RACY_NS", int(TICK * 1e9 / 2))


def settled_file(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    time.sleep(TICK)
    return path


def record(*, discovered: tuple[tuple[str, Digest], ...] = ()) -> StepRecord:
    return StepRecord(
        key=digest_bytes(b"key"),
        parts={"tool ptxas": "f" * 64, "input module": digest_bytes(b"m"), "option x": "1"},
        result=ActionResult(
            blobs=(Blob(name="object", digest=digest_bytes(b"o"), size_bytes=1, executable=True),),
            discovered=discovered,
            warnings=("odd",),
            seconds=1.5,
        ),
        why="option x changed: 0 → 1",
        before={"option x": "0"},
    )


def filled(path: Path) -> BuildState:
    state = BuildState(path, path.parent)
    state.remember("a", record())
    state.note_version("f" * 64, "12.9")
    state.note_version("e" * 64, "no step has it any more")
    text = path.with_name("m.mlir")
    text.write_text("module {\n  gpu.func @k() {\n    gpu.return\n  }\n}\n")
    state.note_text(digest_bytes(b"m"), text)
    state.note_text(digest_bytes(b"x"), text)
    state.note_text(digest_bytes(b"y"), path.with_name("absent"))
    state.save()
    return state


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    state = filled(tmp_path / "state.json")
    again = BuildState(tmp_path / "state.json", tmp_path)
    assert again.record("a") == state.record("a") == record()
    assert again.version("f" * 64) == "12.9"
    assert again.version("e" * 64) == ""
    assert again.summary(digest_bytes(b"m")) == state.summary(digest_bytes(b"m"))
    assert again.summary(digest_bytes(b"m"))
    assert again.summary(digest_bytes(b"x")) is None


@pytest.mark.parametrize(
    ("header", "kept"), [("one/inc/x.h", True), ("beside.h", False), ("/usr/include/stdio.h", True)]
)
def test_a_copied_project_watches_its_own_headers(tmp_path: Path, header: str, kept: bool) -> None:
    first, second = tmp_path / "one", tmp_path / "two"
    first.mkdir()
    state = BuildState(first / "state.json", first)
    found = (str(tmp_path / header), digest_bytes(b"1"))
    state.remember("preprocess/main.c", record(discovered=(found,)))
    state.remember("a", record())
    state.save()
    same = BuildState(first / "state.json", first).record("preprocess/main.c")
    assert same.result.discovered == (found,)
    shutil.copytree(first, second)
    moved = BuildState(second / "state.json", second)
    assert moved.record("a") is not None
    there = moved.record("preprocess/main.c")
    assert (there is not None) == kept
    if there is not None:
        assert there.result.discovered[0][0] == str(tmp_path / header.replace("one/", "two/"))


@pytest.mark.parametrize("file", ["state", "receipt"])
def test_a_full_disk_keeps_no_half_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    state = filled(tmp_path / "state")
    state.forget("a")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(Path, "replace", full)
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        state.save() if file == "state" else null_build.write(str(tmp_path / "receipt"), b"r")
    assert sorted(tmp_path.iterdir()) == before


def test_what_a_step_was_part_of_moves_with_the_project(tmp_path: Path) -> None:
    def origin(root: Path) -> Origin:
        outputs = (str(root / "build/app/app"), "/x/y")
        return Origin(file=str(root / "targets.yaml"), program="app", outputs=outputs)

    (tmp_path / "p").mkdir()
    state = BuildState(tmp_path / "p/state.json", tmp_path / "p")
    state.remember("a", replace(record(), origin=origin(tmp_path / "p"), kept_in="1234"))
    state.save()
    (tmp_path / "p").rename(tmp_path / "q")
    again = BuildState(tmp_path / "q/state.json", tmp_path / "q").record("a")
    assert (again.kept_in, again.origin) == ("1234", origin(tmp_path / "q"))


def next_process(files: FileDigests) -> FileDigests:
    later = FileDigests()
    later.load(files.dump())
    return later


def test_a_settled_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = settled_file(tmp_path / "a", b"one")
    files = FileDigests()
    assert files.digest(path) == digest_bytes(b"one")
    later = next_process(files)
    monkeypatch.setattr("gpubuild.build.state.digest_file", lambda _: pytest.fail("read again"))
    assert later.digest(path) == digest_bytes(b"one")


def test_a_fresh_file_is_read_again_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one")
    files = FileDigests()
    files.digest(path)
    entry = files.known(path)
    path.write_bytes(b"two")
    dump = {str(path): [list(file_stamp.stat_of(path)), entry[1], entry[2]]}  # as if within one tick
    later = FileDigests()
    later.load(dump)
    assert later.digest(path) == digest_bytes(b"two")


def test_stat_data_prove_the_content_of_a_settled_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = settled_file(tmp_path / "a", b"one")
    files = FileDigests()
    digest = digest_bytes(b"one")
    assert files.proof(path, digest) is None, "not read yet"
    files.digest(path)
    assert files.proof(path, digest) == file_stamp.stat_of(path)
    assert files.proof(path, digest_bytes(b"two")) is None
    monkeypatch.setattr(file_stamp, "RACY_NS", 3_600_000_000_000)
    assert files.proof(path, digest) is None


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
    assert not file_stamp.is_settled(entry[0], entry[1])


def test_what_cannot_be_read_has_no_digest(tmp_path: Path) -> None:
    files = FileDigests()
    assert files.digest(tmp_path / "absent") is None
    assert files.digest(tmp_path) is None
    os.mkfifo(tmp_path / "pipe")
    assert files.digest(tmp_path / "pipe") is None, "it is not waited for"
    files.note(tmp_path / "absent", digest_bytes(b""))
    assert files.known(tmp_path / "absent") is None
