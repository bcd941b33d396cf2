"""C and MLIR call each other: memrefs and numbers both ways, printing through the real runtime."""

import subprocess
from pathlib import Path

import pytest
from unit.engine.steps import COMPILERS, Tools, run_step

from gpubuild.build.builder import runtime_sources
from gpubuild.model.project import Offload
from gpubuild.model.step import (
    CcParams,
    HostParams,
    LinkParams,
    OutlineParams,
    PreprocessParams,
    RuntimeParams,
    StepKind,
)

MLIR = """
// Implemented in C.
func.func private @offset(%row: index, %x: memref<?xf32>) -> f32 attributes {llvm.emit_c_interface}
func.func private @printMemrefF32(memref<*xf32>) attributes {llvm.emit_c_interface}

// Called from C.
func.func @scale(%m: memref<?x?xf32>, %factor: f32) -> i64 attributes {llvm.emit_c_interface} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %rows = memref.dim %m, %zero : memref<?x?xf32>
  %columns = memref.dim %m, %one : memref<?x?xf32>
  %scratch = memref.alloc(%columns) : memref<?xf32>
  scf.for %i = %zero to %rows step %one {
    scf.for %j = %zero to %columns step %one {
      %v = memref.load %m[%i, %j] : memref<?x?xf32>
      %w = arith.mulf %v, %factor : f32
      memref.store %w, %scratch[%j] : memref<?xf32>
    }
    %add = func.call @offset(%i, %scratch) : (index, memref<?xf32>) -> f32
    scf.for %j = %zero to %columns step %one {
      %v = memref.load %scratch[%j] : memref<?xf32>
      %e = math.erf %add : f32
      %w = arith.addf %v, %e : f32
      memref.store %w, %m[%i, %j] : memref<?x?xf32>
    }
  }
  %any = memref.cast %m : memref<?x?xf32> to memref<*xf32>
  func.call @printMemrefF32(%any) : (memref<*xf32>) -> ()
  memref.dealloc %scratch : memref<?xf32>
  %count = arith.muli %rows, %columns : index
  %result = arith.index_cast %count : index to i64
  return %result : i64
}
"""
C = """
#include <stdint.h>
#include <stdio.h>

struct vector { float *allocated, *aligned; int64_t offset, sizes[1], strides[1]; };
struct matrix { float *allocated, *aligned; int64_t offset, sizes[2], strides[2]; };

int64_t _mlir_ciface_scale(struct matrix *m, float factor);

/* Called from MLIR: nothing in the first row, infinity's worth of erf in the others. */
float _mlir_ciface_offset(int64_t row, struct vector *x) {
    return row == 0 ? 0.0f : 1000.0f * (float)x->sizes[0];
}

int main(void) {
    float data[6] = {1, 2, 3, 4, 5, 6};
    struct matrix m = {data, data, 0, {2, 3}, {3, 1}};
    printf("%d\\n", (int)_mlir_ciface_scale(&m, 10.0f));
    return data[5] == 61.0f ? 0 : 1;
}
"""


@pytest.fixture(params=["system", "zig"])
def tools(request: pytest.FixtureRequest) -> Tools:
    return COMPILERS[request.param]()


def test_both_ways(tmp_path: Path, tools: Tools) -> None:
    outline = run_step(
        tmp_path / "outline",
        StepKind.OUTLINE,
        OutlineParams(source_name="app.mlir"),
        {"source": MLIR},
        ("index.json", "host.mlir", "host_located.mlir", "places.txt"),
    )
    host = run_step(
        tmp_path / "host",
        StepKind.HOST,
        HostParams(modules=(), offload=Offload.DISPATCH),
        {"host": outline.outputs["host.mlir"], "located": outline.outputs["host_located.mlir"]},
        ("mlir", "llvm", "object"),
    )
    source = tmp_path / "main.c"
    source.write_text(C)
    pre = run_step(
        tmp_path / "pre",
        StepKind.PREPROCESS,
        PreprocessParams(language="c", suffix=".i", source_name="main.c"),
        {"source": source},
        ("text", "deps"),
        tools,
    )
    cc = run_step(
        tmp_path / "cc",
        StepKind.CC,
        CcParams(language="c", source_name="main.c"),
        {"text": pre.outputs["text"], "source": source},
        ("object",),
        tools,
    )
    runtime = run_step(
        tmp_path / "rt",
        StepKind.RUNTIME,
        RuntimeParams(),
        runtime_sources(),
        ("archive",),
        tools,
    )
    link = run_step(
        tmp_path / "link",
        StepKind.LINK,
        LinkParams(),
        {
            "object.0": host.outputs["object"],
            "object.1": cc.outputs["object"],
            "runtime": runtime.outputs["archive"],
        },
        ("executable",),
        tools,
    )
    program = tmp_path / "app"
    program.write_bytes(link.outputs["executable"])
    program.chmod(0o755)
    made = subprocess.run([program], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    shown = " ".join(made.stdout.split())
    assert "sizes = [2, 3]" in shown
    assert "[[10, 20, 30], [41, 51, 61]] 6" in shown
