"""`export`: link elsewhere, without gpubuild."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from e2e.command import SAXPY, gpubuild, run_on_cpu, saxpy_project


def test_export_links_with_a_plain_compiler_elsewhere(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    cpu = {**shared_cache, "GPUBUILD_DEVICE": "cpu"}
    cc = shutil.which("cc") or shutil.which("gcc")
    if cc is None:
        pytest.skip("no C compiler of the system's")
    folder = saxpy_project(tmp_path / "p", SAXPY.replace("sm_60: {}, sm_90: {}, gfx90a", "gfx90a"))
    done = gpubuild("export", "-o", tmp_path / "out it", cwd=folder, env=cpu)
    assert done.code == 0, done.err
    assert done.out.endswith(f"run: sh '{tmp_path}/out it/link.sh'\n")
    assert gpubuild("export", "-o", folder, cwd=folder).code == 2
    elsewhere = tmp_path / "else where"
    shutil.move(tmp_path / "out it", elsewhere)
    shutil.rmtree(folder)
    assert {
        "host.o",
        "host.ll",
        "main.o",
        "link.sh",
        "runtime",
        "saxpy.places.txt",
        "saxpy_kernels.images.o",
    } == {p.name for p in elsewhere.iterdir()}
    environment = {"PATH": os.defpath, "CC": cc}
    subprocess.run(["sh", elsewhere / "link.sh"], env=environment, cwd=tmp_path, check=True)
    ran = run_on_cpu(elsewhere / "saxpy")
    assert (ran.code, "OK" in ran.out) == (0, True), ran.err
