"""A program of all cases: a kernel and a host function for each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kernels.checked.bounds import BOUNDS
from kernels.checked.cases import BYTES, WG, WIDE, Case
from kernels.checked.lanes import LANES
from kernels.checked.matrices import MATRICES
from kernels.checked.races import RACES
from kernels.checked.workgroups import BARRIERS, UNINITIALIZED

ALL = BOUNDS | RACES | BARRIERS | UNINITIALIZED | LANES | MATRICES
SAMPLE = {name: ALL[name] for name in list(ALL)[::12]}
MEMORY = (
    "%g: memref<?xf32>, %m: memref<16x8xf32>, %n: memref<?xi32>, %c: memref<?xi8>, %p: memref<?xi1>, "
    "%h: memref<?xf32>"
)
IDS = """\
      %t = gpu.thread_id x
      %b = gpu.block_id x
      %d = gpu.block_dim x
      %o = arith.muli %b, %d : index
      %i = arith.addi %o, %t : index
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c4 = arith.constant 4 : index
      %c8 = arith.constant 8 : index
      %c16 = arith.constant 16 : index
      %c31 = arith.constant 31 : index
      %c32 = arith.constant 32 : index
      %c97 = arith.constant 97 : index
      %c100 = arith.constant 100 : index
      %one = arith.constant 1.0 : f32
      %i1 = arith.constant 1 : i32
      %b1 = arith.constant 1 : i8
      %true = arith.constant true
      %first = arith.cmpi eq, %t, %c0 : index
      %firstblock = arith.cmpi eq, %b, %c0 : index
      %lower = arith.cmpi ult, %t, %c16 : index
      %next = arith.addi %t, %c1 : index
      %right = arith.remui %next, %c32 : index
"""


def source(cases: Mapping[str, Case] = ALL) -> str:
    """The .mlir text of ``cases``; ``main.c`` calls ``case_NAME`` with the size of a workgroup.

    If that was a constant, barriers that only some work-items reach would be found by the build.
    """
    kernels, hosts = [], []
    for name, case in cases.items():
        attribution = f" workgroup(%w : {case.shared})" if case.shared else ""
        if case.private:
            attribution += f" private(%q : {case.private})"
        typed = case.body.replace("PRIVATE", case.private).replace("WG", WG).replace("BYTES", BYTES)
        typed = typed.replace("WIDE", WIDE).replace("SQUARE", case.shared)
        body = "\n".join("      " + line for line in typed.splitlines())
        size = f" attributes {{known_block_size = array<i32: {case.items}, 1, 1>}}" if case.known else ""
        kernels.append(
            f"    gpu.func @{name}({MEMORY}){attribution} kernel{size} {{\n"
            f"{IDS}{body}\n      gpu.return\n    }}"
        )
        hosts.append(
            f"""\
  func.func @case_{name}(%items: index) {{
    %c1 = arith.constant 1 : index
    %blocks = arith.constant {case.blocks} : index
    %dynamic = arith.constant {case.dynamic} : i32
    %c100 = arith.constant 100 : index
    %c64 = arith.constant 64 : index
    %c256 = arith.constant 256 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.wait async
    %g, %t1 = gpu.alloc async [%t] (%c100) : memref<?xf32>
    %m, %t2 = gpu.alloc async [%t1] () : memref<16x8xf32>
    %n, %t3 = gpu.alloc async [%t2] (%c64) : memref<?xi32>
    %c, %t4 = gpu.alloc async [%t3] (%c256) : memref<?xi8>
    %p, %t5 = gpu.alloc async [%t4] (%c64) : memref<?xi1>
    %t6 = gpu.memset async [%t5] %g, %zero : memref<?xf32>, f32
    %t7 = gpu.launch_func async [%t6] @kernels::@{name}
      blocks in (%blocks, %c1, %c1) threads in (%items, %c1, %c1) dynamic_shared_memory_size %dynamic
      args(%g : memref<?xf32>, %m : memref<16x8xf32>, %n : memref<?xi32>, %c : memref<?xi8>,
           %p : memref<?xi1>, %g : memref<?xf32>)
    gpu.wait [%t7]
    return
  }}"""
        )
    poke = """\
    func.func @poke(%g: memref<?xf32>, %x: index) {
      %t = gpu.thread_id x
      %b = gpu.block_id x
      %s = arith.addi %x, %t : index
      %at = arith.addi %s, %b : index
      %one = arith.constant 1.0 : f32
      memref.store %one, %g[%at] : memref<?xf32> // bounds race
      return
    }"""
    parts = ["module attributes {gpu.container_module} {", "  gpu.module @kernels {", poke, *kernels, "  }"]
    return "\n".join([*parts, *hosts, "}"]) + "\n"


def main_c(cases: Mapping[str, Case] = ALL) -> str:
    """Runs those of ``cases`` that its arguments name."""
    declared = "\n".join(f"void case_{name}(intptr_t items);" for name in cases)
    table = "\n".join(f'    {{"{name}", case_{name}, {case.items}}},' for name, case in cases.items())
    return f"""\
#include <stdint.h>
#include <stdio.h>
#include <string.h>
{declared}
static const struct {{ const char *name; void (*run)(intptr_t); intptr_t items; }} cases[] = {{
{table}
}};
int main(int argc, char **argv) {{
    for (int i = 1; i < argc; i++) {{
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {{
            if (strcmp(cases[c].name, argv[i]) == 0) {{
                cases[c].run(cases[c].items);
            }}
        }}
    }}
    puts("done");
    return 0;
}}
"""


def marks(name: str, cases: Mapping[str, Case] = ALL) -> set[tuple[str, int]]:
    """The (kind, line) pairs that a run of the case must report."""
    lines = source(cases).splitlines()
    start = next(n for n, line in enumerate(lines) if f"gpu.func @{name}(" in line)
    end = next(n for n in range(start, len(lines)) if lines[n].strip() == "gpu.return")
    searched = list(range(start, end))
    if name == "called_function":
        searched = list(range(start))
        searched = searched[: next(n for n in searched if lines[n] == "    }") + 1]
    found = set()
    for n in searched:
        if match := re.search(r"// ([a-z ]+)$", lines[n]):
            kinds = set(match[1].split()) & {"bounds", "race", "barrier", "uninitialized"}
            found |= {(kind, n + 1) for kind in kinds}
    return found
