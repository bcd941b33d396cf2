"""Init: a new project is complete, and nothing is ever overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpubuild.cli import init
from gpubuild.cli.main import main
from gpubuild.cli.template import FILES
from gpubuild.config.load import load_project


def test_a_new_project_loads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "deep" / "demo"
    assert main(["init", str(folder)]) == 0
    assert {p.name for p in folder.iterdir()} == set(FILES)
    project = load_project(folder / "targets.yaml")
    assert list(project.targets) == ["sm_60", "sm_90", "gfx90a", "cpu"]
    assert all(source.is_file() for source in project.programs["scale"].sources)
    assert f"next: cd {folder} && gpubuild run" in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(set(FILES) - {".gitignore"}))
def test_nothing_is_overwritten(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).symlink_to("nowhere")  # even a broken link is somebody's
    assert main(["init", str(tmp_path)]) == 2
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert "is there already" in capsys.readouterr().err


def test_a_gitignore_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*.o\n")
    assert main(["init", str(tmp_path)]) == 0
    assert (tmp_path / ".gitignore").read_text() == "*.o\n"
    assert (tmp_path / "targets.yaml").exists()


def test_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "FILES", {**FILES, "no-such-folder/file": "text"})
    assert main(["init", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []
