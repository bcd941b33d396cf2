"""Tokens of host code: passed on, kept over loops, and those of the async dialect; run on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.stream_programs import AFFINE, ORDERS, assert_all_destroyed, build, program, run

# Each round copies what a stream from before the loop has filled, in a stream of its own; some wait twice.
LOOPS = program(
    main="""
    %c2 = arith.constant 2 : index
    %n = arith.constant 50 : index
    %last = arith.constant 99999 : index
    %v = arith.constant 3 : i64
    %zero = arith.constant 0 : i64
    %h = memref.alloc() : memref<100000xi64>
    %t0 = gpu.wait async
    %d, %t1 = gpu.alloc async [%t0] () : memref<100000xi64>
    %t2 = gpu.memset async [%t1] %d, %v : memref<100000xi64>, i64
    %sum = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> i64 {
      %t3 = gpu.memcpy async [%t2] %h, %d : memref<100000xi64>, memref<100000xi64>
      %r = arith.remui %i, %c2 : index
      %odd = arith.cmpi eq, %r, %c1 : index
      scf.if %odd {
        gpu.wait [%t2, %t3]
      } else {
        %t4 = gpu.wait async [%t2, %t3]
        gpu.wait [%t4]
      }
      %x = memref.load %h[%last] : memref<100000xi64>
      memref.store %zero, %h[%last] : memref<100000xi64>
      %next = arith.addi %acc, %x : i64
      scf.yield %next : i64
    }
    %t5 = gpu.dealloc async [%t2] %d : memref<100000xi64>
    gpu.wait [%t5]
    call @show(%sum) : (i64) -> ()
""",
)
# A chain of kernels whose tokens pass through a function, a loop, branches, a while loop and blocks.
PASSED = program(
    main="""
    %c2 = arith.constant 2 : index
    %n = arith.constant 20 : index
    %last = arith.constant 999 : index
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %three = arith.constant 3 : i64
    %h = memref.alloc() : memref<1000xi64>
    %other = memref.alloc() : memref<1000xi64>
    %t0 = gpu.wait async
    %d, %t1 = gpu.alloc async [%t0] () : memref<1000xi64>
    %t2 = gpu.memset async [%t1] %d, %one : memref<1000xi64>, i64
    // 1; then 20 times: times two plus one in even rounds, plus three in odd ones.
    %t3 = scf.for %i = %c0 to %n step %c1 iter_args(%t = %t2) -> !gpu.async.token {
      %r = arith.remui %i, %c2 : index
      %odd = arith.cmpi eq, %r, %c1 : index
      %next = scf.if %odd -> !gpu.async.token {
        %a, %v = func.call @step(%t, %d, %one, %three)
          : (!gpu.async.token, memref<1000xi64>, i64, i64) -> (!gpu.async.token, i64)
        scf.yield %a : !gpu.async.token
      } else {
        %a, %v = func.call @step(%t, %d, %two, %one)
          : (!gpu.async.token, memref<1000xi64>, i64, i64) -> (!gpu.async.token, i64)
        scf.yield %a : !gpu.async.token
      }
      scf.yield %next : !gpu.async.token
    }
    // Both go on from here, in streams of their own, and meet again.
    %t4, %t5 = call @forward(%t3) : (!gpu.async.token) -> (!gpu.async.token, !gpu.async.token)
    %t6 = gpu.memcpy async [%t4] %h, %d : memref<1000xi64>, memref<1000xi64>
    %t7 = gpu.memcpy async [%t5] %other, %d : memref<1000xi64>, memref<1000xi64>
    %both = gpu.wait async [%t6, %t7]
    cf.br ^next(%both : !gpu.async.token)
  ^next(%b: !gpu.async.token):
    %all = gpu.wait async [%b]
    %again = gpu.wait async [%all]
    %t8, %count = scf.while (%t = %again, %k = %c0) : (!gpu.async.token, index) -> (!gpu.async.token, index) {
      %more = arith.cmpi ult, %k, %c2 : index
      scf.condition(%more) %t, %k : !gpu.async.token, index
    } do {
    ^bb0(%t: !gpu.async.token, %k: index):
      %a, %v = func.call @step(%t, %d, %one, %three)
        : (!gpu.async.token, memref<1000xi64>, i64, i64) -> (!gpu.async.token, i64)
      %m = arith.addi %k, %c1 : index
      scf.yield %a, %m : !gpu.async.token, index
    }
    gpu.wait [%b]
    %x = memref.load %h[%last] : memref<1000xi64>
    %y = memref.load %other[%c0] : memref<1000xi64>
    %t9 = gpu.memcpy async [%t8] %h, %d : memref<1000xi64>, memref<1000xi64>
    gpu.wait [%t9]
    %z = memref.load %h[%c0] : memref<1000xi64>
    gpu.dealloc %d : memref<1000xi64>
    call @show(%x) : (i64) -> ()
    call @show(%y) : (i64) -> ()
    call @show(%z) : (i64) -> ()
""",
    before="  gpu.module @k {"
    + AFFINE
    + """
  }
  func.func private @step(%t: !gpu.async.token, %m: memref<1000xi64>, %by: i64, %plus: i64)
      -> (!gpu.async.token, i64) {
    %c10 = arith.constant 10 : index
    %c100 = arith.constant 100 : index
    %c1 = arith.constant 1 : index
    %r = gpu.launch_func async [%t] @k::@affine blocks in (%c10, %c1, %c1) threads in (%c100, %c1, %c1)
      args(%m : memref<1000xi64>, %by : i64, %plus : i64)
    return %r, %plus : !gpu.async.token, i64
  }
  func.func private @forward(%t: !gpu.async.token) -> (!gpu.async.token, !gpu.async.token) {
    return %t, %t : !gpu.async.token, !gpu.async.token
  }
""",
)
# Upstream's integration test of the async dialect: a fork and a join of tasks that use the device; then more.
ASYNC = """
func.func private @printMemrefI32(memref<*xi32>) attributes {llvm.emit_c_interface}
func.func @main() {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %count = arith.constant 2 : index
  %h0 = memref.alloc(%count) : memref<?xi32>
  %h0_unranked = memref.cast %h0 : memref<?xi32> to memref<*xi32>
  gpu.host_register %h0_unranked : memref<*xi32>
  %v0 = arith.constant 42 : i32
  memref.store %v0, %h0[%c0] : memref<?xi32>
  memref.store %v0, %h0[%c1] : memref<?xi32>
  %t0, %f0 = async.execute () -> !async.value<memref<?xi32>> {
    %b0 = gpu.alloc(%count) : memref<?xi32>
    gpu.memcpy %b0, %h0 : memref<?xi32>, memref<?xi32>
    async.yield %b0 : memref<?xi32>
  }
  %t1, %f1 = async.execute [%t0] (%f0 as %b0 : !async.value<memref<?xi32>>) -> !async.value<memref<?xi32>> {
    %b1 = gpu.alloc(%count) : memref<?xi32>
    gpu.memcpy %b1, %b0 : memref<?xi32>, memref<?xi32>
    async.yield %b1 : memref<?xi32>
  }
  %t2, %f2 = async.execute [%t0] (%f0 as %b0 : !async.value<memref<?xi32>>) -> !async.value<memref<?xi32>> {
    %b2 = gpu.alloc(%count) : memref<?xi32>
    gpu.memcpy %b2, %b0 : memref<?xi32>, memref<?xi32>
    async.yield %b2 : memref<?xi32>
  }
  %t3 = async.execute [%t1, %t2] (
    %f1 as %b1 : !async.value<memref<?xi32>>, %f2 as %b2 : !async.value<memref<?xi32>>
  ) {
    gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
               threads(%tx, %ty, %tz) in (%sx = %count, %sy = %c1, %sz = %c1) {
      %v1 = memref.load %b1[%tx] : memref<?xi32>
      %v2 = memref.load %b2[%tx] : memref<?xi32>
      %sum = arith.addi %v1, %v2 : i32
      memref.store %sum, %h0[%tx] : memref<?xi32>
      gpu.terminator
    }
    async.yield
  }
  async.await %t3 : !async.token
  call @printMemrefI32(%h0_unranked) : (memref<*xi32>) -> ()

  // 300 tasks that add one, in a group; each waits for one of its own.
  %n = arith.constant 300 : index
  %one = arith.constant 1 : i32
  %group = async.create_group %n : !async.group
  scf.for %i = %c0 to %n step %c1 {
    %outer = async.execute {
      %inner = async.execute {
        %old = memref.atomic_rmw addi %one, %h0[%c1] : (i32, memref<?xi32>) -> i32
        async.yield
      }
      async.await %inner : !async.token
      %old = memref.atomic_rmw addi %one, %h0[%c0] : (i32, memref<?xi32>) -> i32
      async.yield
    }
    %rank = async.add_to_group %outer, %group : !async.token
  }
  async.await_all %group
  call @printMemrefI32(%h0_unranked) : (memref<*xi32>) -> ()
  return
}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    return build(
        tmp_path_factory.mktemp("tokens"), {"loops": LOOPS, "passed": PASSED, "tasks": ASYNC}, shared_cache
    )


@pytest.mark.parametrize("threads", ["1", "3", *ORDERS])
def test_tokens_from_before_a_loop(built: Path, threads: str) -> None:
    assert run(built, "loops", threads).out == "150\n"


@pytest.mark.parametrize("threads", ["1", "4", *ORDERS])
def test_tokens_that_are_passed_on(built: Path, threads: str) -> None:
    value = 1
    for number in range(20):
        value = value + 3 if number % 2 else value * 2 + 1
    assert run(built, "passed", threads).out == f"{value}\n{value}\n{value + 6}\n"


@pytest.mark.parametrize("threads", ["1", "", *ORDERS])
def test_tasks_of_the_async_dialect(built: Path, threads: str) -> None:
    printed = run(built, "tasks", threads).out.splitlines()
    assert [line.replace(" ", "") for line in printed if "base@" not in line] == ["[84,84]", "[384,384]"]


@pytest.mark.parametrize("name", ["loops", "passed", "tasks"])
def test_every_stream_and_event_is_destroyed(built: Path, name: str) -> None:
    assert_all_destroyed(built, name)
