"""Receipts: the quick answer is right whenever it is given. Each test is a way to get it wrong."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest
from unit.build.receipt_world import TICK, World, keep_times, settled_world

from gpubuild.build import null_build
from gpubuild.errors import InterruptedBuildError
from gpubuild.model.job import Job, JobResult
from gpubuild.model.step import StepKind
from gpubuild.support import file_stamp


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return settled_world(tmp_path, monkeypatch)


def test_a_finished_build_is_proven(world: World) -> None:
    assert not world.proven()
    report = world.build()
    assert world.proven()
    found = world.receipt()
    assert found is not None
    assert found.steps == len(report.steps)
    assert found.programs == [["app", str(world.root / "build/app/app")]]
    assert [s[0] for s in found.show()["steps"]] == [s.id for s in report.steps]


def test_another_request_is_not(world: World) -> None:
    world.build()
    assert not world.proven("cpu")
    found = world.receipt()
    assert found is not None
    assert not found.proves(world.request("cpu"))
    world.build(targets=("cpu",))
    assert world.proven("cpu")


@pytest.mark.parametrize("name", ["targets.yaml", "app.mlir", "main.c", "inc/x.h"])
def test_an_edited_input(world: World, name: str) -> None:
    world.good_build()
    path = world.root / name
    keep_times(path, path.read_bytes().swapcase() + b" ")
    assert not world.proven()


@pytest.mark.parametrize("name", ["targets.yaml", "app.mlir", "inc/x.h"])
def test_an_input_edited_to_the_same_size_with_its_time_kept(world: World, name: str) -> None:
    world.good_build()
    path = world.root / name
    data = path.read_bytes()
    keep_times(path, bytes([data[0] ^ 1]) + data[1:])
    assert not world.proven()


@pytest.mark.parametrize("name", ["targets.yaml", "app.mlir", "main.c", "inc/x.h"])
def test_an_input_edited_within_the_same_tick(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Stat data are as they were: only reading tells, so fresh files must be read."""
    monkeypatch.setattr(file_stamp, "RACY_NS", 3_600_000_000_000)
    monkeypatch.setattr(world.tools, "evidence", lambda: (set(), set()))
    world.project  # noqa: B018
    world.build()
    assert world.proven()
    path = world.root / name
    data = path.read_bytes()
    path.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    found = world.receipt()
    assert found is not None
    known = null_build._unpack(found._check["files"])
    known[str(path)] = (file_stamp.stat_of(path), 0, known[str(path)][2])
    found._check["files"] = null_build.pack_files(known)
    assert not found.proves(world.request())


def test_a_file_from_the_future_is_read_every_time(world: World) -> None:
    tomorrow = time.time_ns() + 24 * 3600 * 10**9
    os.utime(world.root / "app.mlir", ns=(tomorrow, tomorrow))
    world.build()
    for _ in range(2):
        found = world.receipt()
        assert found is not None
        assert str(world.root / "app.mlir") in found._check["doubtful"]
        assert found.proves(world.request())


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_set_wrong_for_a_whole_build(
    world: World, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    right = time.time_ns
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time_ns", lambda: right() + hours * 3600 * 10**9)
        world.build()
    world.proven()
    (world.root / "app.mlir").write_text("k two\n")
    assert not world.proven()
    world.build()
    assert world.proven()


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_clock_set_during_a_build(world: World, monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    right = time.time_ns

    def jump() -> None:
        monkeypatch.setattr(time, "time_ns", lambda: right() + hours * 3600 * 10**9)

    world.during = jump
    world.build()
    assert world.receipt() is None


def test_touched_files_are_read_once(world: World) -> None:
    world.build()
    os.utime(world.root / "app.mlir")
    os.utime(world.root / "build/app/app")
    time.sleep(TICK)
    found = world.receipt()
    assert found is not None
    assert len(list(null_build._changed(found._check["files"]))) == 2
    assert found.proves(world.request())
    renewed = world.receipt()
    assert renewed is not None
    assert not list(null_build._changed(renewed._check["files"]))
    assert not renewed._check["doubtful"]
    assert renewed.show() == found.show()


@pytest.mark.parametrize("damage", ["delete", "edit", "same size", "replace", "chmod", "folder"])
@pytest.mark.parametrize("name", ["app/app", "app/k.sm_60.cubin", ".gpubuild/sources/app.mlir/index.json"])
def test_a_damaged_output(world: World, name: str, damage: str) -> None:
    world.good_build()
    path = world.root / "build" / name
    data = path.read_bytes()
    match damage:
        case "delete":
            path.unlink()
        case "edit":
            path.write_bytes(data + b"x")
        case "same size":
            keep_times(path, bytes([data[0] ^ 1]) + data[1:])
        case "replace":
            other = path.with_name("other")
            other.write_bytes(bytes([data[0] ^ 1]) + data[1:])
            shutil.copystat(path, other)
            other.replace(path)
        case "chmod":
            if name != "app/app":
                return
            path.chmod(0o644)
        case "folder":
            path.unlink()
            path.mkdir()
            assert not world.proven()
            path.rmdir()
    assert not world.proven()
    world.build()
    assert path.read_bytes() == data
    assert world.proven()


def test_an_input_edited_while_building(world: World) -> None:
    """Some step may have read the old file and a later one the new: nothing is certain."""
    original = world.run

    def edit_then_run(job: Job) -> JobResult:
        done = original(job)
        if job.kind is StepKind.OUTLINE:
            (world.root / "app.mlir").write_text("k two\n")
        return done

    world.engine = edit_then_run
    world.build()
    assert not world.proven()


def test_an_interrupted_build_in_between(world: World) -> None:
    world.good_build()
    (world.root / "app.mlir").write_text("k two\n")
    original = world.engine

    def interrupted(job: Job) -> JobResult:
        if job.kind is StepKind.LINK:
            raise KeyboardInterrupt
        return original(job)

    world.engine = interrupted
    with pytest.raises(InterruptedBuildError):
        world.build()
    assert not world.proven()
    (world.root / "app.mlir").write_text("k one\n")  # as the receipt knew it; the outputs are not
    assert not world.proven()


def test_a_failed_build_leaves_no_receipt(world: World) -> None:
    (world.root / "app.mlir").write_text("syntax error\n")
    world.build()
    assert world.receipt() is None


def test_a_truncated_or_damaged_receipt_proves_nothing(world: World) -> None:
    world.good_build()
    path = Path(null_build.path_for(world.request()))
    for whole in (null_build.dumps({"steps": 1}, {"steps": [["app/link"]]}), path.read_bytes()):
        for position in range(0, len(whole), max(len(whole) // 100, 1)):
            path.write_bytes(whole[:position])
            assert null_build.read(str(path)) is None
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
            assert null_build.read(str(path)) is None


def test_a_receipt_does_not_outlive_a_change_of_the_others(world: World) -> None:
    world.build()
    world.build(targets=("cpu",))
    (world.root / "app.mlir").write_text("k two\n")
    time.sleep(TICK)
    world.build()
    assert [p.name for p in Path(null_build.folder_of(str(world.root / "build"))).iterdir()] == [
        Path(null_build.path_for(world.request())).name
    ]


def test_warnings_are_kept(world: World) -> None:
    world.warnings = ("main.c is odd",)
    world.build()
    found = world.receipt()
    assert found is not None
    assert found.warnings == ["main.c is odd"]


def test_a_folder_that_cannot_be_written_costs_time_only(world: World) -> None:
    world.build()
    folder = Path(null_build.folder_of(str(world.root / "build")))
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert world.build().ok
    assert not world.proven()


def test_every_path_survives(tmp_path: Path) -> None:
    odd = {f"{tmp_path}/{name}": ((1, 2, 3, 4), 5, "") for name in ("a b", "ü", "n\nl", "\udc80", '"')}
    packed = json.loads(json.dumps(null_build.pack_files(odd)))
    assert set(null_build._unpack(packed)) == set(odd)
