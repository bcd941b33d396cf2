"""Template: the files of a new project."""

from __future__ import annotations

TARGETS_YAML = """\
# What to build, and for which devices. See `gpubuild --help`.
version: 1

targets:
  sm_60: {}
  sm_90: {}
  gfx90a: {}
  cpu: {}

programs:
  scale:
    sources: [scale.mlir, main.c]
"""

KERNEL = """\
// scale(factor, x): multiplies every element of x by factor, on the device.
module attributes {gpu.container_module} {
  gpu.module @scale_kernels {
    gpu.func @scale(%factor: f32, %x: memref<?xf32>, %n: index) kernel {
      %i = gpu.global_id x
      %inside = arith.cmpi ult, %i, %n : index
      scf.if %inside {
        %old = memref.load %x[%i] : memref<?xf32>
        %new = arith.mulf %factor, %old : f32
        memref.store %new, %x[%i] : memref<?xf32>
      }
      gpu.return
    }
  }

  func.func @scale(%factor: f32, %x: memref<?xf32>) attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c256 = arith.constant 256 : index
    %n = memref.dim %x, %c0 : memref<?xf32>
    %blocks = arith.ceildivui %n, %c256 : index

    %t0 = gpu.wait async
    %dx, %t1 = gpu.alloc async [%t0] (%n) : memref<?xf32>
    %t2 = gpu.memcpy async [%t1] %dx, %x : memref<?xf32>, memref<?xf32>
    %t3 = gpu.launch_func async [%t2] @scale_kernels::@scale
        blocks in (%blocks, %c1, %c1) threads in (%c256, %c1, %c1)
        args(%factor : f32, %dx : memref<?xf32>, %n : index)
    %t4 = gpu.memcpy async [%t3] %x, %dx : memref<?xf32>, memref<?xf32>
    %t5 = gpu.dealloc async [%t4] %dx : memref<?xf32>
    gpu.wait [%t5]
    return
  }
}
"""

MAIN_C = """\
#include <stdint.h>
#include <stdio.h>

// How MLIR passes a memref<?xf32>.
typedef struct {
  float *allocated;
  float *aligned;
  intptr_t offset;
  intptr_t sizes[1];
  intptr_t strides[1];
} Vector;

void _mlir_ciface_scale(float factor, Vector *x);

int main(void) {
  float data[1000];
  for (int i = 0; i < 1000; ++i) data[i] = (float)i;
  Vector x = {data, data, 0, {1000}, {1}};
  _mlir_ciface_scale(3.0f, &x);
  int wrong = 0;
  for (int i = 0; i < 1000; ++i) wrong += data[i] != 3.0f * (float)i;
  printf("scale: %s (%d of 1000 elements wrong)\\n", wrong ? "FAILED" : "OK", wrong);
  return wrong != 0;
}
"""

EXPECTED = "scale: OK (0 of 1000 elements wrong)\n"

GITIGNORE = "/build/\n/cache/\n"

FILES = {
    "targets.yaml": TARGETS_YAML,
    "scale.mlir": KERNEL,
    "main.c": MAIN_C,
    "expected.txt": EXPECTED,
    ".gitignore": GITIGNORE,
}
OPTIONAL = frozenset({".gitignore"})  # left as it is when there is one
