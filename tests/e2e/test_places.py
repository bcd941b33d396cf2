"""What a failing program says of the operation that failed: its line in the source as that is now."""

# ruff: noqa: E501  (lines of a program inside a string)

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from e2e.command import build_project, execute, gpubuild, run_python, without_settings

SOURCE = """\
module attributes {gpu.container_module} {
gpu.module @k {
  gpu.func @plain(%a: memref<?xf32>) kernel {
    gpu.return
  }
  gpu.func @divergent(%n: index) kernel {
    %t = gpu.thread_id x
    %in = arith.cmpi ult, %t, %n : index
    scf.if %in {
      gpu.barrier  // divergent
    }
    gpu.return
  }
}
func.func @oversized(%n: index) attributes {llvm.emit_c_interface} {
  %one = arith.constant 1 : index
  %two = arith.constant 2 : index
  %a = gpu.alloc (%one) : memref<?xf32>
  gpu.launch_func @k::@plain blocks in (%one, %one, %one) threads in (%n, %one, %one) args(%a : memref<?xf32>)
  gpu.launch_func @k::@plain blocks in (%one, %one, %one) threads in (%n, %two, %one) args(%a : memref<?xf32>)  // oversized
  return
}
func.func @waits(%n: index) attributes {llvm.emit_c_interface} {
  %one = arith.constant 1 : index
  %s = gpu.wait async
  %e = gpu.launch_func async [%s] @k::@divergent blocks in (%one, %one, %one) threads in (%n, %one, %one) args(%one : index)  // waits
  gpu.wait [%e]
  return
}
func.func @copies(%n: index) attributes {llvm.emit_c_interface} {
  %one = arith.constant 1 : index
  %a = gpu.alloc (%one) : memref<?xf32>
  %b = gpu.alloc (%n) : memref<?xf32>
  gpu.memcpy %b, %a : memref<?xf32>, memref<?xf32>
  gpu.memcpy %a, %b : memref<?xf32>, memref<?xf32>  // copies
  return
}
func.func @frees(%n: index) attributes {llvm.emit_c_interface} {
  %a = gpu.alloc (%n) : memref<?xf32>
  gpu.dealloc %a : memref<?xf32>
  gpu.dealloc %a : memref<?xf32>  // frees
  return
}
func.func @checks(%n: index) attributes {llvm.emit_c_interface} {
  %limit = arith.constant 3 : index
  %ok = arith.cmpi ult, %n, %limit : index
  cf.assert %ok, "not \\22small\\22: 100 %d"  // checks
  return
}
}
"""
MAIN = """\
#include <stdint.h>
#include <string.h>
void oversized(intptr_t), waits(intptr_t), copies(intptr_t), frees(intptr_t), checks(intptr_t);
int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "oversized")) oversized(1000);
    if (!strcmp(what, "waits")) waits(64);
    if (!strcmp(what, "copies")) copies(3);
    if (!strcmp(what, "frees")) frees(3);
    checks(2);
    if (!strcmp(what, "checks")) checks(3);
    return 0;
}
"""
PROJECT = """\
version: 1
targets:
  mine: {kind: cpu, chip: x86-64-v2}
programs:
  app: {sources: [src/app.mlir, main.c]}
  selected: {sources: [src/app.mlir, main.c], offload: select_object}
  library: {sources: [src/app.mlir], product: shared}
"""
# The operation that fails, its name, and what is said of the failure.
FAILURES = {
    "oversized": ("gpu.launch_func", "1000 x 2 x 1 has more than 1024 work-items"),
    "waits": ("gpu.launch_func", "1 of 64 work-items wait at gpu.barrier in @divergent at src/app.mlir:"),
    "copies": ("gpu.memcpy", "copies 12 bytes"),
    "frees": ("gpu.dealloc", "freed twice"),
    "checks": ("cf.assert", 'assertion failed: not "small": 100 %d'),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("places")
    build_project(folder, PROJECT, {"src/app.mlir": SOURCE, "main.c": MAIN})
    return folder


def message(program: Path, what: str) -> str:
    return execute(program, what, env=without_settings(), code=1).err


def line_of(mark: str, source: Path) -> int:
    return next(n for n, text in enumerate(source.read_text().splitlines(), 1) if text.endswith(f"// {mark}"))


@pytest.mark.parametrize("what", FAILURES)
def test_the_line_of_the_operation(project: Path, what: str) -> None:
    said = message(project / "build/app/app", what)
    name, text = FAILURES[what]
    assert text in said
    line = line_of(what, project / "src/app.mlir")
    assert re.search(rf"^  location: src/app\.mlir:{line}:\d+ \({name} in @{what}\)$", said, re.MULTILINE), (
        said
    )
    assert "  program: app\n" in said
    if name == "gpu.launch_func":
        kernel = "divergent" if what == "waits" else "plain"
        assert f"  module: k\n  kernel: {kernel}\n  target: mine (x86-64-v2, shared object)\n" in said


def test_a_library_finds_the_line_whatever_program_has_loaded_it(project: Path) -> None:
    library = project / "build/library/liblibrary.so"
    code = f"import ctypes; ctypes.CDLL({str(library)!r}).frees(ctypes.c_size_t(3))"
    env = {**os.environ, "GPUBUILD_DEVICE": "cpu"}
    done = run_python(code, env=env, code=None)
    line = line_of("frees", project / "src/app.mlir")
    assert f"  location: src/app.mlir:{line}:3 (gpu.dealloc in @frees)\n" in done.err


def test_a_comment_moves_the_line_and_links_nothing(project: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(project, tmp_path / "copy", symlinks=True))
    source = other / "src/app.mlir"
    source.write_text("// one\n// two\n" + SOURCE)
    statuses = gpubuild("build", "--json", cwd=other).statuses()
    assert {step for step, status in statuses.items() if status != "up-to-date"} == {"outline/src/app.mlir"}
    line = SOURCE.splitlines().index("      gpu.barrier  // divergent") + 3
    said = message(other / "build/app/app", "waits")
    assert f"wait at gpu.barrier in @divergent at src/app.mlir:{line}:7, but" in said
    assert f"  location: src/app.mlir:{line_of('waits', source)}:8 (gpu.launch_func in @waits)\n" in said
    # Now nothing is outlined: only the table of places is written. That needs a receipt of the last build,
    # and none is left while other processes change folders of tools, as tests beside this one do.
    for number in range(1, 6):
        source.write_text(SOURCE.replace("func.func", "// more\n" * number + "func.func"))
        statuses = gpubuild("build", "--json", cwd=other).statuses()
        if set(statuses.values()) == {"up-to-date"}:
            break
    assert set(statuses.values()) == {"up-to-date"}
    said = message(other / "build/app/app", "waits")
    assert f"  location: src/app.mlir:{line_of('waits', source)}:8 (gpu.launch_func in @waits)\n" in said
    # An error names the line in the source as it is now.
    source.write_text(source.read_text().replace("gpu.thread_id x", "gpu.thread_id q"))
    line = line_of("divergent", source) - 3
    assert f"src/app.mlir:{line}:" in gpubuild("build", cwd=other).err


def test_a_dry_run_after_an_edited_comment_says_what_a_build_does(project: Path, tmp_path: Path) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (other / "build").rglob("*") if path.is_file()}

    other = Path(shutil.copytree(project, tmp_path / "copy", symlinks=True))
    for number in range(1, 7):  # as above
        (other / "src/app.mlir").write_text("// more\n" * number + SOURCE)
        before = files()
        dry = set(gpubuild("build", "-n", "--json", cwd=other).statuses().values())
        if dry == {"up-to-date"}:
            break
        gpubuild("build", cwd=other)
    assert dry == {"up-to-date"}
    assert files() == before
    assert set(gpubuild("build", "--json", cwd=other).statuses().values()) == {"up-to-date"}


def test_away_from_the_build_the_operation_is_named(project: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copy(project / "build/app/app", tmp_path / "moved"))
    said = message(moved, "waits")
    assert "wait at gpu.barrier in @divergent, but" in said
    assert "  location: gpu.launch_func in @waits\n" in said
    shutil.copy(project / "build/.gpubuild/sources/src%2Fapp.mlir/places.txt", tmp_path / "moved.places.txt")
    assert "  location: src/app.mlir:" in message(moved, "waits")


def test_upstreams_host_code_says_the_kernel(project: Path) -> None:
    """``select_object`` is upstream's code as it is: it does not say which launch it is at."""
    said = message(project / "build/selected/selected", "oversized")
    assert "  kernel: plain\n" in said
    assert "  location: src/app.mlir:3:3 (gpu.func @plain)\n" in said
