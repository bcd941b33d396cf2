"""single_pass.py: one pass or a range on the command line."""

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


def single_pass(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, Path(__file__).parent / "single_pass.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_one_pass_or_a_range(tmp_path: Path) -> None:
    file = tmp_path / "k.mlir"
    file.write_text(KERNEL)
    one = single_pass("sm_60", "expand-subgroup-ids", file)
    assert one.returncode == 0, one.stderr
    assert "gpu.subgroup_id" not in one.stdout and "gpu.subgroup_size" in one.stdout
    both = single_pass("sm_60", "expand-subgroup-size..expand-subgroup-ids", file)
    assert both.returncode == 0, both.stderr
    assert "gpu.subgroup" not in both.stdout


def test_names(tmp_path: Path) -> None:
    assert single_pass("gfx90a").stdout.split()[1:3] == ["own-passes", "expand-matrices"]
    file = tmp_path / "k.mlir"
    file.write_text(KERNEL)
    wrong = single_pass("gfx90a", "expand-subgroup-idz", file)
    assert wrong.returncode == 2
    assert "did you mean 'expand-subgroup-ids'?" in wrong.stderr
    backwards = single_pass("sm_60", "expand-subgroup-ids..expand-subgroup-size", file)
    assert "write expand-subgroup-size..expand-subgroup-ids" in backwards.stderr
    assert single_pass("sm_60", "expand-subgroup-ids").returncode == 2
    assert single_pass("mine").returncode == 2
