"""Lock: one build at a time, also when `clean` deletes the lock file while others wait."""

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest
from unit.projects import make_program, make_project

from gpubuild.build.lock import build_lock
from gpubuild.build.opening import open_builder
from gpubuild.cli.main import main
from gpubuild.errors import UsageError
from gpubuild.model.events import BuildWarning, Event, Silent
from gpubuild.model.project import BuildOptions
from gpubuild.plan.layout import Layout
from gpubuild.settings import Settings


class Told:
    def __init__(self) -> None:
        self.messages: list[str] = []

    def on_event(self, event: Event) -> None:
        assert isinstance(event, BuildWarning)
        self.messages.append(event.message)


def layout_of(root: Path) -> Layout:
    return Layout(root=root, build_dir=root / "build")


def is_held(layout: Layout) -> bool:
    """Whether a newcomer would have to wait."""
    descriptor = os.open(layout.lock_file, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def wait_until_told(told: Told) -> None:
    for _ in range(12_000):
        if told.messages:
            return
        time.sleep(0.01)
    raise AssertionError("no build waits")


@pytest.mark.parametrize("replaced", [False, True])
def test_a_lock_file_that_goes_while_another_build_waits(tmp_path: Path, replaced: bool) -> None:
    """Whoever waited holds the file that is there now, not the one that was deleted."""
    layout, told = layout_of(tmp_path), Told()
    held = threading.Event()
    done = threading.Event()

    def wait() -> None:
        with build_lock(layout, told):
            held.set()
            done.wait(120)

    with build_lock(layout, Silent()):
        waiting = threading.Thread(target=wait)
        waiting.start()
        wait_until_told(told)
        layout.lock_file.unlink()
        if replaced:
            layout.lock_file.touch()
        else:
            layout.private.rmdir()
    try:
        assert held.wait(120)
        assert is_held(layout)
    finally:
        done.set()
        waiting.join()
    assert len(told.messages) == 1, "said once"


def test_builds_that_wait_for_a_clean_do_not_overlap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    layout = layout_of(tmp_path)
    inside: list[int] = []
    overlaps: list[int] = []

    def work() -> None:
        for _ in range(30):
            with build_lock(layout, Silent()):
                inside.append(1)
                overlaps.append(len(inside))
                (layout.private / "made").write_text("")
                time.sleep(0.0005)
                assert (layout.private / "made").exists(), "clean removed what a running build has made"
                inside.pop()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        main(["clean", "-q"])
    for worker in workers:
        worker.join()
    assert overlaps == [1] * 90


@pytest.mark.parametrize("lock", ["file in the way", "link"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, lock: str) -> None:
    """And a lock file that is a link, which is not followed."""
    layout = layout_of(tmp_path)
    if lock == "link":
        layout.private.mkdir(parents=True)
        layout.lock_file.symlink_to(tmp_path / "elsewhere")
    else:
        layout.build_dir.write_text("in the way")
    with pytest.raises(UsageError, match="cannot use the build folder"), build_lock(layout, Silent()):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_a_build_follows_no_link_in_its_folder(tmp_path: Path) -> None:
    """It would delete what a folder of its own name leads to, as left over by a build that died."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/precious").write_text("mine")
    layout = layout_of(tmp_path)
    layout.private.mkdir(parents=True)
    (layout.private / "work").symlink_to(tmp_path / "elsewhere")
    (layout.private / "builds.jsonl").symlink_to(tmp_path / "elsewhere/precious")
    (tmp_path / "main.c").write_text("#error no")
    project = make_project(tmp_path, make_program(tmp_path, "app", "main.c"))
    options = BuildOptions(build_dir=layout.build_dir, use_cache=False)
    with open_builder(project, Settings.from_environ(), options, threads=False) as builder:
        assert not builder.build().ok
    assert (tmp_path / "elsewhere/precious").read_text() == "mine"
    assert (layout.private / "builds.jsonl").read_text()
