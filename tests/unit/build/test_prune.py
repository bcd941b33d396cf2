"""Leftovers: outputs of steps that no longer exist are deleted, and nothing else."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from unit.projects import TARGETS, make_program, make_project
from unit.world import World

from gpubuild.build.state import seal
from gpubuild.model.result import Status

MODULES = "k one\nj two\n"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two programs of two modules, built."""
    world = World(tmp_path)
    (tmp_path / "app.mlir").write_text(MODULES)
    (tmp_path / "other.mlir").write_text("o one\n")
    world.programs(make_program(tmp_path, "app", "app.mlir", "main.c"), other(world))
    assert world.build().ok
    return world


def other(world: World):
    return make_program(world.root, "other", "other.mlir", "main.c")


def app(world: World):
    return world.project.programs["app"]


def files(world: World) -> set[str]:
    build = world.root / "build"
    private = build / ".gpubuild"
    return {
        p.relative_to(build).as_posix() for p in build.rglob("*") if p.is_file() and private not in p.parents
    }


def test_a_renamed_module(world: World) -> None:
    before = files(world)
    (world.root / "app.mlir").write_text(MODULES.replace("j ", "renamed "))
    assert world.build().ok
    after = files(world)
    assert after == {name.replace("/j.", "/renamed.") for name in before}
    assert before - after == {name for name in before if name.startswith("app/j.")} != set()


def test_a_removed_program_goes_with_its_folder(world: World) -> None:
    world.programs(app(world))
    assert world.build().ok
    assert not (world.root / "build/other").exists()
    assert (world.root / "build/app/app").exists()
    world.programs(app(world), other(world))
    assert {s.status for s in world.build().steps} == {Status.UP_TO_DATE, Status.HIT_LOCAL}
    assert (world.root / "build/other/other").exists()


@pytest.mark.parametrize("request_", [{"programs": ("app",)}, {"targets": ("sm_60",)}, {"dry_run": True}])
def test_what_was_not_asked_for_is_no_leftover(world: World, request_: dict) -> None:
    before = files(world)
    assert world.build(**request_).ok
    assert files(world) == before


def test_a_build_that_fails_removes_nothing_of_others(world: World) -> None:
    before = {name for name in files(world) if name.startswith("other/")}
    (world.root / "app.mlir").write_text("syntax error\n")
    world.programs(app(world))
    assert not world.build().ok
    assert {name for name in files(world) if name.startswith("other/")} == before


def test_another_project_file_in_the_same_folder(world: World) -> None:
    before = files(world)
    project = make_project(world.root, make_program(world.root, "third", "other.mlir", "main.c"))
    assert world.build(replace(project, file=world.root / "release.yaml")).ok
    assert before < files(world)
    assert world.build().ok
    assert (world.root / "build/third/third").exists()


@pytest.mark.parametrize("what", ["edited", "linked", "source", "beside", "link to its folder"])
def test_what_is_the_users_stays(world: World, tmp_path: Path, what: str) -> None:
    folder = world.root / "build/other"
    kept = folder / "other"
    match what:
        case "edited":
            kept.write_bytes(b"mine")
        case "linked":
            kept.rename(tmp_path / "elsewhere")
            kept.symlink_to(tmp_path / "elsewhere")
        case "source":
            kept = folder / "host.o"
            program = make_program(world.root, "app", "app.mlir", "main.c")
            world.programs(replace(program, sources=(*program.sources, kept)))
        case "beside":
            kept = folder / "notes.txt"
            kept.write_text("mine")
        case "link to its folder":
            shutil.move(folder, tmp_path / "folder")
            folder.symlink_to(tmp_path / "folder")
    content = kept.read_bytes()
    if what != "source":
        world.programs(app(world))
    world.build()
    assert kept.read_bytes() == content
    left = {p.name for p in folder.iterdir()}
    assert left == {kept.name} or what == "link to its folder"


def test_a_project_that_was_moved(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    moved = World(Path(shutil.move(world.root, tmp_path_factory.mktemp("moved") / "p")))
    (moved.root / "app.mlir").write_text(MODULES)
    assert moved.build().ok
    assert not (moved.root / "build/other").exists()


def test_a_state_that_names_files_elsewhere(world: World, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    shutil.copy(world.root / "build/other/other", precious)
    state = world.root / "build/.gpubuild/state.json"
    text = state.read_text()
    for name in (str(precious), "build/../precious"):
        assert '"build/other/other"' in text
        document = "{" + text.replace('"build/other/other"', f'"{name}"').partition(",")[2]
        state.write_text(seal(document))
        world.programs(app(world))
        assert world.build().ok
        assert precious.exists()


def without(world: World, target: str):
    """The project without ``target``."""
    programs = [
        replace(p, targets=tuple(t for t in p.targets if t != target))
        for p in world.project.programs.values()
    ]
    targets = {name: options for name, options in TARGETS.items() if name != target}
    return make_project(world.root, *programs, targets=targets)


@pytest.mark.parametrize("damage", ["none", "absent", "cut", "another version's"])
@pytest.mark.parametrize("between", ["nothing", "a failure", "other requests"])
def test_a_removed_target(world: World, damage: str, between: str) -> None:
    before = files(world)
    gone = {name for name in before if ".sm_90." in name}
    edited = world.root / "build" / max(gone)
    edited.write_text("mine")
    (world.root / "build/app/k.sm_90.notes").write_text("mine")
    state = world.root / "build/.gpubuild/state.json"
    match damage:
        case "absent":
            state.unlink()
        case "cut":
            state.write_text(state.read_text()[:-100])
        case "another version's":
            state.write_text(seal('{"schema":2}'))
    world.project = without(world, "sm_90")
    text = (world.root / "app.mlir").read_text()
    if between == "a failure":
        (world.root / "app.mlir").write_text("syntax error\n")
        assert not world.build().ok
        (world.root / "app.mlir").write_text(text)
    if between == "other requests":
        assert world.build(targets=("sm_60",)).ok
        assert world.build(programs=("other",)).ok
        assert files(world) & {name for name in gone if name.startswith("app/")}
    assert world.build().ok
    mine = {edited.relative_to(world.root / "build").as_posix(), "app/k.sm_90.notes"}
    assert files(world) == before - gone | mine


def test_a_lost_state_and_a_log_that_names_files_elsewhere(world: World, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    shutil.copy(world.root / "build/other/other", precious)
    (world.root / "build/.gpubuild/state.json").unlink()
    log = world.root / "build/.gpubuild/builds.jsonl"
    output = str(world.root / "build/other/other")
    assert output in log.read_text()
    log.write_text(log.read_text().replace(output, str(precious)))
    world.programs(app(world))
    assert world.build().ok
    assert precious.exists()
