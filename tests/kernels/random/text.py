"""The parts of a random kernel that are the same in all of them."""

from __future__ import annotations

import re

from kernels.place import PLACE

ALIASES = "!shared = memref<1024xi32, #gpu.address_space<workgroup>>\n"
HELPERS = (
    """
  memref.global "private" @mail : !shared = uninitialized
  func.func private @mix(%a: i32, %b: i32) -> i32 {
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32
    %x = arith.muli %a, %three : i32
    %y = arith.shrsi %b, %one : i32
    %r = arith.xori %x, %y : i32
    return %r : i32
  }
  func.func private @look(%m: memref<?xi32>, %g: index, %v: vector<4xi32>, %f: f32) -> (i32, f32) {
    %l = memref.load %m[%g] : memref<?xi32>
    %s = vector.reduction <xor>, %v : vector<4xi32> into i32
    %zero = arith.constant 0 : i32
    %low = arith.cmpi slt, %l, %zero : i32
    %r, %o = scf.if %low -> (i32, f32) {
      scf.yield %s, %f : i32, f32
    } else {
      %x = arith.addi %l, %s : i32
      %h = arith.constant 0.5 : f32
      %p = arith.addf %f, %h : f32
      scf.yield %x, %p : i32, f32
    }
    return %r, %o : i32, f32
  }
  func.func private @next(%v: i32) -> i32 {  // the next work-item's
    %mail = memref.get_global @mail : !shared
    %one = arith.constant 1 : index"""
    + PLACE
    + """
    %after = arith.addi %t, %one : index
    %from = arith.remui %after, %n : index
    memref.store %v, %mail[%t] : !shared
    gpu.barrier
    %r = memref.load %mail[%from] : !shared
    gpu.barrier
    return %r : i32
  }
  func.func private @further(%v: i32, %times: index) -> i32 {  // calls in a loop
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %r = scf.for %i = %zero to %times step %one iter_args(%w = %v) -> i32 {
      %k = arith.index_cast %i : index to i32
      %u = func.call @next(%w) : (i32) -> i32
      %s = arith.addi %u, %k : i32
      scf.yield %s : i32
    }
    return %r : i32
  }
"""
)
ARGUMENTS = (
    "%A: memref<?xi32>, %C: memref<?xi64>, %F: memref<?xf64>, %K: memref<5xi32>, %L: memref<3xf64>, "
    "%D: memref<?xi32>, %R: memref<?xf32>"
)
_START = f"""
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %i3 = arith.constant 3 : i32
    %i5 = arith.constant 5 : i32
    %i8 = arith.constant 8 : i32
    %i32 = arith.constant 32 : i32
    %i31 = arith.constant 31 : i64
    %i20 = arith.constant 20 : i64
    %i63 = arith.constant 63 : i32
    %i100 = arith.constant 100 : i32
    %f07 = arith.constant 0.7 : f32{PLACE}
    %bix = gpu.block_id x
    %biy = gpu.block_id y
    %gx = gpu.grid_dim x
    %bline = arith.muli %biy, %gx : index
    %bx = arith.addi %bline, %bix : index
    %base = arith.muli %bx, %n : index
    %g = arith.addi %base, %t : index
    %ub = arith.addi %bx, %c2 : index
    %t3 = arith.remui %t, %c3 : index
    %odd = arith.cmpi eq, %t3, %c1 : index
    %first = arith.cmpi eq, %bx, %c1 : index
    %u3 = arith.addi %t3, %c3 : index
    %c32 = arith.constant 32 : index
    %csub = arith.constant 32 : index
    %sg = arith.divui %t, %csub : index
    %sgi = arith.index_cast %sg : index to i32
    %sg3 = arith.remui %sg, %c3 : index
    %sgodd = arith.cmpi eq, %sg3, %c1 : index
    %ti = arith.index_cast %t : index to i32
    %bi = arith.index_cast %bx : index to i32
    %a0 = memref.load %A[%g] : memref<?xi32>
    %a6 = arith.andi %a0, %i63 : i32
    %fa = arith.sitofp %a6 : i32 to f32
    %aw = arith.extsi %a0 : i32 to i64
    %a64 = arith.shli %aw, %i20 : i64
    %rf = arith.sitofp %a0 : i32 to f32
    %rounded = arith.mulf %rf, %f07 : f32
""".strip("\n").splitlines()
_NAME = re.compile(r"%\w+")


def beginning(body: str) -> str:
    """The lines in front of ``body`` that it needs: each costs time in every kernel."""
    needed, kept = set(_NAME.findall(body)), []
    for line in reversed(_START):
        result, *rest = _NAME.findall(line)
        if result in needed:
            needed.update(rest)
            kept.append(line)
    return "\n".join(reversed(kept))
