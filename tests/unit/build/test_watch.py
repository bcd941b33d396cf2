"""Watching: what counts as changed, and when."""

from dataclasses import replace
from pathlib import Path

import pytest
from unit.projects import make_program, make_project

from gpubuild.build.include_scan import surroundings_digest
from gpubuild.build.state import BuildState, StepRecord
from gpubuild.build.watch import (
    Stat,
    around_build,
    baseline,
    changes,
    configured_files,
    folders_in,
    look,
    read_by_build,
    settle,
)
from gpubuild.errors import UsageError
from gpubuild.model.digest import digest_bytes, digest_file
from gpubuild.model.project import HostOptions, Project
from gpubuild.model.step import ActionResult
from gpubuild.plan.layout import Layout
from gpubuild.plan.sources import SourcePlanner


def test_every_kind_of_change(tmp_path: Path) -> None:
    same, edited, gone, new, replaced = (tmp_path / n for n in ("same", "edited", "gone", "new", "replaced"))
    for path in (same, edited, gone, replaced):
        path.write_text("1")
    seen = look([same, edited, gone, new, replaced, tmp_path / "never"])
    assert changes(seen) == []
    edited.write_text("22")
    gone.unlink()
    new.write_text("1")
    (tmp_path / "other").write_text("1")  # as editors save: under another name, then renamed
    (tmp_path / "other").replace(replaced)
    assert changes(seen) == [edited, gone, new, replaced]


def test_a_file_saved_during_a_build_counts(tmp_path: Path) -> None:
    early, header = tmp_path / "early", tmp_path / "header.h"
    early.write_text("1")
    header.write_text("1")
    before = look([early])
    read = {early: look([early])[early], header: look([header])[header]}
    early.write_text("22")  # after the look, while the build ran: the build may have read either
    read[early] = look([early])[early]
    seen = baseline(before, [early], read)
    assert changes(seen) == [early]
    header.write_text("22")  # after this build had read it for the first time
    assert changes(seen) == [early, header]
    # What earlier builds had read starts nothing: an entry of the state that is out of date.
    assert changes(baseline(look([early]), [], {early: (0, 0, 0, 0)})) == []


def test_named_and_read_files(tmp_path: Path) -> None:
    file = tmp_path / "targets.yaml"
    project_files = configured_files(file, _refuse)
    assert project_files == [file]
    (tmp_path / "src/deep").mkdir(parents=True)
    matched = replace(make_project(tmp_path), patterns=((str(tmp_path), "src/**/*.mlir", ()),))
    assert {tmp_path / "src", tmp_path / "src/deep"} <= set(configured_files(file, lambda: matched))
    layout = Layout(root=tmp_path, build_dir=tmp_path / "build")
    state = BuildState(layout.state_file, tmp_path)
    (tmp_path / "a.mlir").write_text("1")
    layout.program_dir("app").mkdir(parents=True)
    (layout.program_dir("app") / "host.o").write_text("1")
    state.files.digest(tmp_path / "a.mlir")
    state.files.digest(layout.program_dir("app") / "host.o")
    state.save()
    assert read_by_build(layout) == look([tmp_path / "a.mlir"])


def _refuse() -> Project:
    raise UsageError("broken")


@pytest.mark.parametrize("writes", [0, 3, 1000])
def test_it_waits_until_nothing_moves_but_not_for_ever(tmp_path: Path, writes: int) -> None:
    path = tmp_path / "a"
    path.write_text("")
    seen = look([path])
    path.write_text("1")
    slept = 0

    def sleep(seconds: float) -> None:
        nonlocal slept
        slept += 1
        if slept <= writes:
            path.write_text("1" * (slept + 2))

    assert settle(seen, sleep, clock=lambda: slept * 0.1) == [path]
    assert slept == min(writes + 1, 20)
    assert settle(look([path]), lambda _: None) == [], "changed and back again"


def test_after_a_failure_folders_are_watched_for_what_was_missing(tmp_path: Path) -> None:
    for folder in ("inc/deep", "build/p", "kept", ".git/x"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "kept/CACHEDIR.TAG").touch()
    folders = folders_in(tmp_path, tmp_path / "build")
    assert folders == [tmp_path, tmp_path / "inc", tmp_path / "inc/deep"]
    seen = look(folders)
    for name in (".main.c.swp", "main.c~", "4913", "#main.c#", "build/p/p"):
        (tmp_path / name).touch()  # editors' own, and the build's
    assert changes(seen) == []
    (tmp_path / "inc/deep/a.h").touch()
    assert changes(seen) == [tmp_path / "inc/deep"]
    (tmp_path / "inc/deep/a.h").rename(tmp_path / "inc/deep/b.h")
    assert changes(look(folders)) == []
    (tmp_path / "new").mkdir()
    assert changes(seen) == [tmp_path, tmp_path / "inc/deep"]


class Built:
    """A C source in ``src`` that includes ``inc/a.h`` by a folder of ``host: include:``, built."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("src", "first", "inc"):
            (root / folder).mkdir()
        (root / "src/main.c").write_text('#include "a.h"\n')
        (root / "inc/a.h").write_text("1")
        host = HostOptions(include=("first", "inc"))
        program = replace(make_program(root, "app", "src/main.c"), host=host, link_flags=("-L/none", "-lfoo"))
        self.project: Project = make_project(root, program)
        self.layout = Layout(root=root, build_dir=root / "build")
        self.build()

    def build(self) -> None:
        planner = SourcePlanner(project=self.project, layout=self.layout, triple="")
        (step,) = planner.scan_steps(tuple(self.project.programs.values())).values()
        header = self.root / "inc/a.h"
        result = ActionResult(blobs=(), discovered=((str(header), digest_file(header)),))
        self.state = BuildState(self.layout.state_file, self.root)
        found = surroundings_digest(step, result, self.root)
        record = StepRecord(key=digest_bytes(b"key"), parts={}, result=result, around=found)
        self.state.remember(step.id, record)
        self.state.save()

    def look(self, *, ok: bool = True) -> dict[Path, "Stat | None"]:
        return around_build(self.layout, self.project, ok=ok)


def test_a_header_that_would_hide_another_one(tmp_path: Path) -> None:
    built = Built(tmp_path)
    seen = built.look()
    assert Path("/none/libfoo.so") in seen, "a library that would be found first"
    assert changes(seen) == []
    for folder in ("src", "first"):
        hiding = tmp_path / folder / "a.h"
        hiding.write_text("2")
        assert changes(seen) == [hiding]
        hiding.unlink()
    (tmp_path / "first/b.h").write_text("nothing asks for it")
    assert changes(seen) == []


def test_a_header_that_only_a_worker_has_read(tmp_path: Path) -> None:
    header = tmp_path / "inc/a.h"
    seen = read_by_build(Built(tmp_path).layout)
    assert seen == look([header])
    header.write_text("22")
    assert changes(seen) == [header]


def test_one_that_came_while_a_build_ran(tmp_path: Path) -> None:
    """It is built once more; after a build that failed, which may fail again, it waits."""
    built = Built(tmp_path)
    hiding = tmp_path / "first/a.h"
    hiding.write_text("2")
    assert changes(built.look()) == [hiding]
    assert changes(built.look(ok=False)) == []
    built.build()
    assert changes(built.look()) == []
