"""Write a project of any size for benchmarks: steps that are cheap but real.

Usage: python bench/generate.py DIR [--files 16] [--modules 2] [--targets 4]

DIR gets `targets.yaml`, `main.c` and FILES sources with MODULES gpu.modules each, every one with a
kernel of its own that the program launches once. A build has

    FILES x (2 + MODULES x (1 + TARGETS)) + 4

steps: outline and host per file, bundle and TARGETS compiles per module, then preprocess, cc,
runtime and link. 83 files x 2 modules x 4 targets are 1,000 steps, 833 x 2 x 4 are 10,000.
"""

from __future__ import annotations

import argparse
from pathlib import Path

# A mix from the first on: the CPU, then NVIDIA and AMD in turn.
TARGETS = ("cpu", "sm_90", "gfx90a", "sm_60", "gfx942", "sm_80", "gfx1100", "sm_75")

MODULE = """\
  gpu.module @m{n} {{
    gpu.func @add{n}(%x: memref<?xf32>) kernel {{
      %i = gpu.block_id x
      %c = arith.constant {n}.5 : f32
      %v = memref.load %x[%i] : memref<?xf32>
      %s = arith.addf %v, %c : f32
      memref.store %s, %x[%i] : memref<?xf32>
      gpu.return
    }}
  }}
"""
LAUNCH = """\
    gpu.launch_func @m{n}::@add{n} blocks in (%n, %one, %one) threads in (%one, %one, %one)
        args(%d : memref<?xf32>)
"""
SOURCE = """\
module attributes {{gpu.container_module}} {{
{modules}
  func.func @file{f}(%x: memref<?xf32>) attributes {{llvm.emit_c_interface}} {{
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %n = memref.dim %x, %zero : memref<?xf32>
    %d = gpu.alloc (%n) : memref<?xf32>
    gpu.memcpy %d, %x : memref<?xf32>, memref<?xf32>
{launches}\
    gpu.memcpy %x, %d : memref<?xf32>, memref<?xf32>
    gpu.dealloc %d : memref<?xf32>
    return
  }}
}}
"""
MAIN = """\
#include <stdint.h>
#include <stdio.h>

typedef struct {{
  float *allocated, *aligned;
  int64_t offset, size, stride;
}} memref;

{declarations}
int main(void) {{
  float data[4] = {{0, 1, 2, 3}};
  memref x = {{data, data, 0, 4, 1}};
{calls}
  printf("%g\\n", (double)data[0]);
  return 0;
}}
"""


def kernel_number(file: int, module: int, modules: int) -> int:
    """What tells a module, its kernel and its constant from all others."""
    return file * modules + module


def source_text(file: int, modules: int) -> str:
    """One `.mlir` file."""
    numbers = [kernel_number(file, m, modules) for m in range(modules)]
    return SOURCE.format(
        f=file,
        modules="".join(MODULE.format(n=n) for n in numbers),
        launches="".join(LAUNCH.format(n=n) for n in numbers),
    )


def large_kernel(operations: int) -> str:
    """One kernel without a branch: loads, sums, products, maxima and stores."""
    lines, value, address = [], "%first", "%i"
    for n in range(operations):
        kind = n % 10
        if kind == 0:
            lines += [f"%c{n} = arith.constant {n} : index", f"%i{n} = arith.addi %i, %c{n} : index"]
            address = f"%i{n}"
            lines.append(f"%v{n} = memref.load %x[{address}] : memref<?xf32>")
            value, loaded = f"%v{n}", value
        elif kind == 9:
            lines.append(f"memref.store {value}, %y[{address}] : memref<?xf32>")
        else:
            op = ("addf", "mulf", "maximumf", "subf")[n % 4]
            lines.append(f"%v{n} = arith.{op} {value}, {loaded} : f32")
            value = f"%v{n}"
    body = "\n".join(lines)
    return f"""gpu.module @m {{ gpu.func @large(%x: memref<?xf32>, %y: memref<?xf32>) kernel {{
%i = gpu.block_id x
%first = memref.load %x[%i] : memref<?xf32>
{body}
gpu.return
}} }}
"""


def expected_output(files: int, modules: int) -> str:
    """What the program prints: the sum of all constants, each added once."""
    return f"{sum(n + 0.5 for n in range(files * modules)):g}\n"


def generate(folder: Path, *, files: int, modules: int, targets: int) -> int:
    """Write the project and return how many steps its build has."""
    if not 1 <= targets <= len(TARGETS):
        raise ValueError(f"targets must be 1 to {len(TARGETS)}, not {targets}")
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"file{f}.mlir" for f in range(files)]
    for f, name in enumerate(names):
        (folder / name).write_text(source_text(f, modules))
    (folder / "main.c").write_text(
        MAIN.format(
            declarations="".join(f"void _mlir_ciface_file{f}(memref *);\n" for f in range(files)),
            calls="".join(f"  _mlir_ciface_file{f}(&x);\n" for f in range(files)).rstrip(),
        )
    )
    sources = "".join(f"      - {name}\n" for name in (*names, "main.c"))
    settings = "".join(f"  {t}: {{}}\n" for t in TARGETS[:targets])
    (folder / "targets.yaml").write_text(
        f"version: 1\ntargets:\n{settings}programs:\n  app:\n    sources:\n{sources}"
    )
    return files * (2 + modules * (1 + targets)) + 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--modules", type=int, default=2, help="per file")
    parser.add_argument("--targets", type=int, default=4, help=f"1 to {len(TARGETS)}")
    options = parser.parse_args()
    steps = generate(options.folder, files=options.files, modules=options.modules, targets=options.targets)
    print(f"{options.folder}: {steps} steps")


if __name__ == "__main__":
    main()
