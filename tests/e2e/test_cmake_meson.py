"""The snippets of docs/how-to/cmake-meson.md, by the real tools."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from pathlib import Path

import pytest
from e2e.command import ROOT, execute, gpubuild, launcher, run_on_cpu, shared_cache
from variants import few

PAGE = (ROOT / "docs" / "how-to" / "cmake-meson.md").read_text()


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
    """The project of `gpubuild init` without its main, in an environment that has `gpubuild` in PATH."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.root, self.environment = folder, environment
        self.run("gpubuild", "init", str(folder), cwd=folder.parent)
        (self.root / "targets.yaml").write_text(block("yaml"))

    def run(self, *command: str, cwd: Path | None = None) -> str:
        return execute(*command, cwd=cwd or self.root, env=self.environment).out


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """With the gpubuild that is tested; the file ``calls`` has a line for each command."""
    tools = launcher(tmp_path / "bin", log=tmp_path / "calls")
    path = f"{tools}{os.pathsep}{sysconfig.get_path('scripts')}{os.pathsep}/usr/bin:/bin"
    return Project(tmp_path / "demo", {**os.environ, "PATH": path} | shared_cache())


def edit_kernel(project: Project) -> None:
    kernel = (project.root / "scale.mlir").read_text()
    (project.root / "scale.mlir").write_text(kernel.replace("arith.mulf", "arith.addf", 1))


def is_ok(program: Path) -> bool:
    return run_on_cpu(program).code == 0


@pytest.mark.parametrize("product", few(["static", "shared", "object"]))
def test_cmake(tmp_path: Path, project: Project, product: str) -> None:
    cmake, ctest = find("cmake"), find("ctest")
    find("ninja")
    (project.root / "targets.yaml").write_text(block("yaml").replace("static", product))
    (project.root / "CMakeLists.txt").write_text(block("cmake"))
    # As wheels install it, beside the folder of the command.
    folder = gpubuild("--cmake-dir", cwd=project.root).out.strip()
    shutil.copytree(folder, tmp_path / "share" / "cmake" / "gpubuild")
    project.run(cmake, "-G", "Ninja", "-S", ".", "-B", "out")
    project.run(cmake, "--build", "out")
    assert "100% tests passed" in project.run(ctest, "--test-dir", "out")
    again = project.run(cmake, "--build", "out", "--verbose")
    assert "-o user " not in again, "nothing is linked in vain"
    assert "Re-running CMake" not in again
    edit_kernel(project)
    project.run(cmake, "--build", "out")
    assert not is_ok(project.root / "out" / "user"), "the program has the kernel that was edited"


def test_an_executable_and_errors_in_cmake(tmp_path: Path, project: Project) -> None:
    cmake = find("cmake")
    find("ninja")
    lists = project.root / "CMakeLists.txt"
    configure = [cmake, "-G", "Ninja", "-S", ".", "-B", "out"]
    configure += [f"-Dgpubuild_DIR={gpubuild('--cmake-dir', cwd=tmp_path).out.strip()}"]
    for call, message in (
        ("scale NAMES a", "unexpected NAMES;a"),
        ("nothing", "there is no program 'nothing'"),
        ("scale PROJECT x.yaml", "cannot read the project file"),
    ):
        lists.write_text(
            block("cmake").replace("gpubuild_add_program(scale)", f"gpubuild_add_program({call})")
        )
        done = execute(*configure, cwd=project.root, env=project.environment, code=None)
        assert done.code != 0
        assert message in " ".join(done.err.split()), done.err
    yaml = block("yaml").replace("[scale.mlir], product: static", "[scale.mlir, main.c]")
    (project.root / "targets.yaml").write_text(yaml)
    lists.write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(scale NONE)\nfind_package(gpubuild REQUIRED)\n"
        "gpubuild_add_program(scale TARGETS cpu)\nenable_testing()\n"
        "add_test(NAME scale COMMAND scale::scale)\n"
    )
    project.run(*configure)
    project.run(cmake, "--build", "out")
    program = project.root / "out" / "gpubuild-scale" / "bin" / "scale"
    assert is_ok(program)
    assert "sm_90" not in gpubuild("inspect", program, cwd=project.root).out


# With the types of the header, so that it has to be there before this is compiled.
MAIN = """\
#include "scale.h"
int main(void) {
    float data[4] = {1, 2, 3, 4};
    gpubuild_memref_f32_1 x = gpubuild_make_f32_1(data, 4);
    scale(3.0f, &x);
    return data[3] != 12.0f;
}
"""


def meson_project(project: Project) -> None:
    """Write the project of the page, by its command."""
    command = re.search(r"`(mkdir -p subprojects [^`]*)`", PAGE)
    assert command
    project.run("sh", "-c", command[1])
    (project.root / "meson.build").write_text(block("meson"))


@pytest.mark.parametrize("product", few(["shared, install: {version: 1.2}", "static", "shared"]))
def test_meson(tmp_path: Path, project: Project, product: str) -> None:
    meson = find("meson")
    find("ninja")
    (project.root / "main.c").write_text(MAIN)
    libraries = {"libscale.a" if product == "static" else "libscale.so"}
    if "version" in product:
        libraries |= {"libscale.so.1", "libscale.so.1.2"}
    (project.root / "targets.yaml").write_text(block("yaml").replace("static", product))
    meson_project(project)
    project.run(meson, "setup", "out")
    assert re.search(r"^Ok: +1", project.run(meson, "test", "-C", "out"), re.M)
    calls = tmp_path / "calls"
    calls.unlink()
    assert "-o user" not in project.run(meson, "compile", "-C", "out", "-v"), "nothing is linked in vain"
    assert len(calls.read_text().splitlines()) == 1, "a build with nothing to do runs gpubuild once"
    project.run(meson, "install", "-C", "out", "--no-rebuild", "--destdir", "staging")
    installed = {path.name for path in (project.root / "out" / "staging").rglob("*") if path.is_file()}
    assert installed == {*libraries, "scale.h"}
    edit_kernel(project)
    project.run(meson, "compile", "-C", "out")
    assert not is_ok(project.root / "out" / "user"), "the program has the kernel that was edited"


ELSEWHERE = """\
#include <string>
extern "C" int elsewhere(int, char **);
std::string text(int n) { return std::string(n, elsewhere ? 'x' : 'y'); }
"""


@pytest.mark.parametrize(
    "tool, product", few([("cmake", "object"), ("meson", "static"), ("cmake", "static")], 2)
)
def test_a_program_of_c_gets_what_a_library_needs(project: Project, tool: str, product: str) -> None:
    """C++'s library, and the flags under `link:`."""
    command = find(tool)
    find("ninja")
    needs = f"[scale.mlir, text.cpp], link: {{flags: ['-Wl,--defsym=elsewhere=main']}}, product: {product}"
    yaml = block("yaml").replace("[scale.mlir], product: static", needs)
    (project.root / "targets.yaml").write_text(yaml)
    (project.root / "text.cpp").write_text(ELSEWHERE)
    (project.root / "main.c").write_text(MAIN)
    if tool == "meson":
        meson_project(project)
        project.run(command, "setup", "out")
        project.run(command, "compile", "-C", "out")
    else:
        (project.root / "CMakeLists.txt").write_text(
            block("cmake").replace("(scale C)", f"(scale {'C' if product == 'object' else 'C CXX'})")
        )
        folder = gpubuild("--cmake-dir", cwd=project.root).out.strip()
        project.run(command, "-G", "Ninja", "-S", ".", "-B", "out", f"-Dgpubuild_DIR={folder}")
        project.run(command, "--build", "out")
    assert is_ok(project.root / "out" / "user")


def test_a_program_that_is_no_library_in_meson(project: Project) -> None:
    meson = find("meson")
    find("ninja")
    (project.root / "targets.yaml").write_text(block("yaml").replace("static", "object"))
    meson_project(project)
    done = execute(meson, "setup", "out", cwd=project.root, env=project.environment, code=None)
    assert done.code != 0
    assert "program scale is no library: give it `product: static`" in done.out


def test_other_targets_and_project_files_in_meson(project: Project) -> None:
    meson = find("meson")
    find("ninja")
    (project.root / "main.c").write_text(MAIN)
    (project.root / "targets.yaml").rename(project.root / "other.yaml")
    meson_project(project)
    options = ["-Dgpubuild:project_file=other.yaml", "-Dgpubuild:targets=cpu"]
    project.run(meson, "setup", "out", *options)
    assert re.search(r"^Ok: +1", project.run(meson, "test", "-C", "out"), re.M)
    assert "sm_90" not in gpubuild("inspect", "out/user", cwd=project.root).out
