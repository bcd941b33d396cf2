"""Shared libraries for tests: one source built to a library with its header and Python module."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from e2e.command import seed

from gpubuild.build.opening import open_builder
from gpubuild.config.load import loads
from gpubuild.model.project import BuildOptions, Product
from gpubuild.settings import Settings
from gpubuild.support.frozen import replace

SCALARS = (
    "i1",
    "i8",
    "i16",
    "i32",
    "i64",
    "index",
    "f16",
    "bf16",
    "f32",
    "f64",
    "complex<f32>",
    "complex<f64>",
)


def word(element: str) -> str:
    """An element type as a part of a function's name."""
    return element.replace("<", "_").replace(">", "")


def strided(rank: int) -> str:
    """A memref type of any strides."""
    return (
        f"memref<{'?x' * rank}f32, strided<[{', '.join('?' * rank)}], offset: ?>>" if rank else "memref<f32>"
    )


def functions() -> str:
    """MLIR with exported functions of every kind of argument and result."""
    parts = []
    for element in SCALARS:
        name = word(element)
        parts.append(
            f"func.func @echo_{name}(%a: {element}) -> {element} attributes {{llvm.emit_c_interface}} "
            f"{{ return %a : {element} }}\n"
            f"func.func @copy_{name}(%x: memref<?x{element}>, %y: memref<?x{element}>) attributes "
            f"{{llvm.emit_c_interface}} "
            f"{{ memref.copy %x, %y : memref<?x{element}> to memref<?x{element}> return }}\n"
        )
    for rank in range(5):
        kind = strided(rank)
        parts.append(
            f"func.func @rank_{rank}(%x: {kind}, %y: {kind}) attributes {{llvm.emit_c_interface}} "
            f"{{ memref.copy %x, %y : {kind} to {kind} return }}\n"
        )
    return "".join(parts) + OTHERS


OTHERS = """\
memref.global "private" constant @table : memref<3xi16> = dense<[1, -2, 3]>
func.func @sized(%x: memref<2x3xf32>, %y: memref<?x3xf32, strided<[4, 1]>>) -> f32
    attributes {llvm.emit_c_interface} {
  %i = arith.constant 1 : index
  %a = memref.load %x[%i, %i] : memref<2x3xf32>
  %b = memref.load %y[%i, %i] : memref<?x3xf32, strided<[4, 1]>>
  %s = arith.addf %a, %b : f32
  return %s : f32
}
func.func @fresh(%n: index, %value: i32) -> (memref<?xi32>, i1, complex<f32>, memref<?xi32>)
    attributes {llvm.emit_c_interface} {
  %m = memref.alloc(%n) : memref<?xi32>
  linalg.fill ins(%value : i32) outs(%m : memref<?xi32>)
  %t = arith.constant true
  %c = complex.constant [1.5 : f32, -2.0 : f32] : complex<f32>
  return %m, %t, %c, %m : memref<?xi32>, i1, complex<f32>, memref<?xi32>
}
func.func @same(%x: memref<?xf32>) -> memref<?xf32> attributes {llvm.emit_c_interface} {
  return %x : memref<?xf32>
}
func.func @constants() -> memref<3xi16> attributes {llvm.emit_c_interface} {
  %g = memref.get_global @table : memref<3xi16>
  return %g : memref<3xi16>
}
func.func @mixed(%class: f16, %b: memref<f32>, %c: complex<f64>, %d: i8, %e: bf16, %f: i1, %g: f64, %h: i16)
    -> f64 attributes {llvm.emit_c_interface} {
  %0 = arith.extf %class : f16 to f64
  %1 = memref.load %b[] : memref<f32>
  %2 = arith.extf %1 : f32 to f64
  %3 = complex.im %c : complex<f64>
  %4 = arith.sitofp %d : i8 to f64
  %5 = arith.extf %e : bf16 to f64
  %6 = arith.uitofp %f : i1 to f64
  %7 = arith.sitofp %h : i16 to f64
  %s1 = arith.addf %0, %2 : f64
  %s2 = arith.addf %s1, %3 : f64
  %s3 = arith.addf %s2, %4 : f64
  %s4 = arith.addf %s3, %5 : f64
  %s5 = arith.addf %s4, %6 : f64
  %s6 = arith.addf %s5, %g : f64
  %s7 = arith.addf %s6, %7 : f64
  return %s7 : f64
}
func.func @vectors(%v: vector<4xf32>) attributes {llvm.emit_c_interface} { return }
func.func @unranked(%m: memref<*xf32>) -> memref<*xf32> attributes {llvm.emit_c_interface} {
  return %m : memref<*xf32>
}
func.func @not_exported(%v: f32) { return }
func.func private @fill(%m: memref<*xf32>) {
  %r = memref.cast %m : memref<*xf32> to memref<1xf32>
  %c0 = arith.constant 0 : index
  %v = arith.constant 7.0 : f32
  memref.store %v, %r[%c0] : memref<1xf32>
  return
}
func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}
func.func @without_rank(%x: memref<1xf32>, %y: memref<1xf32>) attributes {llvm.emit_c_interface} {
  %u = memref.cast %x : memref<1xf32> to memref<*xf32>
  call @printMemrefF32(%u) : (memref<*xf32>) -> ()
  %v = memref.cast %y : memref<1xf32> to memref<*xf32>
  call @fill(%v) : (memref<*xf32>) -> ()
  return
}
func.func @times(%x: memref<1x1xf32>, %y: memref<1x1xf32>, %z: memref<1x1xf32>)
    attributes {llvm.emit_c_interface} {
  linalg.matmul ins(%x, %y : memref<1x1xf32>, memref<1x1xf32>) outs(%z : memref<1x1xf32>)
  return
}
func.func @"a-b"(%x: i32) -> i32 attributes {llvm.emit_c_interface} { return %x : i32 }
func.func @a_b(%x: f32) -> f32 attributes {llvm.emit_c_interface} { return %x : f32 }
func.func @"1st"(%x: i32) -> i32 attributes {llvm.emit_c_interface} { return %x : i32 }
func.func @max(%x: complex<f32>, %x_re: f32) -> f32 attributes {llvm.emit_c_interface} { return %x_re : f32 }
func.func @fresh_results(%x: i32) -> i32 attributes {llvm.emit_c_interface} { return %x : i32 }
func.func @Stream(%x: i32) -> i32 attributes {llvm.emit_c_interface} { return %x : i32 }
"""


def build_library(folder: Path, name: str, text: str, *targets: str) -> Path:
    """Build ``NAME.mlir`` in ``folder``, for ``targets`` and the CPU; return the folder with the library."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "cache").exists():
        seed(folder)
    (folder / f"{name}.mlir").write_text(text)
    document = {
        "version": 1,
        "targets": {target: {} for target in (*targets, "cpu")},
        "programs": {name: {"sources": [f"{name}.mlir"]}},
        "cache": {"dir": "cache"},
    }
    project = loads(json.dumps(document), folder / "targets.yaml")
    programs = {key: replace(p, product=Product.SHARED) for key, p in project.programs.items()}
    options = BuildOptions(build_dir=folder / "build")
    with open_builder(replace(project, programs=programs), Settings.from_environ(), options) as builder:
        report = builder.build()
    assert report.ok, "\n".join(step.error.render() for step in report.failed if step.error)
    return folder / "build" / name


def imported(file: Path) -> ModuleType:
    """Import a module by its path."""
    spec = importlib.util.spec_from_file_location(f"{file.stem}_{abs(hash(file))}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# zig makes libraries of its own for each other processor, and for messages about undefined behaviour.
ZIG_CC = [sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline", "-fsanitize-trap=undefined"]
COMPILERS = {
    "c": ["cc", "-x", "c", "-std=c99"],
    "c++": ["c++", "-x", "c++", "-std=c++11"],
    "zig-c": [*ZIG_CC, "-x", "c", "-std=c11"],
    # As `cc`: `c++` would make its C++ library first, which takes a minute.
    "zig-c++": [*ZIG_CC, "-x", "c++", "-std=c++17"],
}


def compiler(name: str) -> list[str]:
    """A compiler's command line; skips where the machine has none."""
    import shutil

    command = COMPILERS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"no {command[0]}")
    return [*command, "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
