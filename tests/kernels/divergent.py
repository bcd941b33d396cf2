"""Kernels whose control flow around barriers differs between work-items, or might, and what comes out."""

from __future__ import annotations

import numpy as np
from kernels.place import PLACE_IN_GRID

WG = "#gpu.address_space<workgroup>"
SHARED = f"memref<1024xi32, {WG}>"
PROLOGUE = (
    """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c32 = arith.constant 32 : index
    %i1 = arith.constant 1 : i32
    %i32 = arith.constant 32 : i32"""
    + PLACE_IN_GRID
    + """
    %sg = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %lim = memref.load %N[%c0] : memref<4xi32>
    %limit = arith.index_cast %lim : i32 to index
    %mine = memref.load %A[%g] : memref<?xi32>
"""
)
HELPERS = f"""
  memref.global "private" @mail : {SHARED} = uninitialized
  func.func private @next(%v: i32, %t: index, %n: index) -> i32 {{
    %one = arith.constant 1 : index
    %mail = memref.get_global @mail : {SHARED}
    %after = arith.addi %t, %one : index
    %from = arith.remui %after, %n : index
    memref.store %v, %mail[%t] : {SHARED}
    gpu.barrier
    %r = memref.load %mail[%from] : {SHARED}
    gpu.barrier
    return %r : i32
  }}
  func.func private @twice(%v: i32, %t: index, %n: index, %more: i1) -> i32 {{
    %a = func.call @next(%v, %t, %n) : (i32, index, index) -> i32
    cf.cond_br %more, ^again, ^end(%a : i32)
  ^again:
    %b = func.call @next(%a, %t, %n) : (i32, index, index) -> i32
    cf.br ^end(%b : i32)
  ^end(%r: i32):
    return %r : i32
  }}
"""
NEXT = "func.call @next({}, %t, %n) : (i32, index, index) -> i32"
GRID = 2
LIMIT = 3
EDGE = 1 << 20
NUMBERS = np.array([LIMIT, 1, EDGE, 0], np.int32)


def _rolled(a: np.ndarray, by: int) -> np.ndarray:
    return np.roll(a, -by, axis=1)


def _turns(a: np.ndarray) -> np.ndarray:
    """Each turn adds its number and takes the next work-item's value."""
    for turn in range(LIMIT):
        a = _rolled(a + turn, 1)
    return a


def _rows(a: np.ndarray) -> np.ndarray:
    """Subgroup s sums its rows s, s + subgroups, …; lanes exchange values in each of them."""
    out = np.zeros_like(a)
    items = a.shape[1]
    groups = -(-items // 32)
    for block in range(GRID):
        for t in range(items):
            size = min(32, items - t // 32 * 32)
            total = 0
            for row in range(t // 32, 2 * groups + 1, groups):
                other = t % 32 ^ 1
                there = t // 32 * 32 + (other if other < size else t % 32)
                total += row + a[block, there]
            out[block, t] = total
    return out


def _first_subgroup(a: np.ndarray) -> np.ndarray:
    out = a.copy()
    size = min(32, a.shape[1])
    for lane in range(size):
        out[:, lane] = a[:, lane ^ 1 if lane ^ 1 < size else lane] + 1
    return _rolled(out, 1)


FORMS = {
    # a bound out of memory
    "loaded": (f"""
    %r = scf.for %k = %c0 to %limit step %c1 iter_args(%v = %mine) -> (i32) {{
      %ki = arith.index_cast %k : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      scf.yield %w : i32
    }}""", _turns),
    # every work-item from its own place on: as many iterations
    "strided": (f"""
    %end = arith.muli %n, %c3 : index
    %r = scf.for %k = %t to %end step %n iter_args(%v = %mine) -> (i32) {{
      %turn = arith.divui %k, %n : index
      %ki = arith.index_cast %turn : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      scf.yield %w : i32
    }}""", _turns),
    "while": (f"""
    %k:2 = scf.while (%i = %c0, %v = %mine) : (index, i32) -> (i32, index) {{
      %go = arith.cmpi slt, %i, %limit : index
      scf.condition(%go) %v, %i : i32, index
    }} do {{
    ^bb0(%v: i32, %i: index):
      %ki = arith.index_cast %i : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      %j = arith.addi %i, %c1 : index
      scf.yield %j, %w : index, i32
    }}
    %r = arith.addi %k#0, %i1 : i32""", lambda a: _turns(a) + 1),
    # the barrier is in the condition's part
    "do_while": (f"""
    %k:2 = scf.while (%i = %c0, %v = %mine) : (index, i32) -> (index, i32) {{
      %ki = arith.index_cast %i : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      %j = arith.addi %i, %c1 : index
      %go = arith.cmpi slt, %j, %limit : index
      scf.condition(%go) %j, %w : index, i32
    }} do {{
    ^bb0(%j: index, %w: i32):
      scf.yield %j, %w : index, i32
    }}
    %r = arith.addi %k#1, %i1 : i32""", lambda a: _turns(a) + 1),
    # values change places on their way around
    "swap": (f"""
    %k:3 = scf.while (%i = %c0, %v = %mine, %u = %lim) : (index, i32, i32) -> (index, i32, i32) {{
      %go = arith.cmpi slt, %i, %limit : index
      scf.condition(%go) %i, %u, %v : index, i32, i32
    }} do {{
    ^bb0(%i: index, %u: i32, %v: i32):
      %w = {NEXT.format("%v")}
      %j = arith.addi %i, %c1 : index
      scf.yield %j, %w, %u : index, i32, i32
    }}
    %r = arith.subi %k#1, %k#2 : i32""", None),
    "parallel": (f"""
    %p = scf.parallel (%i, %j) = (%c0, %c1) to (%c2, %limit) step (%c1, %c1) init (%mine) -> i32 {{
      %ij = arith.muli %i, %j : index
      %ki = arith.index_cast %ij : index to i32
      %s = arith.addi %mine, %ki : i32
      %w = {NEXT.format("%s")}
      scf.reduce(%w : i32) {{
      ^bb0(%l: i32, %h: i32):
        %sum = arith.addi %l, %h : i32
        scf.reduce.return %sum : i32
      }}
    }}
    %r = arith.addi %p, %i1 : i32""", lambda a: a + 4 * _rolled(a, 1) + 3 + 1),
    "switch": (f"""
    %r = scf.index_switch %limit -> i32
    case 1 {{
      %w = {NEXT.format("%mine")}
      scf.yield %w : i32
    }}
    case 3 {{
      %w = {NEXT.format("%mine")}
      %u = {NEXT.format("%w")}
      scf.yield %u : i32
    }}
    default {{
      scf.yield %i1 : i32
    }}""", lambda a: _rolled(a, 2)),
    # branches, with a way out in the middle of a loop, and a return that nobody takes
    "branches": (f"""
    %edge = memref.load %N[%c2] : memref<4xi32>
    %gi = arith.index_cast %g : index to i32
    %in = arith.cmpi slt, %gi, %edge : i32
    cf.cond_br %in, ^head(%c0, %mine : index, i32), ^out
  ^head(%i: index, %v: i32):
    %ki = arith.index_cast %i : index to i32
    %s = arith.addi %v, %ki : i32
    %w = {NEXT.format("%s")}
    %j = arith.addi %i, %c1 : index
    %enough = arith.cmpi sge, %j, %limit : index
    cf.cond_br %enough, ^done, ^more
  ^more:
    %ten = arith.cmpi sge, %j, %c32 : index
    cf.cond_br %ten, ^out, ^head(%j, %w : index, i32)
  ^done:
    memref.store %w, %C[%g] : memref<?xi32>
    gpu.return
  ^out:""", _turns),
    "called": ("""
    %go = arith.cmpi slt, %lim, %i32 : i32
    %r = func.call @twice(%mine, %t, %n, %go) : (i32, index, index, i1) -> i32""", lambda a: _rolled(a, 2)),
    # of a memref only its user knows where it begins
    "view": ("""
    %at = arith.subi %g, %c0 : index
    %one = memref.load %N[%c1] : memref<4xi32>
    %far = arith.index_cast %one : i32 to index
    %place = arith.muli %at, %far : index
    %m = memref.subview %A[%place] [1] [1] : memref<?xi32> to memref<1xi32, strided<[1], offset: ?>>
    gpu.barrier
    %r = memref.load %m[%c0] : memref<1xi32, strided<[1], offset: ?>>""", lambda a: a),
    "chosen": ("""
    %odd = arith.cmpi slt, %mine, %i1 : i32
    %m = arith.select %odd, %A, %C : memref<?xi32>
    gpu.barrier
    memref.store %i1, %C[%g] : memref<?xi32>
    gpu.barrier
    %r = memref.load %m[%g] : memref<?xi32>""", lambda a: np.where(a < 1, a, 1)),
    # subgroups go their own ways
    "subgroup": ("""
    %in = arith.cmpi eq, %sg, %c0 : index
    %v = scf.if %in -> (i32) {
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      %p = arith.addi %o, %i1 : i32
      scf.yield %p : i32
    } else {
      scf.yield %mine : i32
    }
    %r = func.call @next(%v, %t, %n) : (i32, index, index) -> i32""", _first_subgroup),
    "rows": ("""
    %zero = arith.constant 0 : i32
    %up = arith.addi %n, %c32 : index
    %before = arith.subi %up, %c1 : index
    %groups = arith.divui %before, %c32 : index
    %twice = arith.muli %groups, %c2 : index
    %end = arith.addi %twice, %c1 : index
    %v = scf.for %k = %sg to %end step %groups iter_args(%sum = %zero) -> (i32) {
      %ki = arith.index_cast %k : index to i32
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      %one = arith.addi %o, %ki : i32
      %next = arith.addi %sum, %one : i32
      scf.yield %next : i32
    }
    %u = func.call @next(%v, %t, %n) : (i32, index, index) -> i32
    %r = arith.addi %u, %i1 : i32""", lambda a: _rolled(_rows(a), 1) + 1),
    # lanes that have returned take no part
    "tail": ("""
    memref.store %i1, %C[%g] : memref<?xi32>
    %in = arith.cmpi ult, %t, %c3 : index
    cf.cond_br %in, ^work, ^out
  ^work:
    %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
    %p = arith.addi %o, %i1 : i32
    memref.store %p, %C[%g] : memref<?xi32>
    gpu.return
  ^out:""", None),
    # a loop with a barrier that nobody runs, where not all are
    "no_turn": ("""
    %none = memref.load %N[%c3] : memref<4xi32>
    %end = arith.index_cast %none : i32 to index
    %in = arith.cmpi ult, %t, %c3 : index
    %r = scf.if %in -> (i32) {
      %v = scf.for %k = %c0 to %end step %c1 iter_args(%u = %i1) -> (i32) {
        gpu.barrier
        %w = arith.addi %u, %i1 : i32
        scf.yield %w : i32
      }
      scf.yield %v : i32
    } else {
      scf.yield %mine : i32
    }""", lambda a: np.where(np.arange(a.shape[1]) < 3, 1, a)),
}  # fmt: skip

# What is wrong, and how many work-items wait where. There are 40; the value of work-item i is i.
WRONG = {
    "bounds": ("""
    %b = arith.index_cast %mine : i32 to index
    scf.for %k = %c0 to %b step %c1 { gpu.barrier }""", "39 of 40 work-items wait at gpu.barrier"),
    "condition": ("""
    %five = arith.constant 5 : i32
    %r = scf.while (%i = %mine) : (i32) -> i32 {
      %go = arith.cmpi slt, %i, %five : i32
      scf.condition(%go) %i : i32
    } do {
    ^bb0(%i: i32):
      gpu.barrier
      %j = arith.addi %i, %i1 : i32
      scf.yield %j : i32
    }""", "5 of 40 work-items wait at gpu.barrier"),
    "returned": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    cf.cond_br %in, ^work, ^out
  ^work:
    gpu.barrier
    cf.br ^out
  ^out:""", "32 of 40 work-items wait at gpu.barrier"),
    "otherwise": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    scf.if %in {
      memref.store %i1, %C[%g] : memref<?xi32>
    } else {
      gpu.barrier
    }""", "8 of 40 work-items wait at gpu.barrier"),
    "inner": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    scf.if %in {
      memref.store %i1, %C[%g] : memref<?xi32>
      scf.for %k = %c0 to %limit step %c1 {
        gpu.barrier
      }
    }""", "32 of 40 work-items wait at gpu.barrier"),
    "reduced": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    scf.if %in {
      %s = gpu.all_reduce add %mine uniform {} : (i32) -> (i32)
      memref.store %s, %C[%g] : memref<?xi32>
    }""", "32 of 40 work-items wait at gpu.all_reduce"),
    "lanes": ("""
    %four = arith.constant 4 : i32
    %in = arith.cmpi slt, %mine, %four : i32
    scf.if %in {
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      memref.store %o, %C[%g] : memref<?xi32>
    }
    gpu.barrier""", "4 of 32 work-items wait at gpu.shuffle"),
    "both_lanes": ("""
    %four = arith.constant 4 : i32
    %in = arith.cmpi slt, %mine, %four : i32
    %v = scf.if %in -> (i32) {
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      scf.yield %o : i32
    } else {
      %o, %ok = gpu.shuffle xor %i1, %i1, %i32 : i32
      scf.yield %o : i32
    }
    memref.store %v, %C[%g] : memref<?xi32>""", "4 of 32 work-items wait at gpu.shuffle"),
}  # fmt: skip


def kernel(name: str, body: str) -> str:
    """Kernel ``@name`` that stores ``%r``, unless it branches to its end."""
    store = "" if body.rstrip().endswith("^out:") else "memref.store %r, %C[%g] : memref<?xi32>"
    return f"""
  gpu.func @{name}(%A: memref<?xi32>, %C: memref<?xi32>, %N: memref<4xi32>) kernel {{{PROLOGUE}{body}
    {store}
    gpu.return
  }}"""
