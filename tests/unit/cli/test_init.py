"""Init: a new project is complete, and nothing is ever overwritten."""

import re
from pathlib import Path

import pytest

from gpubuild.cli import init
from gpubuild.cli.main import main
from gpubuild.cli.parser import CI_SERVICES
from gpubuild.config.load import load_project

ROOT = Path(__file__).parents[3]
BASE = {"targets.yaml", "scale.mlir", "main.c", "expected.txt", ".gitignore"}


def all_files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


def test_a_new_project_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "my folder" / "demo"
    assert main(["init", str(folder)]) == 0
    assert all_files(folder) == BASE
    project = load_project(folder / "targets.yaml")
    assert list(project.targets) == ["sm_60", "sm_90", "gfx90a", "cpu"]
    assert all(source.is_file() for source in project.programs["scale"].sources)
    assert f"next: cd '{folder}' && gpubuild run\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (["--scons"], {"SConstruct"}),
        (["--ci", "github"], {".github/workflows/gpubuild.yml"}),
        (["--ci", "gitlab", "--scons"], {".gitlab-ci.yml", "SConstruct"}),
    ],
)
def test_options(options: list[str], more: set[str], tmp_path: Path) -> None:
    assert main(["init", str(tmp_path), *options]) == 0
    assert all_files(tmp_path) == BASE | more
    sources = load_project(tmp_path / "targets.yaml").programs["scale"].sources
    assert {p.name for p in sources} <= all_files(tmp_path)
    assert (".sconsign" in (tmp_path / ".gitignore").read_text()) == ("--scons" in options)


def test_the_recipes_are_those_of_the_page() -> None:
    assert set(CI_SERVICES) == set(init.SERVICES)
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "how-to" / "ci.md").read_text(), re.S)
    assert blocks == [text for _, text in init.SERVICES.values()]


@pytest.mark.parametrize("name", sorted(BASE - {".gitignore"}))
def test_nothing_is_overwritten(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).symlink_to("nowhere")  # even a broken link is somebody's
    assert main(["init", str(tmp_path)]) == 2
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert "exists; nothing was written" in capsys.readouterr().err


def test_a_gitignore_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.o\n")
    assert main(["init", str(tmp_path)]) == 0
    assert (tmp_path / ".gitignore").read_text() == "*.o\n"
    assert (tmp_path / "targets.yaml").exists()


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "full").write_text("a file, not a folder\n")
    assert main(["init", str(tmp_path / "full" / "demo")]) == 2
    assert f"cannot write {tmp_path}/full" in capsys.readouterr().err
