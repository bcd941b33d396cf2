"""The record of the last build: its quick answer is right whenever it is given. Tests try to break it."""

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from unit import world as world_module
from unit.fakes import finish_job
from unit.projects import TARGETS
from unit.world import FakeTools, fake_engine

from gpubuild import environment
from gpubuild.build import null_build, state
from gpubuild.build.builder import Builder
from gpubuild.build.null_build_record import Witness
from gpubuild.cli import quick
from gpubuild.errors import InterruptedBuildError
from gpubuild.execute import local
from gpubuild.model.digest import digest_bytes, digest_file
from gpubuild.model.job import Job, JobResult
from gpubuild.model.result import BuildReport
from gpubuild.model.step import StepKind
from gpubuild.support import code_lines, file_stamp

TICK = 0.04  # seconds; more than a tick of any clock these tests meet


class KnownTools(FakeTools):
    """Tools that are the files of a folder; ``optional`` is looked for there, too."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        folder.mkdir()
        (folder / "ptxas").write_bytes(b"one")

    def evidence(self) -> tuple[set[str], set[str]]:
        return {str(self.folder / "ptxas")}, {str(self.folder / "optional")}


class World(world_module.World):
    """A project that is built by a fake engine and asked about by receipts."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.tools = KnownTools(root / "tools")
        self.engine = self.run
        self.during: Callable[[], object] = lambda: None
        self.warnings: tuple[str, ...] = ()
        self.header = root / "inc/x.h"
        (root / "inc").mkdir()
        self.header.write_text("1")
        (root / "targets.yaml").write_text("version: 1")
        time.sleep(TICK)

    def run(self, job: Job) -> JobResult:
        self.during()
        done = fake_engine(job)
        if job.kind is StepKind.OUTLINE:  # of what is no code for it, too
            text = job.inputs[0].path.read_text()
            head = f"{code_lines.MARK}\t{code_lines.describe(text)}\n@k\tapp.mlir:1:1\n"
            (job.workdir / "out/places.txt").write_text(head)
            found = {p.name: p.read_bytes() for p in (job.workdir / "out").iterdir()}
            done = finish_job(job, found)
        if job.kind is StepKind.PREPROCESS:
            header = self.header
            text = (self.root / "main.c").read_bytes() + header.read_bytes()
            done = finish_job(job, {"text": text, "deps": b"[]"})
            found = ((str(header), digest_bytes(header.read_bytes())),)
            done = replace(done, result=replace(done.result, discovered=found, warnings=self.warnings))
        return done

    def builder(self, *arguments: Any, **options: Any) -> Builder:
        config = self.root / "targets.yaml"
        at = time.time_ns()
        known = (file_stamp.stat_of(config), at, digest_bytes(config.read_bytes()))
        witness = Witness({str(config): known})
        builder = super().builder(*arguments, **options)
        builder._witness = witness
        return builder

    def build(self, *arguments: Any, **options: Any) -> BuildReport:
        report = super().build(*arguments, **options)
        (self.root / "build/.gpubuild/lock").touch()
        time.sleep(TICK)
        return report

    def good_build(self) -> None:
        """Build, and see that the receipt is there to be proven wrong."""
        self.build()
        assert self.proven()

    def request(self, *targets: str) -> null_build.Request:
        return null_build.request_of(str(self.root / "targets.yaml"), str(self.root / "build"), [], targets)

    def has_receipt(self, *targets: str) -> bool:
        return null_build.read(null_build.path_for(self.request(*targets))) is not None

    def receipt(self) -> null_build.Receipt:
        found = null_build.read(null_build.path_for(self.request()))
        assert found is not None
        return found

    def proven(self, *targets: str) -> bool:
        found = null_build.read(null_build.path_for(self.request(*targets)))
        return found is not None and found.proves(self.request(*targets))


def other(data: bytes) -> bytes:
    """As many bytes, of which one differs."""
    return bytes([data[0] ^ 1]) + data[1:]


def keep_times(path: Path, change: bytes) -> None:
    """Write ``change`` in place, with the old modification time."""
    old = path.stat()
    path.write_bytes(change)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which a file is settled after half a ``TICK``."""
    monkeypatch.setattr(file_stamp, "RACY_NS", int(TICK * 1e9 / 2))
    return World(tmp_path)


def test_a_finished_build_is_proven(world: World) -> None:
    assert not world.proven()
    report = world.build()
    assert world.proven()
    found = world.receipt()
    assert found.steps == len(report.steps)
    assert found.programs == [["app", str(world.root / "build/app/app")]]
    assert [s[0] for s in found.show()["steps"]] == [s.id for s in report.steps]


def test_another_request_is_not(world: World) -> None:
    world.build()
    assert not world.proven("cpu")
    assert not world.receipt().proves(world.request("cpu"))
    world.build(targets=("cpu",))
    assert world.proven("cpu")


EDITS: dict[str, Callable[[bytes], bytes]] = {
    "to another size": lambda data: data.swapcase() + b" ",
    "to the same size": other,
}


@pytest.mark.parametrize("how", EDITS)
@pytest.mark.parametrize("name", ["targets.yaml", "app.mlir", "main.c", "inc/x.h"])
def test_an_input_edited_with_its_time_kept(world: World, name: str, how: str) -> None:
    world.good_build()
    path = world.root / name
    keep_times(path, EDITS[how](path.read_bytes()))
    found = world.receipt()
    assert not found.proves(world.request())
    assert found.edited == str(path)


def test_the_build_after_a_check_does_not_read_the_edited_source_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.good_build()
    source = world.root / "app.mlir"
    source.write_text("k two\n")
    assert not world.proven()
    read: list[Path] = []
    monkeypatch.setattr(state, "digest_file", lambda path: read.append(path) or digest_file(path))
    assert world.build().ok
    assert source not in read
    assert not null_build.reread
    source.write_text("k six\n")
    assert world.build().ok
    assert source in read


def test_an_edited_source_lets_mlir_be_loaded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    monkeypatch.setattr(local, "start_early", started.append)
    arguments = ["-f", str(world.root / "targets.yaml"), "-j3"]
    world.good_build()
    assert quick.answer(arguments) is not None
    (world.root / "main.c").write_text("int main2;")
    assert quick.answer(arguments) is None and not started
    world.good_build()
    (world.root / "app.mlir").write_text("k two\n")
    assert quick.answer(arguments) is None and started == [3]


def test_an_edited_comment_moves_places_only(world: World) -> None:
    world.good_build()
    source, table = world.root / "app.mlir", world.root / "build/.gpubuild/sources/app.mlir/places.txt"
    old = table.read_text()
    for text in ("// a comment\n\nk one  // here\n", "// b\n\nk one\n", "k one\n"):
        source.write_text(text)
        assert world.proven()
        assert world.proven()  # from the receipt that was written again
        line = 1 + text[: text.index("k")].count("\n")
        assert table.read_text().endswith(f"@k\tapp.mlir:{line}:1\n")
        time.sleep(TICK)
    assert table.read_text() == old
    source.write_text("// a comment\nk two\n")
    assert not world.proven()
    source.write_text("// a comment\nk one\n")
    assert world.proven()


def test_comments_that_could_change_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Debug information has lines, another step reads the source, a warning names a line."""
    source = world.root / "app.mlir"

    def proven(text: str) -> bool:
        world.good_build()
        source.write_text(text)
        proven = world.proven()
        source.write_text("k one\n")
        return proven

    assert proven("// a\nk one\n")
    world.warnings = ("app.mlir:1:1: warning: odd",)
    (world.root / "main.c").write_text("int main2;")
    assert not proven("// b\nk one\n")
    assert world.receipt().warnings == list(world.warnings)
    world.warnings = ()
    (world.root / "main.c").write_text('#include "app.mlir"')
    world.header = source
    assert not proven("// c\nk one\n")
    world.header = world.root / "inc/x.h"
    (world.root / "main.c").write_text("int main3;")
    assert proven("// d\nk one\n")
    debug = {name: replace(target, debug="lines") for name, target in TARGETS.items()}
    monkeypatch.setattr(world, "project", replace(world.project, targets=debug))
    assert not proven("// e\nk one\n")


@pytest.mark.parametrize("trouble", ["another build", "a damaged table", "no table", "no UTF-8"])
def test_an_edited_comment_in_a_folder_that_is_not_as_it_was(world: World, trouble: str) -> None:
    world.good_build()
    (world.root / "app.mlir").write_bytes(b"// a comment \xe4\nk one\n" if "UTF" in trouble else b"\nk one\n")
    table = world.root / "build/.gpubuild/sources/app.mlir/places.txt"
    if trouble == "a damaged table":
        table.write_text(table.read_text().replace(":1:1", ":1:2"))
    elif trouble == "no table":
        table.unlink()
    with (world.root / "build/.gpubuild/lock").open("w") as lock:
        if trouble == "another build":
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert not world.proven()
    if trouble != "no UTF-8":
        assert world.build().ok
        assert world.proven()


@pytest.mark.parametrize("name", ["targets.yaml", "app.mlir", "main.c", "inc/x.h"])
def test_an_input_edited_within_the_same_tick(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Stat data are as they were: only reading tells, so fresh files must be read."""
    monkeypatch.setattr(file_stamp, "RACY_NS", 3_600_000_000_000)
    monkeypatch.setattr(world.tools, "evidence", lambda: (set(), set()))
    world.build()
    assert world.proven()
    path = world.root / name
    path.write_bytes(other(path.read_bytes()))
    found = world.receipt()
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
    assert not world.has_receipt()


def test_touched_files_are_read_once(world: World) -> None:
    world.build()
    os.utime(world.root / "app.mlir")
    os.utime(world.root / "build/app/app")
    time.sleep(TICK)
    found = world.receipt()
    assert len(list(null_build._changed(found._check["files"]))) == 2
    assert found.proves(world.request())
    renewed = world.receipt()
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
            keep_times(path, other(data))
        case "replace":
            new = path.with_name("new")
            new.write_bytes(other(data))
            shutil.copystat(path, new)
            new.replace(path)
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
    """Some step may have read the old file and a later one the new: nothing is certain.

    A build that failed is no better.
    """
    original = world.run

    def edit_then_run(job: Job) -> JobResult:
        done = original(job)
        if job.kind is StepKind.OUTLINE:
            (world.root / "app.mlir").write_text("k two\n")
        return done

    world.engine = edit_then_run
    world.build()
    assert not world.proven()
    world.engine = original
    (world.root / "app.mlir").write_text("syntax error\n")
    world.build()
    assert not world.has_receipt()


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


def test_a_truncated_or_damaged_receipt_proves_nothing(world: World) -> None:
    world.good_build()
    path = Path(null_build.path_for(world.request()))
    for whole in (null_build.dumps({"steps": 1}, {"steps": [["app/link"]]}), path.read_bytes()):
        for position in range(0, len(whole), max(len(whole) // 100, 1)):
            path.write_bytes(whole[:position])
            assert null_build.read(str(path)) is None
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 4]) + whole[position + 1 :])
            assert null_build.read(str(path)) is None


def test_a_folder_that_cannot_be_written_costs_time_only(world: World) -> None:
    world.build()
    folder = Path(null_build.folder_of(str(world.root / "build")))
    shutil.rmtree(folder)
    folder.write_text("in the way")
    assert world.build().ok
    assert not world.proven()


# ---- tools, variables, packages and this machine ----


TOOL_CHANGES: dict[str, Callable[[Path], object]] = {
    "swapped": lambda tools: keep_times(tools / "ptxas", b"two"),
    "gone": lambda tools: (tools / "ptxas").unlink(missing_ok=True),
    "an optional one appears": lambda tools: (tools / "optional").write_bytes(b"here"),
}


@pytest.mark.parametrize("how", TOOL_CHANGES)
def test_a_tool_swapped_with_its_time_kept(world: World, how: str) -> None:
    world.good_build()
    TOOL_CHANGES[how](world.root / "tools")
    assert not world.proven()


@pytest.mark.parametrize("how", ["swapped", "gone"])
def test_a_tool_changed_while_building(world: World, how: str) -> None:
    """The fingerprint was taken of the old one, the receipt would have described the new one."""
    world.during = lambda: TOOL_CHANGES[how](world.root / "tools")
    world.build()
    assert not world.has_receipt()


@pytest.mark.parametrize(
    "variable", ["PATH", "GPUBUILD_CC", "GPUBUILD_PTXAS", "CUDA_PATH", "LD_LIBRARY_PATH"]
)
def test_a_variable_that_chooses_tools(world: World, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    world.build()
    monkeypatch.setenv("GPUBUILD_JOBS", "7")
    assert world.proven()
    monkeypatch.setenv(variable, "/elsewhere")
    assert not world.proven()


@pytest.mark.parametrize(
    ("name", "value", "is_path"),
    [("GPUBUILD_CC", "bin/cc", True), ("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-FMA", False)],
)
def test_only_paths_in_variables_count_from_the_current_folder(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str, value: str, is_path: bool
) -> None:
    world.good_build()
    monkeypatch.setenv(name, value)
    assert not world.proven()
    world.good_build()
    monkeypatch.chdir(world.root)
    assert world.proven() == (not is_path)


def test_a_package_that_appears_on_the_path_of_python(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = world.root / "packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    world.build()
    (folder / "other.py").touch()
    assert world.proven()
    (folder / "mlir").mkdir()
    assert not world.proven()


def test_a_receipt_holds_until_the_machine_is_started_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its CPU may be another one then, which rounds constants in another way, or is another `native`."""
    monkeypatch.setattr(environment, "boot", lambda: "one")
    world.build()
    assert world.proven()
    monkeypatch.setattr(environment, "boot", lambda: "two")
    assert not world.proven()
    monkeypatch.setattr(environment, "boot", lambda: "")
    world.build()
    assert not world.has_receipt()
