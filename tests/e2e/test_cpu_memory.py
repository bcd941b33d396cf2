"""What a launch takes does not grow with its grid: peak memory and allocations of whole programs.

Nor does what is checked: a race of the first workgroup with the last one is found.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.command import Outcome, build_project, run_on_cpu

TILE = "memref<1024xi64, #gpu.address_space<workgroup>>"
BLOCK, GRIDS = 4, {"0": (1, 1_000, 1_000_000), "1": (1, 1_000, 200_000)}
KIB = {"0": 256, "1": 4096}  # that larger grids may take: bits for each workgroup; with checks, bytes
# Each workgroup adds to one of a few cells, so that a grid of any size has the same arguments.
HEAD = """
    gpu.func @{name}(%m: memref<64xi64>, %q: memref<64xi64>) {memory} kernel {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %last = arith.constant 63 : index
      %one = arith.constant 1 : i64
      %t = gpu.thread_id x
      %b = gpu.block_id x
      %cell = arith.andi %b, %last : index
      %first = arith.cmpi eq, %t, %c0 : index
      %own = memref.load %q[%t] : memref<64xi64>"""
# What is added is right if workgroup memory, private memory and a value that outlives a barrier are.
KEPT = f"""
      %p = memref.alloca() : memref<4xi64>
      %n = gpu.block_dim x
      memref.store %own, %p[%c0] : memref<4xi64>
      memref.store %own, %s[%t] : {TILE}
      gpu.barrier
      %up = arith.addi %t, %c1 : index
      %from = arith.remui %up, %n : index
      %theirs = memref.load %s[%from] : {TILE}
      %mine = memref.load %p[%c0] : memref<4xi64>
      %both = arith.addi %theirs, %mine : i64
      %add = arith.addi %both, %own : i64"""
LANES = """
      %word = arith.trunci %add : i64 to i32
      %all = arith.constant -1 : i32
      %lanes = nvvm.redux.sync add %word, %all : i32 -> i32
      %sum = arith.extsi %lanes : i32 to i64"""
TAIL = """
      scf.if %first {{
        %old = memref.atomic_rmw addi {value}, %m[%cell] : (i64, memref<64xi64>) -> i64
      }}
      gpu.return
    }}"""
ENDS = """
      gpu.barrier
      %grid = gpu.grid_dim x
      %end = arith.subi %grid, %c1 : index
      %is_end = arith.cmpi eq, %b, %end : index
      %is_start = arith.cmpi eq, %b, %c0 : index
      %either = arith.ori %is_end, %is_start : i1
      %mine = arith.andi %either, %first : i1
      scf.if %mine {
        memref.store %own, %m[%last] : memref<64xi64>
      }"""
LAUNCH = f"""
  func.func @launch_{{name}}(%grid: index, %m: memref<64xi64>, %q: memref<64xi64>)
      attributes {{{{llvm.emit_c_interface}}}} {{{{
    %c1 = arith.constant 1 : index
    %n = arith.constant {BLOCK} : index
    gpu.launch_func @k::@{{name}} blocks in (%grid, %c1, %c1) threads in (%n, %c1, %c1)
      args(%m : memref<64xi64>, %q : memref<64xi64>)
    return
  }}}}"""
# Name → the kernel's memory, what is in it besides, what it adds, and what that is for values 1, 2, 3, 4.
KERNELS = {
    "loop": ("", "", "%own", 1),
    "fission": (f"workgroup(%s : {TILE})", KEPT, "%add", 2 + 1 + 1),
    "fibers": (f"workgroup(%s : {TILE})", KEPT + LANES, "%sum", 3 * (1 + 2 + 3 + 4)),
    "ends": ("", ENDS, "%one", 1),
}
TIERS = ("loop", "fission", "fibers")
MAIN = """\
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int64_t *allocated, *aligned, offset, size, stride; } cells;
typedef void launcher(int64_t grid, cells *m, cells *q);
launcher _mlir_ciface_launch_loop, _mlir_ciface_launch_fission, _mlir_ciface_launch_fibers,
    _mlir_ciface_launch_ends;

static atomic_long allocations; /* in place of the C library's, for all of the program */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *malloc(size_t bytes) { allocations++; return __libc_malloc(bytes); }
void *calloc(size_t number, size_t bytes) { allocations++; return __libc_calloc(number, bytes); }
void *aligned_alloc(size_t to, size_t bytes) { allocations++; return __libc_memalign(to, bytes); }

static long peak_kib(void) { /* not getrusage's, which knows of the program that started this one */
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, file) != NULL)
        sscanf(line, "VmHWM: %ld", &kib);
    fclose(file);
    return kib;
}

int main(int argc, char **argv) {
    static const struct { const char *name; launcher *launch; } kernels[] = {
        {"loop", _mlir_ciface_launch_loop}, {"fission", _mlir_ciface_launch_fission},
        {"fibers", _mlir_ciface_launch_fibers}, {"ends", _mlir_ciface_launch_ends}};
    for (int k = 0; k < 4; k++)
        for (int i = 3; i < argc && strstr(argv[1], kernels[k].name) != NULL; i++) {
            static int64_t m[64], q[64] = {1, 2, 3, 4};
            cells results = {m, m, 0, 64, 1}, values = {q, q, 0, 64, 1};
            long made = 1, sum = 0;
            for (long left = atol(argv[2]); left > 0 && made > 0; left--) {
                memset(m, 0, sizeof m);
                allocations = 0;
                kernels[k].launch(atol(argv[i]), &results, &values);
                made = allocations;
            }
            for (int j = 0; j < 64; j++)
                sum += m[j];
            printf("%s %s %ld %ld %ld\\n", kernels[k].name, argv[i], sum, made, peak_kib());
        }
    allocations = 0;
    void *volatile block = malloc(1);
    free(block);
    return allocations != 1; /* the count counts */
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memory")
    kernels = "".join(
        HEAD.format(name=name, memory=memory) + body + TAIL.format(value=value)
        for name, (memory, body, value, _) in KERNELS.items()
    )
    launches = "".join(LAUNCH.format(name=name) for name in KERNELS)
    text = f"module attributes {{gpu.container_module}} {{\n  gpu.module @k {{{kernels}\n  }}{launches}\n}}\n"
    build = build_project(
        folder,
        "version: 1\n"
        "targets:\n"
        "  cpu: {opt_level: 1}\n"
        "  checked: {kind: cpu, opt_level: 1, sanitize: [bounds, race, barrier, uninitialized]}\n"
        "programs: {app: {sources: [k.mlir, main.c]}}\n",
        {"k.mlir": text, "main.c": MAIN},
    )
    for target in ("cpu", "checked"):
        (info,) = (build / "app").glob(f"*.{target}.json")
        assert [f'"tier": "{tier}"' in info.read_text() for tier in TIERS] == [True] * 3
    return build / "app/app"


def run(program: Path, kernels: str, attempts: int, *grids: int, **variables: str) -> Outcome:
    """Launch each kernel with each grid; again until nothing is allocated, as its thread may be a new one."""
    arguments = map(str, (attempts, *grids))
    return run_on_cpu(program, kernels, *arguments, GPUBUILD_CPU_THREADS="1", **variables)


@pytest.mark.parametrize("check", ["0", "1"], ids=["plain", "checked"])
def test_memory_does_not_grow_with_the_grid(program: Path, check: str) -> None:
    """Nor is anything allocated for a launch without checks, once its thread has run such a kernel."""
    grids = GRIDS[check]
    done = run(program, ",".join(TIERS), 1 if check == "1" else 20, *grids, GPUBUILD_CHECK=check)
    assert done.code == 0, done.err
    rows = [line.split() for line in done.out.splitlines()]
    assert [row[0] for row in rows] == [name for name in TIERS for _ in grids]
    for name in TIERS:
        added = KERNELS[name][-1]
        found = {int(grid): [int(n) for n in numbers] for kernel, grid, *numbers in rows if kernel == name}
        assert {grid: numbers[0] for grid, numbers in found.items()} == {g: g * added for g in grids}
        one, *larger = found.values()
        assert check == "1" or [numbers[1] for numbers in larger] == [0] * len(larger), name
        assert max(numbers[2] for numbers in larger) - one[2] < KIB[check], name


def test_a_race_across_a_large_grid_is_found(program: Path) -> None:
    """What was known of the first workgroup is kept, though nearly all in between is forgotten."""
    done = run(program, "ends", 1, 150_000, GPUBUILD_CHECK="1")
    assert done.code == 66, done.out + done.err
    assert "(149999, 0, 0)" in done.err
    assert "(0, 0, 0)" in done.err
