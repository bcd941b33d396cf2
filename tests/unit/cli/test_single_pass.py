"""``gpubuild pass``: what tests/passes runs, on the command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

KERNEL = """gpu.module @k {
  gpu.func @f(%m: memref<?xf32>) kernel {
    %i = gpu.subgroup_id : index
    %s = gpu.subgroup_size : index
    %x = memref.load %m[%i] : memref<?xf32>
    memref.store %x, %m[%s] : memref<?xf32>
    gpu.return
  }
}
"""


def gpubuild(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpubuild", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_one_pass_or_a_range(tmp_path: Path) -> None:
    (tmp_path / "k.mlir").write_text(KERNEL)
    one = gpubuild(tmp_path, "pass", "sm_60", "expand-subgroup-ids", "k.mlir")
    assert one.returncode == 0, one.stderr
    assert "gpu.subgroup_id" not in one.stdout and "gpu.subgroup_size" in one.stdout
    both = gpubuild(
        tmp_path, "pass", "sm_60", "expand-subgroup-size..expand-subgroup-ids", "k.mlir", "-o", "o.mlir"
    )
    assert both.returncode == 0, both.stderr
    assert "gpu.subgroup" not in (tmp_path / "o.mlir").read_text()


def test_names(tmp_path: Path) -> None:
    listed = gpubuild(tmp_path, "pass", "gfx90a", "--list")
    assert listed.stdout.split()[1:3] == ["own-passes", "expand-matrices"]
    (tmp_path / "k.mlir").write_text(KERNEL)
    wrong = gpubuild(tmp_path, "pass", "gfx90a", "expand-subgroup-idz", "k.mlir")
    assert wrong.returncode == 2
    assert "did you mean 'expand-subgroup-ids'?" in wrong.stderr
    backwards = gpubuild(tmp_path, "pass", "sm_60", "expand-subgroup-ids..expand-subgroup-size", "k.mlir")
    assert "write expand-subgroup-size..expand-subgroup-ids" in backwards.stderr
    assert gpubuild(tmp_path, "pass", "sm_60", "expand-subgroup-ids").returncode == 2
    assert gpubuild(tmp_path, "pass", "mine", "--list").returncode == 2


def test_no_help_lists_it(tmp_path: Path) -> None:
    assert " pass " not in gpubuild(tmp_path, "--help").stdout
