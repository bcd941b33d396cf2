import gc
import os
import signal
import time
from pathlib import Path

import pytest

from gpubuild.errors import StepError
from gpubuild.execute import workdir
from gpubuild.execute.workdir import WorkArea


def test_folders_are_empty_private_and_different(tmp_path: Path) -> None:
    area = WorkArea(tmp_path / "private" / "work")
    assert not (tmp_path / "private").exists(), "nothing is made before it is needed"
    one, two = area.new(), area.new()
    assert one != two
    assert list(one.iterdir()) == list(two.iterdir()) == []
    assert one.stat().st_mode & 0o777 == 0o700
    (one / "out").mkdir()
    (one / "out" / "file").write_text("x")
    area.release(one)
    area.release(one)
    assert not one.exists() and two.exists()


def test_a_folder_is_used_again_without_its_files(tmp_path: Path) -> None:
    area = WorkArea(tmp_path / "work")
    first = area.new()
    for name in ("out", "tmp"):
        (first / name).mkdir()
        (first / name / "file").write_text("x")
    for name in ("stage", "log", "other"):
        (first / name).write_text("x")
    area.reuse(first)
    assert area.new() == first
    assert sorted(path.name for path in first.rglob("*")) == ["log", "out", "stage", "tmp"]
    assert (first / "stage").read_text() == (first / "log").read_text() == ""
    assert area.new() != first


@pytest.mark.parametrize("left", ["other", "tmp/deeper", "out/tmp"])
def test_a_folder_with_other_subfolders_is_not_used_again(tmp_path: Path, left: str) -> None:
    area = WorkArea(tmp_path / "work")
    first = area.new()
    for name in ("out", "tmp", left):
        (first / name).mkdir()
    area.reuse(first)
    assert not first.exists()
    assert area.new() != first


def test_a_link_in_a_folder_to_use_again_is_not_followed(tmp_path: Path) -> None:
    area = WorkArea(tmp_path / "work")
    first = area.new()
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "file").write_text("x")
    (first / "tmp").symlink_to(tmp_path / "user")
    (first / "log").symlink_to(tmp_path / "user" / "file")
    area.reuse(first)
    assert (tmp_path / "user" / "file").read_text() == "x"
    assert area.new() == first and list(first.iterdir()) == []


def test_nothing_is_left_when_a_session_ends(tmp_path: Path) -> None:
    area = WorkArea(tmp_path / "work")
    area.new()
    del area
    gc.collect()
    assert list((tmp_path / "work").iterdir()) == []


def killed_session(directory: Path) -> Path:
    """The folder of a session whose process was killed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        area = WorkArea(directory)
        folder = area.new()
        (folder / "half").write_text("half")
        os.write(write, str(folder).encode())
        time.sleep(60)
        os._exit(0)
    os.close(write)
    folder = Path(os.read(read, 4096).decode())
    os.close(read)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return folder


def test_a_killed_session_is_swept_and_a_living_one_is_not(tmp_path: Path) -> None:
    living = WorkArea(tmp_path / "work")
    kept = living.new()
    left = killed_session(tmp_path / "work")
    assert left.exists()
    (tmp_path / "work" / "folder-of-an-older-version").mkdir()
    area = WorkArea(tmp_path / "work")
    mine = area.new()
    assert not left.exists()
    assert kept.exists() and mine.exists()
    assert sorted(p.name for p in (tmp_path / "work").iterdir() if p.is_dir()) == sorted(
        [kept.parent.name, mine.parent.name]
    )


def test_a_fork_that_ends_does_not_take_the_folder_along(tmp_path: Path) -> None:
    area = WorkArea(tmp_path / "work")
    folder = area.new()
    pid = os.fork()
    if pid == 0:
        del area
        gc.collect()
        os._exit(0)
    os.waitpid(pid, 0)
    assert folder.exists()


def test_where_there_are_no_locks_age_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workdir, "try_lock", lambda handle: None)
    for name, age in (("1-old", 2 * 86400), ("2-new", 0)):
        (tmp_path / "work" / name).mkdir(parents=True)
        lock = tmp_path / "work" / (name + ".lock")
        lock.touch()
        os.utime(lock, (time.time() - age,) * 2)
    WorkArea(tmp_path / "work").new()
    assert not (tmp_path / "work" / "1-old").exists()
    assert (tmp_path / "work" / "2-new").exists()


def test_a_lock_stolen_by_a_sweeper_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, stolen = workdir.try_lock, []

    def steal(handle: int) -> bool | None:
        if not stolen:
            stolen.append(str(Path(f"/proc/self/fd/{handle}").readlink()))
            Path(stolen[0]).unlink()
        return real(handle)

    monkeypatch.setattr(workdir, "try_lock", steal)
    area = WorkArea(tmp_path / "work")
    session = area.new().parent
    assert session.with_name(session.name + ".lock").exists()
    assert not stolen[0].startswith(str(session))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("in the way")
    with pytest.raises(StepError, match="working folder"):
        WorkArea(tmp_path / "work").new()
