"""A build folder that cannot be written: up-to-date programs run, and other commands are refused."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from e2e.command import Outcome, gpubuild, without_settings

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
    first.mkdir()
    (first / "targets.yaml").write_text("version: 1\ntargets: {cpu: }\nprograms: {p: {sources: [main.c]}}\n")
    (first / "main.c").write_text(MAIN)
    assert gpubuild("build", cwd=first, seeded=True).code == 0
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
