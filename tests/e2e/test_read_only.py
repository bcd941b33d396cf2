"""A build folder that cannot be written: up-to-date programs run, and other commands are refused."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.command import Outcome, build_project, gpubuild, project_file, without_settings

_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE = 24, 1
MAIN = (
    '#include <stdio.h>\nint main(int n, char **a) { printf("said %s\\n", n > 1 ? a[1] : ""); return 3; }\n'
)


def without_privilege() -> None:
    """Have what root executes next heed the modes of files, as anybody does."""
    ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, 0, 0, 0)


def restricted(*arguments: str, cwd: Path) -> Outcome:
    environment = without_settings()
    done = subprocess.run(
        [sys.executable, "-m", "gpubuild", *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False,
        preexec_fn=without_privilege,
    )  # fmt: skip
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    first = tmp_path / "first"
    build_project(first, project_file("p: {sources: [main.c]}"), {"main.c": MAIN})
    # Somewhere else, as an artefact is: nothing but the files' contents is as it was.
    root = tmp_path / "mounted"
    shutil.copytree(first, root, ignore=shutil.ignore_patterns("cache"))
    for path in (root, *root.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o222)
    return root


def test_what_is_there_runs_if_it_is_up_to_date(project: Path) -> None:
    assert restricted("run", "--", "it", cwd=project) == Outcome(3, "said it\n", "")
    built = restricted("build", cwd=project)
    assert (built.code, built.err) == (0, "")
    assert "up to date" in built.out
    assert not (project / "cache").exists()

    (project / "main.c").chmod(0o644)
    (project / "main.c").write_text(MAIN.replace("said", "says"))
    outcome = restricted("run", "p", cwd=project)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "error: cannot write to the build folder build, which is not up to date: "
        "preprocess/main.c (main.c changed)\n"
        "  hint: build into another folder with --build-dir, or run build/p/p unchanged\n"
    )
    for command in (("build", "-n"), ("explain", "cc/main.c"), ("graph", "--format", "json")):
        refused = restricted(*command, cwd=project)
        assert (refused.code, refused.out) == (2, "")
        assert "cannot use the build folder" in refused.err
        assert "--build-dir" in refused.err
    project.chmod(0o755)  # for pytest to tidy up


@pytest.mark.parametrize("part", ["p", ".gpubuild/sources"])
def test_parts_that_cannot_be_written(tmp_path: Path, part: str) -> None:
    """As after one build with ``sudo``: parts are another user's."""
    build_project(tmp_path, project_file("p: {sources: [main.c]}"), {"main.c": MAIN})
    (tmp_path / "main.c").write_text(MAIN.replace("said", "says"))
    folders = [path for path in (tmp_path / "build" / part).rglob("*") if path.is_dir()]
    for folder in (tmp_path / "build" / part, *folders):
        folder.chmod(0o555)
    built = restricted("build", cwd=tmp_path)
    assert built.code == 1, built.err
    assert "internal" not in built.err and "free some space" not in built.err
    assert f"Permission denied: {tmp_path}/build/{part}/" in built.err
    assert "hint: make it writable for yourself, or choose another folder with --build-dir" in built.err
    outdated = "build/p/p is outdated and cannot be deleted: Permission denied" in built.err
    assert outdated == (part == "p") == (tmp_path / "build/p/p").exists()
    cleaned = restricted("clean", cwd=tmp_path)
    assert (cleaned.code, cleaned.out) == (2, "")
    assert "cannot delete all of build: " in cleaned.err and "Permission denied" in cleaned.err
    for folder in (tmp_path / "build" / part, *folders):
        folder.chmod(0o755)
    assert gpubuild("run", cwd=tmp_path).out == "says \n"
