"""Kernels with more private memory than threads have stack, launched by threads with any stack."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.command import build_project, execute
from variants import few

KIB = 1 << 7  # elements of 8 bytes
MIB = KIB << 10
# Each work-item fills an array and takes an element whose index it reads: LLVM must keep the array.
KERNEL = """
  gpu.module @{name} {{
    gpu.func @{name}(%m: memref<32xi64>) kernel {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant {elements} : index
      {alloca}
      %t = gpu.global_id x
      %at = memref.load %m[%t] : memref<32xi64>
      %index = arith.index_cast %at : i64 to index
      scf.for %i = %c0 to %n step %c1 {{
        %sum = arith.addi %i, %t : index
        %v = arith.index_cast %sum : index to i64
        memref.store %v, %p[%i] : {kind}
      }}
      {barrier}
      %r = memref.load %p[%index] : {kind}
      memref.store %r, %m[%t] : memref<32xi64>
      {barrier}
      gpu.return
    }}
  }}"""
HOST = """
  func.func @run_{name}(%index: i64, %id: index) -> i64 attributes {{llvm.emit_c_interface}} {{
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c8 = arith.constant 8 : index
    %m = gpu.alloc host_shared () : memref<32xi64>
    linalg.fill ins(%index : i64) outs(%m : memref<32xi64>)
    gpu.launch_func @{name}::@{name} blocks in (%c8, %c1, %c1) threads in (%c4, %c1, %c1)
      args(%m : memref<32xi64>)
    %r = memref.load %m[%id] : memref<32xi64>
    gpu.dealloc %m : memref<32xi64>
    return %r : i64
  }}"""
# Elements, whether they are kept over a barrier (as fibers, as they are too many), whether LLVM can tell.
KERNELS = {
    "loop": (200 * KIB, False, True),
    "large": (12 * MIB, False, True),
    "fibers": (3 * MIB, True, True),
    "unknown": (200 * KIB, False, False),
}
MAIN = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
{declarations}
static long (*run)(long index, long id);
static void *launch(void *unused) {{
    for (long id = 0; id < 32; id += 31) {{
        if (run(1234, id) != 1234 + id) {{
            exit(3);
        }}
    }}
    return unused;
}}
int main(int count, char **arguments) {{
    pthread_attr_t attributes;
    pthread_t thread;
    if (count != 3) {{
        return 2;
    }}
{choices}
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)atol(arguments[2]) << 10);
    pthread_create(&thread, &attributes, launch, NULL);
    pthread_join(thread, NULL);
    puts("right");
    return 0;
}}
"""


def kernel(name: str, elements: int, kept: bool, known: bool) -> str:
    kind = f"memref<{elements if known else '?'}xi64>"
    alloca = f"%p = memref.alloca() : {kind}"
    if not known:
        part = f"%part = arith.constant {elements // 8} : index"
        size = "%grid = gpu.grid_dim x\n      %size = arith.muli %grid, %part : index"
        alloca = f"{part}\n      {size}\n      %p = memref.alloca(%size) : {kind}"
    barrier = "gpu.barrier" if kept else ""
    return KERNEL.format(name=name, elements=elements, alloca=alloca, kind=kind, barrier=barrier)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stacks")
    text = "".join(kernel(name, *what) + HOST.format(name=name) for name, what in KERNELS.items())
    declarations = "".join(f"long _mlir_ciface_run_{name}(long, long);\n" for name in KERNELS)
    choices = "".join(
        f'    run = strcmp(arguments[1], "{name}") == 0 ? _mlir_ciface_run_{name} : run;\n'
        for name in KERNELS
    )
    build = build_project(
        folder,
        "version: 1\ntargets: {cpu: {}, checked: {kind: cpu, sanitize: [bounds, race, uninitialized]}}\n"
        "programs: {app: {sources: [k.mlir, main.c]}}\n",
        {
            "k.mlir": f"module attributes {{gpu.container_module}} {{{text}\n}}\n",
            "main.c": MAIN.format(declarations=declarations, choices=choices),
        },
    )
    return build / "app/app"


def check(program: Path, name: str, stack_kib: int, said: str = "", **variables: str) -> None:
    done = execute(program, name, str(stack_kib), env={"GPUBUILD_DEVICE": "cpu", **variables}, code=None)
    assert (done.code, done.out, done.err) == (0, "right\n", said)


@pytest.mark.parametrize("threads", few(["3", "1"]))
@pytest.mark.parametrize("stack_kib", [64, 8192])
@pytest.mark.parametrize("name", KERNELS)
def test_a_thread_with_any_stack_launches_it(program: Path, name: str, stack_kib: int, threads: str) -> None:
    check(program, name, stack_kib, GPUBUILD_CPU_THREADS=threads)


def test_checked_code_knows_private_memory_there(program: Path) -> None:
    """Work-items that use the same place in turn do not race."""
    nothing = "no problems found in 2 launches checked for bounds, race, uninitialized"
    check(program, "loop", 64, f"gpubuild: check: {nothing}\n", GPUBUILD_CHECK="1")
