"""Clean: what is removed and, above all, what is not."""

import json
import shutil
from pathlib import Path

import pytest

from gpubuild.build.state import BuildState, Origin, StepRecord, seal
from gpubuild.cli.main import main
from gpubuild.model.digest import digest_bytes, digest_file
from gpubuild.model.step import ActionResult, Blob


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A built project whose build folder also holds a source and a stranger's file."""
    monkeypatch.chdir(tmp_path)
    private = tmp_path / "build" / ".gpubuild"
    (private / "sources").mkdir(parents=True)
    (private / "sources" / "module.0.mlir").write_text("module")
    folder = tmp_path / "build" / "saxpy"
    folder.mkdir()
    state = BuildState(private / "state.json", tmp_path)
    for name in ("saxpy", "k.sm_60.cubin", "generated.mlir"):
        (folder / name).write_text(name)
        state.files.digest(folder / name)
    (tmp_path / "main.c").write_text("saxpy")  # outside, with the very content of an output
    state.files.digest(tmp_path / "main.c")
    blobs = tuple(
        Blob(name=n, digest=digest_file(folder / n), size_bytes=1) for n in ("saxpy", "k.sm_60.cubin")
    )
    outputs = tuple(str(folder / blob.name) for blob in blobs)
    origin = Origin(file=str(tmp_path / "targets.yaml"), program="saxpy", outputs=outputs)
    record = StepRecord(key=digest_bytes(b""), parts={}, result=ActionResult(blobs=blobs), origin=origin)
    state.remember("saxpy/link", record)
    state.save()
    (folder / "notes.txt").write_text("mine")
    return tmp_path


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elsewhere")


def left(project: Path) -> set[str]:
    return {p.relative_to(project).as_posix() for p in project.rglob("*") if p.is_file()}


def test_outputs_go_and_everything_else_stays(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clean"]) == 0
    assert left(project) == {"main.c", "build/saxpy/generated.mlir", "build/saxpy/notes.txt"}
    assert "removed 2 files" in capsys.readouterr().out


def test_an_all_ours_folder_goes_itself(project: Path) -> None:
    for name in ("generated.mlir", "notes.txt"):
        (project / "build/saxpy" / name).unlink()
    assert main(["clean", "-q"]) == 0
    assert not (project / "build").exists()
    assert main(["clean"]) == 0  # there is nothing to do, which is fine


def test_a_project_that_was_moved_is_cleaned_too(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = elsewhere / "home"
    shutil.copytree(project, new)
    monkeypatch.chdir(new)
    (new / "build/other").mkdir()
    (new / "build/other/copy").write_text("saxpy")  # the same content, but not in the program's folder
    assert main(["clean"]) == 0
    assert left(new) == {"main.c", "build/saxpy/generated.mlir", "build/saxpy/notes.txt", "build/other/copy"}
    assert (project / "build/saxpy/saxpy").exists()


def test_dry_run_removes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = left(project)
    assert main(["clean", "-n"]) == 0
    assert "would remove build/saxpy/saxpy" in capsys.readouterr().out
    # The lock may be new; nothing is gone.
    assert before <= left(project)


@pytest.mark.parametrize(
    "state", ["", "[]", '{"files": 3, "steps": {}}', '{"files": {"a": []}, "steps": {}}']
)
def test_without_a_readable_state_only_the_private_folder_goes(project: Path, state: str) -> None:
    (project / "build/.gpubuild/state.json").write_text(state)
    assert main(["clean"]) == 0
    assert not (project / "build/.gpubuild").exists()
    assert (project / "build/saxpy/saxpy").exists()


def test_paths_that_climb_out_are_not_followed(project: Path) -> None:
    path = project / "build/.gpubuild/state.json"
    document = json.loads(path.read_text())
    del document["crc"]
    document["steps"]["saxpy/link"]["origin"][2].append(f"{project}/build/../main.c")
    path.write_text(seal(json.dumps(document, separators=(",", ":"))))
    assert main(["clean"]) == 0
    assert (project / "main.c").exists()
    assert not (project / "build/saxpy/saxpy").exists()


@pytest.mark.parametrize(
    ("folder", "message"),
    [
        (".", "refusing to clean"),
        ("..", "refusing to clean"),
        ("/", "refusing to clean"),
        ("src", "was not made by gpubuild"),
        ("link", ""),
    ],
)
def test_folders_that_hold_more_than_a_build_are_refused(
    project: Path, folder: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And a folder of a stranger, and a link to one of ours."""
    (project / "src").mkdir()
    (project / "src/precious.c").write_text("x")
    (project / "link").symlink_to(project / "build")
    before = left(project)
    assert main(["clean", "--build-dir", folder]) == 2
    assert message in capsys.readouterr().err
    assert left(project) == before


def test_the_projects_own_folder_is_refused_from_elsewhere(
    project: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elsewhere)
    arguments = ["clean", "-f", str(project / "targets.yaml"), "--build-dir"]
    assert main([*arguments, str(project)]) == 2
    assert main([*arguments, str(project / "build")]) == 0


@pytest.mark.parametrize("arguments", [["clean"], ["clean", "-n"], ["build"]])
def test_a_private_folder_that_is_a_link_is_refused(
    project: Path, arguments: list[str], elsewhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private, precious = project / "build/.gpubuild", elsewhere / "precious"
    private.rename(precious)
    private.symlink_to(precious)
    (project / "targets.yaml").write_text(
        "version: 1\ntargets: {cpu: }\nprograms: {saxpy: {sources: [main.c]}}\n"
    )
    before, there = left(project), left(precious)
    assert main(arguments) == 2
    assert "refusing to use" in capsys.readouterr().err
    assert left(project) == before
    assert left(precious) == there


def test_a_program_folder_that_is_a_link_is_kept(project: Path, elsewhere: Path) -> None:
    folder, precious = project / "build/saxpy", elsewhere / "precious"
    folder.rename(precious)
    folder.symlink_to(precious)
    before = left(precious)
    assert main(["clean"]) == 0
    assert left(precious) == before
    assert not (project / "build/.gpubuild").exists()


def test_links_in_the_private_folder_go_alone(project: Path, elsewhere: Path) -> None:
    (elsewhere / "precious").write_text("mine")
    for name in ("work", "lock", "builds.jsonl"):
        (project / "build/.gpubuild" / name).symlink_to(elsewhere / ("precious" * (name != "work")))
    assert main(["clean"]) == 2  # for the lock
    (project / "build/.gpubuild/lock").unlink()
    assert main(["clean"]) == 0
    assert left(elsewhere) == {"precious"}
