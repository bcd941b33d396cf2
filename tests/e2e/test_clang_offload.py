"""`offload: clang` finished by the real clang-linker-wrapper, and run on the CPU and on fake drivers."""

from __future__ import annotations

import functools
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e.command import ROOT, Outcome, execute, gpubuild, quick_compiler, run_on_cpu
from e2e.test_products import CPU, INTERFACE, UNLOADING, exports, product, write_project
from unit.engine.host.test_offload_binary import llvm_tool
from unit.engine.steps import run_step

from gpubuild.model.step import LinkParams, StepKind
from gpubuild.settings import Settings
from gpubuild.toolchain.clang_linker_wrapper import CUDA, WRAPPER, cuda_files, find_wrapper
from gpubuild.toolchain.find import Toolchain

FAKES = ROOT / "tests/unit/runtime/fakes"
SETTINGS = Settings.from_environ()
HAS_WRAPPER = find_wrapper(SETTINGS.clang_linker_wrapper, SETTINGS.search_path)[0] is not None
HAS_CUDA = all(file.exists() for file in cuda_files(SETTINGS.cuda_path))
PROJECT = """\
version: 1
targets: {sm_90: {}, gfx90a: {}, cpu: {}}
programs:
  app: {sources: [two_modules.mlir], targets: [TARGETS], offload: clang, link: {libraries: [m], flags: [-lm]}}
  clash: {sources: [two_modules.mlir, more.mlir], targets: [gfx90a], offload: clang}
"""
# The same kernel's name as in two_modules.mlir.
MORE = """\
module attributes {gpu.container_module} {
  gpu.module @more { gpu.func @pattern() kernel { gpu.return } }
}
"""

pytestmark = pytest.mark.skipif(
    not HAS_WRAPPER, reason="no clang-linker-wrapper-22 (Debian: clang-tools-22, lld-22)"
)


@functools.cache
def toolchain() -> Toolchain:
    """What it finds it digests, so not while tests are collected."""
    return Toolchain(SETTINGS)


@dataclass(frozen=True)
class Built:
    """The project, built with ``--keep-going``: ``clash`` cannot be linked."""

    folder: Path
    outcome: Outcome

    @property
    def program(self) -> Path:
        return self.folder / "build/app/app"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Built:
    folder = tmp_path_factory.mktemp("clang")
    shutil.copy(ROOT / "examples/two_modules/two_modules.mlir", folder)
    (folder / "more.mlir").write_text(MORE)
    targets = "sm_90, gfx90a, cpu" if HAS_CUDA else "gfx90a, cpu"
    (folder / "targets.yaml").write_text(PROJECT.replace("TARGETS", targets))
    return Built(folder, gpubuild("build", "--keep-going", cwd=folder, env=shared_cache))


def fake_driver(folder: Path, name: str, soname: str) -> Path:
    folder.mkdir()
    command = ["cc", "-std=gnu11", "-fPIC", "-shared", "-pthread", "-o", folder / soname, FAKES / f"{name}.c"]
    execute(*command)
    return folder


def run_on_fake(program: Path, driver: Path, devices: str) -> tuple[list[str], str]:
    """Calls that the driver got and the program's trace; its kernels do nothing, so its results are wrong."""
    log = driver / "calls"
    environment = {
        "LD_LIBRARY_PATH": str(driver), "FAKE_LOG": str(log), "FAKE_DEVICES": devices, "GPUBUILD_TRACE": "1"
    }  # fmt: skip
    done = execute(program, env=environment, code=None)
    return log.read_text().splitlines(), done.err


def test_the_cpu_s_image_gives_right_results(built: Built) -> None:
    done = run_on_cpu(built.program)
    assert (done.code, done.out) == (0, "two_modules: OK (sum of squares 85000)\n"), done.err


def test_shared_libraries_are_opened_and_closed(tmp_path: Path, shared_cache: dict[str, str]) -> None:
    project = write_project(
        tmp_path,
        "version: 1\ntargets: {gfx90a: {}, cpu: {}}\nprograms:\n"
        "  first: {sources: [scale.mlir, call.c], product: shared, offload: clang}\n"
        "  second: {sources: [scale.mlir, call.c], product: shared, offload: clang}\n",
    )
    gpubuild("build", cwd=project, env=shared_cache, code=0)
    libraries = [product(project, name) for name in ("first", "second")]
    assert {n for n in exports(libraries[0]) if not n.startswith("gpubuild_abi_")} == INTERFACE
    program = tmp_path / "unloading"
    execute("cc", "-std=gnu11", "-pthread", UNLOADING, "-ldl", "-o", program)
    for what in ("again", "two", "threads"):
        ran = execute(program, what, *libraries, env={**os.environ, **CPU}, code=None)
        assert (ran.code, ran.out, ran.err) == (0, "", ""), what


def test_it_needs_no_sdk(built: Built) -> None:
    dynamic = execute(llvm_tool("llvm-readelf"), "-d", built.program).out
    assert set(re.findall(r"NEEDED.*\[(\w+)", dynamic)) <= {"libm", "libc", "libdl", "libpthread", "ld"}


def test_amd_s_image_is_linked_of_both_modules_and_arrives(built: Built, tmp_path: Path) -> None:
    calls, trace = run_on_fake(
        built.program, fake_driver(tmp_path / "hip", "hip", "libamdhip64.so"), "gfx90a:sramecc+:xnack-"
    )
    loads = [call for call in calls if call.startswith("hipModuleLoadData")]
    assert loads == ["hipModuleLoadData dev=0 7f454c46 machine=224"] * 2  # one for each gpu.module
    kernels = ["pattern", "sum_of_squares"]
    assert [c.split()[-1] for c in calls if c.startswith("hipModuleGetFunction")] == kernels
    assert sum(call.startswith("hipModuleLaunchKernel") for call in calls) == 2
    # What llvm-objdump takes out of the executable is what was loaded.
    shutil.copy(built.program, tmp_path / "app")
    listed = execute(llvm_tool("llvm-objdump"), "--offloading", "app", cwd=tmp_path).out
    assert re.search(r"arch +x86-64-v2\n.*\nproducer +openmp", listed)
    image = tmp_path / "app.0.hip-amdgcn-amd-amdhsa--gfx90a"
    assert f"image gfx90a of target gfx90a (hsaco, {image.stat().st_size} bytes) on hip:0" in trace
    notes = execute(llvm_tool("llvm-readelf"), "--notes", image).out
    assert notes.count("NT_AMDGPU_METADATA") == 1  # drivers read the first one only
    assert re.findall(r"\.symbol: +(\w+)\.kd", notes) == kernels


@pytest.mark.skipif(not HAS_CUDA, reason="no nvlink and fatbinary of CUDA (CUDA_PATH)")
def test_nvidia_s_fat_binary_arrives(built: Built, tmp_path: Path) -> None:
    calls, trace = run_on_fake(built.program, fake_driver(tmp_path / "cuda", "cuda", "libcuda.so.1"), "9.0")
    assert "image sm_90 of target sm_90 (fatbin, " in trace
    assert sum(call.startswith("cuModuleLoadData ctx=0 50ed55ba") for call in calls) == 2
    assert sum(call.startswith("cuLaunchKernel") for call in calls) == 2


def test_inspect_knows_modules_and_targets(built: Built) -> None:
    def rows(file: Path) -> dict[tuple[str, str], dict[str, Any]]:
        document = gpubuild("inspect", file, "--json", cwd=built.folder).document
        return {(m["name"], o["target"]): o for m in document["modules"] for o in m["objects"]}

    program, host = rows(built.program), rows(built.program.parent / "host.o")
    assert program.keys() == host.keys() >= {(m, t) for m in ("fill", "norm") for t in ("gfx90a", "cpu")}
    assert {o["format"] for (_, t), o in host.items() if t == "gfx90a"} == {"offload"}
    amd = program["norm", "gfx90a"]
    assert [(k["name"], k["shared_bytes"]) for k in amd["kernels"]] == [("sum_of_squares", 64)]
    assert amd["format"] == "bin"
    assert amd["kernels"][0]["code_bytes"] > 0
    # One image of both modules for each chip, in parts before.
    assert program["fill", "cpu"]["size_bytes"] == program["norm", "cpu"]["size_bytes"] > 0
    assert 0 < host["fill", "cpu"]["size_bytes"] < host["norm", "cpu"]["size_bytes"]


def test_kernels_of_one_name_are_an_error_that_says_so(built: Built) -> None:
    assert built.outcome.code == 1
    assert "cannot link: pattern is defined more than once" in built.outcome.err
    why = "offload: clang links the kernels of all gpu.modules for a chip into one image"
    assert why in built.outcome.err


def test_it_is_linked_the_same_everywhere(built: Built, tmp_path: Path) -> None:
    names = ("cc", WRAPPER, *((CUDA,) if HAS_CUDA else ()))
    tools = {name: toolchain().require(name).command for name in names}
    inputs: dict[str, bytes | str | Path] = {
        "object.0": (built.folder / "build/app/host.o").read_bytes(),
        "runtime": (built.folder / "build/.gpubuild/runtime/libgpubuild_rt.a").read_bytes(),
    }
    params = LinkParams(libraries=("m",), flags=("-lm",), wrapper_triple="x86_64-unknown-linux-gnu")
    ran = run_step(tmp_path / "a longer name", StepKind.LINK, params, inputs, ("executable",), tools)
    assert ran.outputs["executable"] == built.program.read_bytes()
    assert str(tmp_path).encode() not in ran.outputs["executable"]


def test_an_export_is_linked_elsewhere(built: Built, shared_cache: dict[str, str]) -> None:
    gpubuild("export", "app", "-o", "out", cwd=built.folder, env=shared_cache, code=0)
    environment = {**os.environ, "CLANG_LINKER_WRAPPER": toolchain().require(WRAPPER).command[0]}
    environment["CC"] = quick_compiler(built.folder)
    execute("sh", built.folder / "out/link.sh", env=environment)
    assert run_on_cpu(built.folder / "out/app").out == "two_modules: OK (sum of squares 85000)\n"


def test_clang_s_driver_links_it_too(built: Built, tmp_path: Path) -> None:
    """As a build tool does whose compiler is clang, with one option (and where CUDA is)."""
    cuda = [f"--cuda-path={toolchain().require(CUDA).command[0]}"] if HAS_CUDA else []
    options = ["--offload-link", *cuda]
    clang = Path(toolchain().require(WRAPPER).command[0]).resolve().with_name("clang")
    objects = [built.folder / "build/app/host.o", built.folder / "build/.gpubuild/runtime/libgpubuild_rt.a"]
    libraries = ("-lm", "-ldl", "-lpthread")
    execute(clang, *options, "-o", tmp_path / "app", *objects, *libraries)
    assert run_on_cpu(tmp_path / "app").out == "two_modules: OK (sum of squares 85000)\n"
