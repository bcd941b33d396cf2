"""A Python package with kernels, built as a wheel and used without gpubuild."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from e2e.command import ROOT, shared_cache

PROJECT = Path(__file__).parent / "wheel_project"
USE = """\
import sys
import numpy as np
import vectors
x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
vectors.saxpy(3.0, x, y)
np.testing.assert_array_equal(y, 3 * x + 1)
print([name for name in sys.modules if name.startswith(("gpubuild", "mlir", "llvmlite"))])
"""


def test_a_wheel(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("hatchling")
    project = shutil.copytree(PROJECT, tmp_path / "project")
    shutil.copy(ROOT / "examples" / "saxpy" / "saxpy.mlir", project / "kernels.mlir")
    environment = {**os.environ, **shared_cache(tmp_path_factory), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=project, env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "-none-any" not in wheel.name
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("vectors/")}
        archive.extractall(installed)
    assert names == {"vectors/__init__.py", "vectors/kernels.py", "vectors/libkernels.so"}
    used = subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path,
        env={**environment, "PYTHONPATH": str(installed), "GPUBUILD_DEVICE": "cpu"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (used.stdout, used.returncode) == ("[]\n", 0), used.stderr
