"""What people build with gpubuild's wheel, installed in an environment of its own, in folders elsewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from e2e.command import ROOT, seed
from e2e.test_cmake_meson import MAIN, Project, block, find, meson_project

PACKAGE = Path(__file__).parent / "wheel_project"
USE = """\
import sys
import numpy as np
import vectors
x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
vectors.saxpy(3.0, x, y)
np.testing.assert_array_equal(y, 3 * x + 1)
print([name for name in sys.modules if name.startswith(("gpubuild", "mlir", "llvmlite"))])
"""
CXX = """\
#include <cstdio>
#include <vector>
#include "scale.h"

int main() {
    std::vector<float> data{1, 2, 3, 4};
    gpubuild_memref_f32_1 x = gpubuild_make_f32_1(data.data(), data.size());
    scale(3.0f, &x);
    for (float value : data) std::printf("%g\\n", value);
}
"""
# The version and the description of a release come from plugins of hatchling that tests do without.
PLUGINS = re.compile(
    r"^\[+tool\.hatch\.(version|build\.hooks\.vcs|metadata\.hooks[^\]]*)\]+\n(?:(?!\[).*\n)*", re.M
)


def run(
    *command: str | Path, cwd: Path, env: dict[str, str], code: int = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def build_wheel(folder: Path, env: dict[str, str]) -> Path:
    """gpubuild's wheel, from a copy: the build writes the version into the source folder."""
    source = folder / "source"
    skipped = shutil.ignore_patterns("__pycache__", "prebuilt")
    shutil.copytree(ROOT / "gpubuild", source / "gpubuild", ignore=skipped)
    for name in ("hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    text = PLUGINS.sub("", (ROOT / "pyproject.toml").read_text())
    text, replaced = re.subn("^dynamic = .*$", 'version = "0.1.0"', text, flags=re.M)
    assert replaced == 1
    (source / "pyproject.toml").write_text(text)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=source, env=env)
    (wheel,) = folder.glob("gpubuild-0.1.0-*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a shell with the wheel's `gpubuild` and `python`, and a cache with the runtime.

    A wheel for any machine, without the runtime: .ci/release-dry-run uses the others.
    """
    pytest.importorskip("hatchling")
    pytest.importorskip("pip")
    folder = tmp_path_factory.mktemp("wheel")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUBUILD_", "PYTHONPATH"))}
    home = folder / "venv"
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    # Without the .pth files there, so that an editable installation is not found.
    (site / "dependencies.pth").write_text("\n".join(packages) + "\n")
    pip = (sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "-q")
    wheel = build_wheel(folder, clean | {"GPUBUILD_WHEEL": "any"})
    run(*pip, "--no-deps", "--no-index", wheel, cwd=folder, env=clean)
    seed(folder / "seeded")
    (folder / "cache/gpubuild").mkdir(parents=True)
    (folder / "seeded/cache").rename(folder / "cache/gpubuild/results")
    tools = (home / "bin", sysconfig.get_path("scripts"), "/usr/bin", "/bin")
    variables = {"PATH": os.pathsep.join(map(str, tools)), "XDG_CACHE_HOME": str(folder / "cache")}
    env = clean | variables | {"GPUBUILD_DEVICE": "cpu"}
    where = run("python", "-c", "import gpubuild; print(gpubuild.__file__)", cwd=folder, env=env)
    assert where.stdout.startswith(str(site))
    return env


def test_a_cxx_program(installed: dict[str, str], tmp_path: Path) -> None:
    project = Project(tmp_path / "demo", installed)
    (project.root / "main.cpp").write_text(CXX)
    project.run("gpubuild", "install", "scale", "--into", "lib")
    libraries = ("-lm", "-ldl", "-lpthread")
    project.run("c++", "-Ilib", "main.cpp", "lib/libscale.a", *libraries, "-o", "user")
    assert project.run("./user").split() == ["3", "6", "9", "12"]


def test_a_python_package(installed: dict[str, str], tmp_path: Path) -> None:
    """Built as a wheel, and used without gpubuild."""
    package = shutil.copytree(PACKAGE, tmp_path / "package")
    shutil.copy(ROOT / "examples" / "saxpy" / "saxpy.mlir", package / "kernels.mlir")
    run("python", "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=package, env=installed)
    (wheel,) = tmp_path.glob("*.whl")
    assert "-none-any" not in wheel.name
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("vectors/")}
        archive.extractall(unpacked)
    assert names == {"vectors/__init__.py", "vectors/kernels.py", "vectors/libkernels.so"}
    used = run("python", "-c", USE, cwd=tmp_path, env={**installed, "PYTHONPATH": str(unpacked)})
    assert used.stdout == "[]\n"


def test_a_notebook(installed: dict[str, str], tmp_path: Path) -> None:
    check = "from e2e.test_notebook import check_notebook; check_notebook()"
    run("python", "-c", check, cwd=tmp_path, env={**installed, "PYTHONPATH": str(ROOT / "tests")})


def test_a_cmake_project(installed: dict[str, str], tmp_path: Path) -> None:
    cmake, ctest = find("cmake"), find("ctest")
    find("ninja")
    project = Project(tmp_path / "demo", installed)
    (project.root / "CMakeLists.txt").write_text(block("cmake"))  # the package is found by PATH
    project.run(cmake, "-G", "Ninja", "-S", ".", "-B", "out")
    project.run(cmake, "--build", "out")
    assert "100% tests passed" in project.run(ctest, "--test-dir", "out")


def test_a_meson_project(installed: dict[str, str], tmp_path: Path) -> None:
    meson = find("meson")
    find("ninja")
    project = Project(tmp_path / "demo", installed)
    (project.root / "main.c").write_text(MAIN)
    meson_project(project)
    project.run(meson, "setup", "out")
    assert re.search(r"^Ok: +1", project.run(meson, "test", "-C", "out"), re.M)
