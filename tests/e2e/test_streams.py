"""Streams, tokens and memory operations of host code, built with the real tools and run on the CPU."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from e2e.command import Outcome, gpubuild

PRINTS = """
  func.func private @printI64(i64)
  func.func private @printNewline()
  func.func @show(%v: i64) {
    call @printI64(%v) : (i64) -> ()
    call @printNewline() : () -> ()
    return
  }
"""

# Each kernel counts itself, then waits for the others: alone, none of them ends.
MEET = """
module attributes {gpu.container_module} {
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
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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
    return
  }
PRINTS}
"""

# Two fills in streams of their own, both joined by a sum, which a copy and the host wait for.
DIAMOND = """
module attributes {gpu.container_module} {
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
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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
    return
  }
PRINTS}
"""

# Nobody waits for the kernel, which is under way when main returns.
PENDING = """
module attributes {gpu.container_module} {
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
  func.func @main() {
    %c1 = arith.constant 1 : index
    %n = arith.constant 30000000 : index
    %t = gpu.launch_func async @k::@late blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%n : index)
    return
  }
}
"""


def fills() -> tuple[str, str]:
    """A program that fills memory of every width, and what it prints."""
    lines, expected = [], []
    values = {"i8": -3, "i16": 300, "i32": 70000, "i64": 1 << 40, "index": 5, "i1": 1}
    for kind, value in values.items():
        literal = "true" if kind == "i1" else f"{value} : {kind}"
        cast = {"i64": "", "index": "arith.index_cast", "i1": "arith.extui"}.get(kind, "arith.extsi")
        name = f"%{kind}"
        memref = f"memref<13x{kind}>"
        lines.append(f"""
    {name}_v = arith.constant {literal}
    {name}_h = memref.alloc() : {memref}
    {name}_d = gpu.alloc () : {memref}
    gpu.memset {name}_d, {name}_v : {memref}, {kind}
    gpu.memcpy {name}_h, {name}_d : {memref}, {memref}
    gpu.dealloc {name}_d : {memref}
    {name}_x = memref.load {name}_h[%c12] : {memref}""")
        if cast:
            lines.append(f"    {name}_w = {cast} {name}_x : {kind} to i64")
        lines.append(f"    call @show({name}_{'w' if cast else 'x'}) : (i64) -> ()")
        expected.append(str(value))
    text = (
        "module attributes {gpu.container_module} {\n  func.func @main() {\n"
        "    %c12 = arith.constant 12 : index\n" + "\n".join(lines) + "\n    return\n  }\nPRINTS}\n"
    )
    return text, "\n".join(expected) + "\n"


# A 2 x 3 tile at (1, 2) of a 4 x 8 matrix: set, and copied there and back.
TILES = """
module attributes {gpu.container_module} {
  func.func private @printMemrefI32(memref<*xi32>) attributes {llvm.emit_c_interface}
  func.func @main() {
    %seven = arith.constant 7 : i32
    %one = arith.constant 1 : i32
    %m = gpu.alloc host_shared () : memref<4x8xi32>
    gpu.memset %m, %one : memref<4x8xi32>, i32
    %tile = memref.subview %m[1, 2] [2, 3] [1, 1]
      : memref<4x8xi32> to memref<2x3xi32, strided<[8, 1], offset: 10>>
    gpu.memset %tile, %seven : memref<2x3xi32, strided<[8, 1], offset: 10>>, i32
    %h = memref.alloc() : memref<2x3xi32>
    gpu.memcpy %h, %tile : memref<2x3xi32>, memref<2x3xi32, strided<[8, 1], offset: 10>>
    %column = memref.subview %m[0, 7] [4, 1] [1, 1]
      : memref<4x8xi32> to memref<4xi32, strided<[8], offset: 7>>
    %row = memref.subview %m[1, 1] [1, 4] [1, 1] : memref<4x8xi32> to memref<4xi32, strided<[1], offset: 9>>
    %t0 = gpu.wait async
    %t1 = gpu.memcpy async [%t0] %column, %row
      : memref<4xi32, strided<[8], offset: 7>>, memref<4xi32, strided<[1], offset: 9>>
    gpu.wait [%t1]
    %um = memref.cast %m : memref<4x8xi32> to memref<*xi32>
    %uh = memref.cast %h : memref<2x3xi32> to memref<*xi32>
    call @printMemrefI32(%um) : (memref<*xi32>) -> ()
    call @printMemrefI32(%uh) : (memref<*xi32>) -> ()
    gpu.dealloc %m : memref<4x8xi32>
    return
  }
}
"""
MATRIX = "[[1,1,1,1,1,1,1,1],[1,1,7,7,7,1,1,7],[1,1,7,7,7,1,1,7],[1,1,1,1,1,1,1,7]]"
TILE = "[[7,7,7],[7,7,7]]"

FILLS, FILLED = fills()

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
# Each round copies what a stream from before the loop has filled, in a stream of its own; some wait twice.
LOOPS = """
module attributes {gpu.container_module} {
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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
    return
  }
PRINTS}
"""
# A chain of kernels whose tokens pass through a function, a loop, branches, a while loop and blocks.
PASSED = """
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @affine(%m: memref<1000xi64>, %by: i64, %plus: i64) kernel {
      %i = gpu.global_id x
      %x = memref.load %m[%i] : memref<1000xi64>
      %y = arith.muli %x, %by : i64
      %z = arith.addi %y, %plus : i64
      memref.store %z, %m[%i] : memref<1000xi64>
      gpu.return
    }
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
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
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
    return
  }
PRINTS}
"""
# Tokens that a condition chooses, with each way taken: a select, branches to blocks, a loop of blocks, a
# switch, and a token that only some blocks use. What nobody waits for ends when the host lets it.
CHOSEN = """
module attributes {gpu.container_module} {
  gpu.module @k {
    gpu.func @affine(%m: memref<1000xi64>, %by: i64, %plus: i64) kernel {
      %i = gpu.global_id x
      %x = memref.load %m[%i] : memref<1000xi64>
      %y = arith.muli %x, %by : i64
      %z = arith.addi %y, %plus : i64
      memref.store %z, %m[%i] : memref<1000xi64>
      gpu.return
    }
    gpu.func @until(%flag: memref<1xi32>) kernel {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0 : i32
      scf.while : () -> () {
        %seen = memref.atomic_rmw addi %zero, %flag[%c0] : (i32, memref<1xi32>) -> i32
        %closed = arith.cmpi eq, %seen, %zero : i32
        scf.condition(%closed)
      } do {
        scf.yield
      }
      gpu.return
    }
  }
  func.func private @step(%t: !gpu.async.token, %m: memref<1000xi64>, %by: i64, %plus: i64)
      -> !gpu.async.token {
    %c10 = arith.constant 10 : index
    %c100 = arith.constant 100 : index
    %c1 = arith.constant 1 : index
    %r = gpu.launch_func async [%t] @k::@affine blocks in (%c10, %c1, %c1) threads in (%c100, %c1, %c1)
      args(%m : memref<1000xi64>, %by : i64, %plus : i64)
    return %r : !gpu.async.token
  }
  // The host waits for the chosen kernel, and lets the other end only then.
  func.func private @pick(%first: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %true = arith.constant true
    %a = gpu.alloc host_shared () : memref<1xi32>
    %b = gpu.alloc host_shared () : memref<1xi32>
    %second = arith.xori %first, %true : i1
    %open_a = arith.extui %first : i1 to i32
    %open_b = arith.extui %second : i1 to i32
    memref.store %open_a, %a[%c0] : memref<1xi32>
    memref.store %open_b, %b[%c0] : memref<1xi32>
    %ta = gpu.launch_func async @k::@until blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%a : memref<1xi32>)
    %tb = gpu.launch_func async @k::@until blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%b : memref<1xi32>)
    %t = arith.select %first, %ta, %tb : !gpu.async.token
    gpu.wait [%t]
    %old_a = memref.atomic_rmw assign %one, %a[%c0] : (i32, memref<1xi32>) -> i32
    %old_b = memref.atomic_rmw assign %one, %b[%c0] : (i32, memref<1xi32>) -> i32
    gpu.wait [%ta, %tb]
    gpu.dealloc %a : memref<1xi32>
    gpu.dealloc %b : memref<1xi32>
    return
  }
  // 1; times two plus one `%rounds` times; by `%way`: plus 100, times 10, both tokens, or as it is.
  func.func private @walk(%rounds: index, %way: i32) -> i64 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %last = arith.constant 999 : index
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %ten = arith.constant 10 : i64
    %hundred = arith.constant 100 : i64
    %h = memref.alloc() : memref<1000xi64>
    %g = memref.alloc() : memref<1000xi64>
    %t0 = gpu.wait async
    %d, %t1 = gpu.alloc async [%t0] () : memref<1000xi64>
    %t2 = gpu.memset async [%t1] %d, %one : memref<1000xi64>, i64
    %side = gpu.memset async %g, %two : memref<1000xi64>, i64
    %some = arith.cmpi ne, %rounds, %c0 : index
    cf.cond_br %some, ^again(%t2, %c0 : !gpu.async.token, index), ^done(%t2, %zero : !gpu.async.token, i64)
  ^again(%t: !gpu.async.token, %i: index):
    %n = func.call @step(%t, %d, %two, %one)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    %j = arith.addi %i, %c1 : index
    %more = arith.cmpi ult, %j, %rounds : index
    // Of use on one way only.
    %extra = gpu.memcpy async [%side] %h, %g : memref<1000xi64>, memref<1000xi64>
    cf.cond_br %more, ^again(%n, %j : !gpu.async.token, index), ^looped
  ^looped:
    gpu.wait [%extra]
    %seen = memref.load %h[%last] : memref<1000xi64>
    cf.br ^done(%n, %seen : !gpu.async.token, i64)
  ^done(%u: !gpu.async.token, %v: i64):
    cf.switch %way : i32, [
      default: ^end(%u, %v : !gpu.async.token, i64),
      5: ^plus(%u : !gpu.async.token),
      6: ^times,
      7: ^both(%u, %side : !gpu.async.token, !gpu.async.token),
      8: ^both(%side, %u : !gpu.async.token, !gpu.async.token)
    ]
  ^plus(%p: !gpu.async.token):
    %p1 = func.call @step(%p, %d, %one, %hundred)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    cf.br ^end(%p1, %v : !gpu.async.token, i64)
  ^times:
    %m1 = func.call @step(%u, %d, %ten, %zero)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    cf.br ^end(%m1, %v : !gpu.async.token, i64)
  ^both(%x: !gpu.async.token, %y: !gpu.async.token):
    %z = gpu.wait async [%x, %y]
    %z1 = func.call @step(%z, %d, %two, %hundred)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    %z2 = func.call @step(%z1, %g, %one, %ten)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    %add = memref.alloc() : memref<1000xi64>
    %z3 = gpu.memcpy async [%z2] %add, %g : memref<1000xi64>, memref<1000xi64>
    gpu.wait [%z3]
    %w = memref.load %add[%last] : memref<1000xi64>
    cf.br ^end(%z1, %w : !gpu.async.token, i64)
  ^end(%e: !gpu.async.token, %f: i64):
    %e1 = gpu.memcpy async [%e] %h, %d : memref<1000xi64>, memref<1000xi64>
    gpu.wait [%e1, %side]
    %r = memref.load %h[%last] : memref<1000xi64>
    %k = arith.constant 1000000 : i64
    %kf = arith.muli %f, %k : i64
    %s = arith.addi %r, %kf : i64
    gpu.dealloc %d : memref<1000xi64>
    memref.dealloc %g : memref<1000xi64>
    return %s : i64
  }
  func.func @main() {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %four = arith.constant 4 : i32
    scf.for %i = %c0 to %c4 step %c1 {
      %first = arith.index_cast %i : index to i1
      func.call @pick(%first) : (i1) -> ()
      scf.for %j = %c0 to %c5 step %c1 {
        %jw = arith.index_cast %j : index to i32
        %way = arith.addi %jw, %four : i32
        %r = func.call @walk(%i, %way) : (index, i32) -> i64
        func.call @show(%r) : (i64) -> ()
      }
    }
    return
  }
PRINTS}
"""
PROGRAMS = {
    "meet": MEET,
    "diamond": DIAMOND,
    "pending": PENDING,
    "fills": FILLS,
    "tiles": TILES,
    "tasks": ASYNC,
    "loops": LOOPS,
    "passed": PASSED,
    "chosen": CHOSEN,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("streams")
    yaml = ["version: 1", "targets: {sm_80: {}, gfx90a: {}, cpu: {}}", "programs:"]
    for name, text in PROGRAMS.items():
        (folder / f"{name}.mlir").write_text(text.replace("PRINTS", PRINTS))
        # Printing from kernels is not to be had on AMD GPUs.
        only = ", targets: [sm_80, cpu]" if "gpu.printf" in text else ""
        yaml.append(f"  {name}: {{sources: [{name}.mlir]{only}}}")
    for number in ("one", "two"):
        text = ADD.replace("MODULE", f"k_{number}").replace("FUNCTION", f"add_{number}")
        (folder / f"{number}.mlir").write_text(text)
    (folder / "threads.c").write_text(THREADS)
    yaml.append("  threads: {sources: [one.mlir, two.mlir, threads.c], link: {libraries: [pthread]}}")
    (folder / "targets.yaml").write_text("\n".join(yaml) + "\n")
    outcome = gpubuild("build", cwd=folder, env=shared_cache)
    assert outcome.code == 0, outcome.err + outcome.out
    return folder / "build"


def run(built: Path, name: str, threads: str = "") -> Outcome:
    environment = {**os.environ, "GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": threads}
    done = subprocess.run(
        [built / name / name], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("threads", ["1", "2", ""])
def test_kernels_of_several_streams_run_at_the_same_time(built: Path, threads: str) -> None:
    assert run(built, "meet", threads).out == "3\n"


@pytest.mark.parametrize("threads", ["1", "4"])
def test_streams_that_part_and_meet(built: Path, threads: str) -> None:
    assert run(built, "diamond", threads).out == "11\n"


def test_work_that_nobody_waits_for_is_done_before_the_program_ends(built: Path) -> None:
    assert run(built, "pending").out == "late 1\n"


def test_fills_of_every_width(built: Path) -> None:
    assert run(built, "fills").out == FILLED


def test_copies_and_fills_of_tiles(built: Path) -> None:
    """Upstream would copy and set the first 6 elements of the matrix."""
    printed = "".join(line for line in run(built, "tiles").out.splitlines() if "base@" not in line)
    assert "".join(printed.split()) == MATRIX + TILE


def test_host_threads_that_launch_kernels_of_two_modules(built: Path) -> None:
    assert run(built, "threads", "3").out == "0 wrong\n"


@pytest.mark.parametrize("threads", ["1", ""])
def test_tasks_of_the_async_dialect(built: Path, threads: str) -> None:
    printed = run(built, "tasks", threads).out.splitlines()
    assert [line.replace(" ", "") for line in printed if "base@" not in line] == ["[84,84]", "[384,384]"]


@pytest.mark.parametrize("threads", ["1", "3"])
def test_tokens_from_before_a_loop(built: Path, threads: str) -> None:
    assert run(built, "loops", threads).out == "150\n"


@pytest.mark.parametrize("threads", ["1", "4"])
def test_tokens_that_are_passed_on(built: Path, threads: str) -> None:
    value = 1
    for number in range(20):
        value = value + 3 if number % 2 else value * 2 + 1
    assert run(built, "passed", threads).out == f"{value}\n{value}\n{value + 6}\n"


@pytest.mark.parametrize("threads", ["1", "4"])
def test_tokens_that_a_condition_chooses(built: Path, threads: str) -> None:
    expected = []
    for rounds in range(4):
        value = 2 ** (rounds + 1) - 1
        seen = 2 if rounds else 0
        ways = [
            (value, seen),
            (value + 100, seen),
            (value * 10, seen),
            (value * 2 + 100, 12),
            (value * 2 + 100, 12),
        ]
        expected += [result + 1000000 * beside for result, beside in ways]
    assert run(built, "chosen", threads).out == "".join(f"{value}\n" for value in expected)


def test_every_stream_and_event_is_destroyed(built: Path) -> None:
    environment = {**os.environ, "GPUBUILD_DEVICE": "cpu", "GPUBUILD_TRACE": "1"}
    for name in ("loops", "passed", "chosen", "diamond", "tiles", "fills", "tasks"):
        done = subprocess.run(
            [built / name / name], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        lines = done.stderr.splitlines()
        for noun in ("stream", "event"):
            made = [line for line in lines if f" {noun} " in line and line.endswith(" created")]
            ended = [
                line for line in lines if f" {noun} " in line and line.endswith(("destroyed", "released"))
            ]
            assert (name, len(made)) == (name, len(ended))
