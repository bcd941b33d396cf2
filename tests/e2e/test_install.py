"""`gpubuild install`: what it copies where, and that pkg-config, CMake and plain compilers can use it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from e2e.command import execute, gpubuild, run_on_cpu, seed
from e2e.test_cmake_meson import find
from e2e.test_products import CPU, USER, write_project
from e2e.test_products import built as built  # noqa: PLC0414 - a fixture

INSTALLED = {
    *("bin/scale", "include/first.h", "include/part.h", "include/plus.h"),
    *("lib/first.py", "lib/libfirst.so", "lib/libplus.a", "lib/part.o"),
    *(f"lib/pkgconfig/{name}.pc" for name in ("first", "plus", "part")),
    *(f"lib/cmake/{name}/{name}Config.cmake" for name in ("first", "plus", "part")),
}
USERS = {"first": "user.c", "part": "user.c", "plus": "user.cpp"}  # libraries, and a program for each
NAMES = ("scale", "first", "plus", "part")


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def prefix(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed with DESTDIR, then moved: nothing in it depends on where it lies."""
    folder = tmp_path_factory.mktemp("install")
    project = Path(shutil.copytree(built, folder / "demo", symlinks=True))
    env = {"DESTDIR": str(folder / "staging")}
    gpubuild("install", *NAMES, "--prefix", "/opt/kernels", cwd=project, env=env, code=0)
    assert files(folder / "staging" / "opt" / "kernels") == INSTALLED
    assert not Path("/opt/kernels").exists()
    return Path(shutil.move(folder / "staging" / "opt" / "kernels", folder / "moved"))


def runs(program: Path) -> bool:
    return run_on_cpu(program, **CPU).code == 0


def test_an_executable_and_modes(prefix: Path) -> None:
    assert runs(prefix / "bin" / "scale")
    modes = {name: (prefix / name).stat().st_mode & 0o777 for name in ("bin/scale", "lib/libplus.a")}
    assert modes == {"bin/scale": 0o755, "lib/libplus.a": 0o644}


@pytest.mark.parametrize("name", USERS)
def test_flags_of_pkg_config(prefix: Path, tmp_path: Path, name: str) -> None:
    file = prefix / "lib" / "pkgconfig" / f"{name}.pc"
    if shutil.which("pkg-config"):
        path = {**os.environ, "PKG_CONFIG_PATH": str(file.parent)}
        command = ["pkg-config", "--libs", name]
        flags = execute(*command, env=path).out
    else:  # the file has no other variables
        text = file.read_text().replace("${pcfiledir}", str(file.parent)).replace("${prefix}/", f"{prefix}/")
        libdir = re.search("^libdir=(.*)$", text, re.M)
        libs = re.search("^Libs: (.*)$", text, re.M)
        assert libdir and libs
        flags = libs[1].replace("${libdir}", libdir[1])
    source = tmp_path / USERS[name]
    source.write_text(USER[source.suffix])
    rpath = f"-Wl,-rpath,{prefix / 'lib'}"
    execute("cc", source, *shlex.split(flags), rpath, "-o", tmp_path / "user")
    assert runs(tmp_path / "user")


def test_cmake_packages(prefix: Path, tmp_path: Path) -> None:
    cmake = find("cmake")
    find("ninja")
    (tmp_path / "user.c").write_text(USER[".c"])
    (tmp_path / "user.cpp").write_text(USER[".cpp"])
    lines = ["cmake_minimum_required(VERSION 3.20)", "project(user C CXX)"]
    for name, source in USERS.items():
        lines.append(f"find_package({name} REQUIRED)\nadd_executable(use_{name} {source})")
        lines.append(f"target_link_libraries(use_{name} PRIVATE {name}::{name})")
    (tmp_path / "CMakeLists.txt").write_text("\n".join(lines) + "\n")
    environment = {**os.environ, "PATH": f"{Path(find('ninja')).parent}{os.pathsep}{os.environ['PATH']}"}
    for command in (
        [cmake, "-G", "Ninja", "-S", ".", "-B", "out", f"-DCMAKE_PREFIX_PATH={prefix}"],
        [cmake, "--build", "out"],
    ):
        execute(*command, cwd=tmp_path, env=environment)
    assert all(runs(tmp_path / "out" / f"use_{name}") for name in USERS)


def test_meson_finds_them_by_pkg_config(prefix: Path, tmp_path: Path) -> None:
    meson = find("meson")
    find("ninja")
    if not shutil.which("pkg-config"):
        pytest.skip("no pkg-config here")
    (tmp_path / "user.c").write_text(USER[".c"])
    (tmp_path / "user.cpp").write_text(USER[".cpp"])
    lines = ["project('user', 'c', 'cpp')"]
    for name, source in USERS.items():
        lines.append(f"executable('use_{name}', '{source}', dependencies: dependency('{name}'))")
    (tmp_path / "meson.build").write_text("\n".join(lines) + "\n")
    path = f"{Path(find('ninja')).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    output_of(meson, "setup", tmp_path / "out", tmp_path, **variables)
    output_of(meson, "compile", "-C", tmp_path / "out", **variables)
    assert all(runs(tmp_path / "out" / f"use_{name}") for name in USERS)


def output_of(*command: str | Path, **environment: str) -> str:
    return execute(*command, env={**os.environ, **environment}).out


def test_a_version_and_folders(built: Path, tmp_path: Path) -> None:
    """A version is in names, the soname and both packages, and `install:` has folders."""
    project = Path(shutil.copytree(built, tmp_path / "demo", symlinks=True))
    yaml = project / "targets.yaml"
    install = "install: {version: 1.10, include: include/first-1, lib: lib64/kernels}"
    text = yaml.read_text()
    assert "product: shared" in text
    yaml.write_text(text.replace("product: shared", f"product: shared, {install}"))
    for _ in range(2):  # links exist the second time
        gpubuild("install", "first", "--prefix", tmp_path / "usr", cwd=project, code=0)
    lib = tmp_path / "usr" / "lib64" / "kernels"
    links = {path.name: str(path.readlink()) for path in lib.iterdir() if path.is_symlink()}
    assert links == dict.fromkeys(("libfirst.so", "libfirst.so.1"), "libfirst.so.1.10")
    pc = str(lib / "pkgconfig")
    if shutil.which("pkg-config"):
        assert output_of("pkg-config", "--modversion", "first", PKG_CONFIG_PATH=pc) == "1.10\n"
        flags = output_of("pkg-config", "--cflags", "--libs", "first", PKG_CONFIG_PATH=pc)
        (tmp_path / "user.c").write_text(f"#include <first.h>\n{USER['.c']}")
        program = ("-o", tmp_path / "user")
        execute("cc", tmp_path / "user.c", *shlex.split(flags), f"-Wl,-rpath,{lib}", *program)
        assert runs(tmp_path / "user")
        (lib / "libfirst.so").unlink()  # which only linkers use: programs ask for the soname
        assert runs(tmp_path / "user")
    cmake = find("cmake")
    for version, code in (("", 0), ("1.9", 0), ("1.10 EXACT", 0), ("1.11", 1), ("2", 1), ("0.9", 1)):
        (tmp_path / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(user NONE)\n"
            f"find_package(first {version} REQUIRED)\n"
            "get_target_property(folder first::first INTERFACE_INCLUDE_DIRECTORIES)\n"
            'if(NOT EXISTS "${folder}/first.h")\n  message(FATAL_ERROR "no header")\nendif()\n'
        )
        command = (cmake, "-S", tmp_path, "-B", tmp_path / "out", "--fresh")
        execute(*command, f"-Dfirst_DIR={lib}/cmake/first", code=code)


def test_equal_files_keep_their_times(built: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(built, tmp_path / "demo", symlinks=True))
    for _ in range(2):
        done = gpubuild("install", "first", "--into", "here", cwd=project)
        assert (done.code, files(project / "here")) == (0, {"first.h", "first.py", "libfirst.so"}), done.err
        os.utime(project / "here" / "libfirst.so", (1, 1))
    assert (project / "here" / "libfirst.so").stat().st_mtime == 1


def test_errors(built: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(built, tmp_path / "demo", symlinks=True))
    (project / "blocked").write_text("a file")
    for arguments, message in (
        (("--prefix", "blocked"), "cannot write"),
        ((), "one of the arguments --prefix --into is required"),
        (("--prefix", "a", "nothing"), "there is no program 'nothing'"),
    ):
        assert message in gpubuild("install", *arguments, cwd=project, code=2).err


def test_nothing_is_copied_after_a_failure(tmp_path: Path) -> None:
    project = write_project(tmp_path)
    (project / "call.c").write_text("int call(void) { return missing; }\n")
    seed(project)
    gpubuild("install", "first", "--into", "here", cwd=project, code=1)
    assert not (project / "here").exists()
