"""Projects in folders with names that mean something to shells, linkers, URLs and YAML."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from e2e.command import gpubuild, project_file, run_on_cpu, saxpy_project

NAME = 'it\'s 100% "ü" $HOME #1 %41 a&b;c'


def test_a_build_and_its_program_in_a_folder_of_any_name(tmp_path: Path) -> None:
    project = saxpy_project(tmp_path / NAME)
    built = gpubuild("build", "--json", "--build-dir", "out %2F ü", cwd=project, seeded=True, code=0)
    assert [p["executable"] for p in built.document["programs"]] == ["out %2F ü/saxpy/saxpy"]
    ran = run_on_cpu(project / "out %2F ü/saxpy/saxpy")
    assert ran.code == 0
    assert ran.out == (Path(__file__).parents[2] / "examples/saxpy/expected.txt").read_text()


def test_a_project_in_a_folder_whose_name_is_not_utf_8(tmp_path: Path) -> None:
    project = saxpy_project(tmp_path / os.fsdecode(b"pr\xff"))
    (project / "inc").mkdir()
    (project / "inc/empty.h").touch()
    main = (project / "main.c").read_text()
    (project / "main.c").write_text('#include "inc/empty.h"\n' + main)
    gpubuild("build", "-t", "cpu", cwd=project, seeded=True, code=0)
    for expected in ("up-to-date", "hit-local"):
        again = gpubuild("build", "-t", "cpu", "--json", cwd=project, env={"GPUBUILD_CACHE": "read-only"})
        assert (again.code, again.err) == (0, "")
        assert set(again.statuses().values()) == {expected}
        shutil.rmtree(project / "build")


def test_a_source_of_any_name(tmp_path: Path) -> None:
    project = saxpy_project(tmp_path)
    (project / "saxpy.mlir").rename(project / f"{NAME}.mlir")
    text = (project / "targets.yaml").read_text()
    (project / "targets.yaml").write_text(
        text.replace("saxpy.mlir", "'" + NAME.replace("'", "''") + ".mlir'")
    )
    gpubuild("build", "-t", "cpu", cwd=project, seeded=True, code=0)
    assert run_on_cpu(project / "build/saxpy/saxpy").code == 0


def test_an_environment_that_cannot_name_a_source(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(project_file("p: {sources: [ü.c]}"), encoding="utf-8")
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    outcome = gpubuild("build", cwd=tmp_path, env=variables, code=2)
    assert "names files in ascii, which cannot encode" in outcome.err
