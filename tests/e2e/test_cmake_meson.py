"""The snippets of docs/cmake-meson.md, by the real tools."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from e2e.command import ROOT, gpubuild, shared_cache

PAGE = (ROOT / "docs" / "cmake-meson.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", PAGE, re.S)
    assert found
    return found[1]


def find(name: str) -> str:
    path = shutil.which(name) or shutil.which(name, path=sysconfig.get_path("scripts"))
    if path is None:
        pytest.skip(f"no {name} here")
    return path


class Project:
    """The project of `gpubuild init` without its main, and a shell's environment that has gpubuild."""

    def __init__(self, folder: Path, factory: pytest.TempPathFactory) -> None:
        assert gpubuild("init", "demo", cwd=folder).code == 0
        self.root = folder / "demo"
        (self.root / "targets.yaml").write_text(block("yaml"))
        tools = folder / "bin"
        tools.mkdir()
        launcher = tools / "gpubuild"
        launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m gpubuild "$@"\n')
        launcher.chmod(0o755)
        path = f"{tools}{os.pathsep}{sysconfig.get_path('scripts')}{os.pathsep}/usr/bin:/bin"
        self.environment = {**os.environ, "PATH": path} | shared_cache(factory)

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_cmake(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    cmake, ctest = find("cmake"), find("ctest")
    find("ninja")
    project = Project(tmp_path, tmp_path_factory)
    (project.root / "CMakeLists.txt").write_text(block("cmake"))
    project.run(cmake, "-G", "Ninja", "-S", ".", "-B", "out")
    project.run(cmake, "--build", "out")
    assert "100% tests passed" in project.run(ctest, "--test-dir", "out")
    assert "scale_kernels" in gpubuild("inspect", "out/scale", cwd=project.root).out
    again = project.run(cmake, "--build", "out", "--verbose")
    assert "Building C object" not in again
    assert "-o scale " not in again, "nothing is linked in vain"
    kernel = (project.root / "scale.mlir").read_text()
    (project.root / "scale.mlir").write_text(kernel.replace("arith.mulf", "arith.addf", 1))
    assert "-o scale " in project.run(cmake, "--build", "out", "--verbose")
    done = subprocess.run([ctest, "--test-dir", "out"], cwd=project.root, capture_output=True, check=False)
    assert done.returncode != 0, "the program has the kernel that was edited"


def test_meson(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    meson = find("meson")
    find("ninja")
    project = Project(tmp_path, tmp_path_factory)
    (project.root / "meson.build").write_text(block("meson"))
    project.run(meson, "setup", "out")
    assert re.search(r"^Ok: +1", project.run(meson, "test", "-C", "out"), re.M)
    kernel = (project.root / "scale.mlir").read_text()
    (project.root / "scale.mlir").write_text(kernel.replace("arith.mulf", "arith.addf", 1))
    project.run(meson, "compile", "-C", "out")
    done = subprocess.run(
        [project.root / "out" / "scale"],
        env={**os.environ, "GPUBUILD_DEVICE": "cpu"},
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0, "the program has the kernel that was edited"
