"""Streams of host code: kernels at once and in order, host threads, a program's end."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.stream_programs import ORDERS, assert_all_destroyed, build, program, run

# Each kernel counts itself, then waits for the others: alone, none of them ends.
MEET = program(
    main="""
    %zero = arith.constant 0 : i32
    %n = arith.constant 3 : i32
    %m = gpu.alloc host_shared () : memref<1xi32>
    memref.store %zero, %m[%c0] : memref<1xi32>
    %a = gpu.launch_func async @k::@meet blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%m : memref<1xi32>, %n : i32)
    %b = gpu.launch_func async @k::@meet blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%m : memref<1xi32>, %n : i32)
    %t = gpu.wait async
    %c = gpu.launch_func async [%t] @k::@meet blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%m : memref<1xi32>, %n : i32)
    gpu.wait [%a, %b, %c]
    %v = memref.load %m[%c0] : memref<1xi32>
    %w = arith.extsi %v : i32 to i64
    call @show(%w) : (i64) -> ()
""",
    before="""
  gpu.module @k {
    gpu.func @meet(%m: memref<1xi32>, %n: i32) kernel {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %old = memref.atomic_rmw addi %one, %m[%c0] : (i32, memref<1xi32>) -> i32
      scf.while : () -> () {
        %seen = memref.atomic_rmw addi %zero, %m[%c0] : (i32, memref<1xi32>) -> i32
        %few = arith.cmpi slt, %seen, %n : i32
        scf.condition(%few)
      } do {
        scf.yield
      }
      gpu.return
    }
  }
""",
)

# Two fills in streams of their own, both joined by a sum, which a copy and the host wait for.
DIAMOND = program(
    main="""
    %c10 = arith.constant 10 : index
    %c100 = arith.constant 100 : index
    %last = arith.constant 999 : index
    %four = arith.constant 4 : i64
    %seven = arith.constant 7 : i64
    %h = memref.alloc() : memref<1000xi64>
    scf.for %round = %c0 to %c100 step %c1 {
      %t0 = gpu.wait async
      %a, %t1 = gpu.alloc async [%t0] () : memref<1000xi64>
      %b, %t2 = gpu.alloc async [%t0] () : memref<1000xi64>
      %t3 = gpu.launch_func async [%t1] @k::@slow_fill blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%a : memref<1000xi64>, %four : i64)
      %t4 = gpu.launch_func async [%t2] @k::@slow_fill blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
        args(%b : memref<1000xi64>, %seven : i64)
      %t5 = gpu.wait async [%t3, %t4]
      %t6 = gpu.launch_func async [%t5] @k::@add blocks in (%c10, %c1, %c1) threads in (%c100, %c1, %c1)
        args(%a : memref<1000xi64>, %b : memref<1000xi64>)
      %t7 = gpu.memcpy async [%t6] %h, %a : memref<1000xi64>, memref<1000xi64>
      %t8 = gpu.dealloc async [%t7] %a : memref<1000xi64>
      %t9 = gpu.dealloc async [%t7] %b : memref<1000xi64>
      gpu.wait [%t8, %t9]
      %x = memref.load %h[%c0] : memref<1000xi64>
      %y = memref.load %h[%last] : memref<1000xi64>
      %s = arith.addi %x, %y : i64
      %twentytwo = arith.constant 22 : i64
      %right = arith.cmpi eq, %s, %twentytwo : i64
      cf.assert %right, "out of order"
    }
    %x = memref.load %h[%c0] : memref<1000xi64>
    call @show(%x) : (i64) -> ()
""",
    before="""
  gpu.module @k {
    gpu.func @slow_fill(%m: memref<1000xi64>, %v: i64) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 20000 : index
      %w = arith.constant 1000 : index
      scf.for %i = %c0 to %n step %c1 {
        %j = arith.remui %i, %w : index
        memref.store %v, %m[%j] : memref<1000xi64>
      }
      gpu.return
    }
    gpu.func @add(%a: memref<1000xi64>, %b: memref<1000xi64>) kernel {
      %i = gpu.global_id x
      %x = memref.load %a[%i] : memref<1000xi64>
      %y = memref.load %b[%i] : memref<1000xi64>
      %s = arith.addi %x, %y : i64
      memref.store %s, %a[%i] : memref<1000xi64>
      gpu.return
    }
  }
""",
)

# Nobody waits for the kernel, which is under way when main returns.
PENDING = program(
    main="""
    %n = arith.constant 30000000 : index
    %t = gpu.launch_func async @k::@late blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%n : index)
""",
    before="""
  gpu.module @k {
    gpu.func @late(%n: index) kernel {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %one = arith.constant 1 : i64
      %m = memref.alloca() : memref<1xi64>
      memref.store %one, %m[%c0] : memref<1xi64>
      scf.for %i = %c0 to %n step %c1 {
        %x = memref.load %m[%c0] : memref<1xi64>
        %y = arith.muli %x, %x : i64
        %z = arith.addi %y, %one : i64
        memref.store %z, %m[%c0] : memref<1xi64>
      }
      %r = memref.load %m[%c0] : memref<1xi64>
      %zero = arith.constant 0 : i64
      %all = arith.cmpi ne, %r, %zero : i64
      gpu.printf "late %d\\0A", %all : i1
      gpu.return
    }
  }
""",
)

# Several host threads launch kernels of two modules, each on memory of its own.
ADD = """
module attributes {gpu.container_module} {
  gpu.module @MODULE {
    gpu.func @add(%m: memref<?xi64>, %v: i64) kernel {
      %i = gpu.global_id x
      %x = memref.load %m[%i] : memref<?xi64>
      %y = arith.addi %x, %v : i64
      memref.store %y, %m[%i] : memref<?xi64>
      gpu.return
    }
  }
  func.func @FUNCTION(%m: memref<?xi64>, %v: i64) attributes {llvm.emit_c_interface} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %n = memref.dim %m, %c0 : memref<?xi64>
    %blocks = arith.ceildivui %n, %c16 : index
    %t0 = gpu.wait async
    %d, %t1 = gpu.alloc async [%t0] (%n) : memref<?xi64>
    %t2 = gpu.memcpy async [%t1] %d, %m : memref<?xi64>, memref<?xi64>
    %t3 = gpu.launch_func async [%t2] @MODULE::@add blocks in (%blocks, %c1, %c1) threads in (%c16, %c1, %c1)
      args(%d : memref<?xi64>, %v : i64)
    %t4 = gpu.memcpy async [%t3] %m, %d : memref<?xi64>, memref<?xi64>
    %t5 = gpu.dealloc async [%t4] %d : memref<?xi64>
    gpu.wait [%t5]
    return
  }
}
"""
THREADS = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
struct memref { int64_t *base, *data, offset, size, stride; };
void _mlir_ciface_add_one(struct memref *, int64_t), _mlir_ciface_add_two(struct memref *, int64_t);
enum { THREADS = 6, N = 4096, ROUNDS = 25 };
static int64_t data[THREADS][N];
static void *work(void *row) {
    struct memref m = {row, row, 0, N, 1};
    for (int i = 0; i < ROUNDS; i++) {
        _mlir_ciface_add_one(&m, 1);
        _mlir_ciface_add_two(&m, 100);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, data[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    long wrong = 0;
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < N; j++) wrong += data[i][j] != 101 * ROUNDS;
    printf("%ld wrong\n", wrong);
    return wrong != 0;
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    for number in ("one", "two"):
        text = ADD.replace("MODULE", f"k_{number}").replace("FUNCTION", f"add_{number}")
        (folder / f"{number}.mlir").write_text(text)
    (folder / "threads.c").write_text(THREADS)
    threads = "threads: {sources: [one.mlir, two.mlir, threads.c], link: {libraries: [pthread]}}"
    return build(folder, {"meet": MEET, "diamond": DIAMOND, "pending": PENDING}, shared_cache, threads)


@pytest.mark.parametrize("threads", ["1", "2", "", "late"])
def test_kernels_of_several_streams_run_at_the_same_time(built: Path, threads: str) -> None:
    assert run(built, "meet", threads).out == "3\n"


@pytest.mark.parametrize("threads", ["1", "4", *ORDERS])
def test_streams_that_part_and_meet(built: Path, threads: str) -> None:
    assert run(built, "diamond", threads).out == "11\n"


@pytest.mark.parametrize("threads", ["", "late"])
def test_work_that_nobody_waits_for_is_done_before_the_program_ends(built: Path, threads: str) -> None:
    assert run(built, "pending", threads).out == "late 1\n"


@pytest.mark.parametrize("threads", ["3", *ORDERS])
def test_host_threads_that_launch_kernels_of_two_modules(built: Path, threads: str) -> None:
    assert run(built, "threads", threads).out == "0 wrong\n"


def test_every_stream_and_event_is_destroyed(built: Path) -> None:
    assert_all_destroyed(built, "diamond")
