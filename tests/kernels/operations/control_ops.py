# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of scf, cf, affine, func, index and ub, followed by those of complex."""

from __future__ import annotations

import numpy as np
from kernels.operations import complex_ops
from kernels.program import COUNT, Programs, floats, integers

X, Y = integers(np.int32, 0, 20), integers(np.int32, 1, 9)
F, G = floats(np.float32), floats(np.float32)
A, B = integers(np.uint64, 0, 1000), integers(np.uint64, 1, 9)
_TRIANGLE = (X * (X - 1) // 2).astype(np.int32)
PROGRAMS = Programs()


def _collatz(value: int) -> int:
    steps = 0
    while value > 1:
        value = value // 2 if value % 2 == 0 else 3 * value + 1
        steps += 1
    return steps


PROGRAMS.each(
    "scf_for",
    "scf.for with iter_args",
    """%z = arith.constant 0 : i32
    %n = arith.index_cast %x : i32 to index
    %r = scf.for %q = %c0 to %n step %c1 iter_args(%s = %z) -> i32 {
      %qi = arith.index_cast %q : index to i32
      %u = arith.addi %s, %qi : i32
      scf.yield %u : i32
    }""",
    [X],
    _TRIANGLE,
    breaks=("%c0 to %n", "%c2 to %n"),
)
PROGRAMS.each(
    "scf_if",
    "scf.if with results",
    """%p = arith.cmpi slt, %x, %y : i32
    %r = scf.if %p -> i32 {
      %d = arith.subi %y, %x : i32
      scf.yield %d : i32
    } else {
      scf.yield %x : i32
    }""",
    [X, Y],
    np.where(X < Y, Y - X, X),
    breaks=("slt", "sge"),
)
PROGRAMS.each(
    "scf_while",
    "scf.while",
    """%z = arith.constant 0 : i32
    %k1 = arith.constant 1 : i32
    %k2 = arith.constant 2 : i32
    %k3 = arith.constant 3 : i32
    %e:2 = scf.while (%v = %x, %n = %z) : (i32, i32) -> (i32, i32) {
      %more = arith.cmpi sgt, %v, %k1 : i32
      scf.condition(%more) %v, %n : i32, i32
    } do {
    ^bb0(%v: i32, %n: i32):
      %bit = arith.andi %v, %k1 : i32
      %even = arith.cmpi eq, %bit, %z : i32
      %half = arith.shrsi %v, %k1 : i32
      %m = arith.muli %v, %k3 : i32
      %up = arith.addi %m, %k1 : i32
      %w = arith.select %even, %half, %up : i32
      %n1 = arith.addi %n, %k1 : i32
      scf.yield %w, %n1 : i32, i32
    }
    %r = arith.addi %e#1, %z : i32""",
    [X],
    np.array([_collatz(int(v)) for v in X], np.int32),
    breaks=("arith.constant 3", "arith.constant 1"),
)
PROGRAMS.each(
    "scf_index_switch",
    "scf.index_switch",
    """%n = arith.index_cast %x : i32 to index
    %m = arith.remui %n, %c4 : index
    %r = scf.index_switch %m -> i32
    case 0 { %a = arith.constant 10 : i32
      scf.yield %a : i32 }
    case 2 { %a = arith.constant 20 : i32
      scf.yield %a : i32 }
    default { scf.yield %x : i32 }""",
    [X],
    np.select([X % 4 == 0, X % 4 == 2], [10, 20], X).astype(np.int32),
    breaks=("case 2", "case 3"),
)
PROGRAMS.each(
    "scf_execute_region",
    "scf.execute_region",
    """%r = scf.execute_region -> i32 {
      %s = arith.addi %x, %x : i32
      scf.yield %s : i32
    }""",
    [X],
    2 * X,
)
PROGRAMS.add(
    name="scf_parallel",
    op="scf.parallel",
    body="""scf.parallel (%a, %b) = (%c0, %c0) to (%c4, %c2) step (%c1, %c1) {
      %s = arith.muli %b, %c4 : index
      %p = arith.addi %a, %s : index
      %v = arith.index_cast %p : index to i32
      memref.store %v, %out[%a, %b] : memref<4x2xi32>
      scf.reduce
    }""",
    expect={"out": np.arange(8, dtype=np.int32).reshape(2, 4).T},
    block=1,
    breaks=("%b, %c4", "%b, %c2"),
)
PROGRAMS.add(
    name="scf_parallel_reduce",
    op="scf.parallel with scf.reduce",
    body="""%z = arith.constant 0 : i32
    %n = memref.dim %in, %c0 : memref<?xi32>
    %s = scf.parallel (%a) = (%c0) to (%n) step (%c1) init (%z) -> i32 {
      %v = memref.load %in[%a] : memref<?xi32>
      scf.reduce(%v : i32) {
      ^bb0(%l: i32, %h: i32):
        %u = arith.addi %l, %h : i32
        scf.reduce.return %u : i32
      }
    }
    memref.store %s, %out[%c0] : memref<?xi32>""",
    args={"in": X},
    expect={"out": X.sum(keepdims=True, dtype=np.int32)},
    block=1,
    breaks=("arith.addi %l, %h", "arith.subi %l, %h"),
)
PROGRAMS.add(
    name="scf_forall",
    op="scf.forall",
    body="""scf.forall (%a, %b) in (4, 2) {
      %s = arith.muli %a, %c2 : index
      %p = arith.addi %s, %b : index
      %v = arith.index_cast %p : index to i32
      memref.store %v, %out[%a, %b] : memref<4x2xi32>
    }""",
    expect={"out": np.arange(8, dtype=np.int32).reshape(4, 2)},
    block=1,
    breaks=("%a, %c2", "%a, %c4"),
)
PROGRAMS.add(
    name="cf_br_cond_br",
    op="cf.br, cf.cond_br",
    body="""%x = memref.load %in[%i] : memref<?xi32>
    %k3 = arith.constant 3 : i32
    %p = arith.cmpi slt, %x, %k3 : i32
    cf.cond_br %p, ^small, ^large(%x : i32)
  ^small:
    %s = arith.muli %x, %k3 : i32
    cf.br ^large(%s : i32)
  ^large(%v: i32):
    memref.store %v, %out[%i] : memref<?xi32>""",
    args={"in": X},
    expect={"out": np.where(X < 3, 3 * X, X).astype(np.int32)},
    grid=2,
    breaks=("slt", "sgt"),
)
PROGRAMS.add(
    name="cf_switch",
    op="cf.switch",
    body="""%x = memref.load %in[%i] : memref<?xi32>
    %k7 = arith.constant 7 : i32
    cf.switch %x : i32, [ default: ^end(%x : i32), 3: ^end(%k7 : i32), 5: ^five ]
  ^five:
    %s = arith.muli %x, %k7 : i32
    cf.br ^end(%s : i32)
  ^end(%v: i32):
    memref.store %v, %out[%i] : memref<?xi32>""",
    args={"in": X},
    expect={"out": np.select([X == 3, X == 5], [7, 35], X).astype(np.int32)},
    grid=2,
    breaks=("5: ^five", "4: ^five"),
)
PROGRAMS.each(
    "affine_apply",
    "affine.apply, min, max",
    """%n = arith.index_cast %x : i32 to index
    %m = arith.index_cast %y : i32 to index
    %a = affine.apply affine_map<(d0)[s0] -> (d0 * 3 + s0 mod 4 + d0 floordiv 2)>(%n)[%m]
    %b = affine.min affine_map<(d0, d1) -> (d0, d1 * 5, 40)>(%a, %m)
    %c = affine.max affine_map<(d0) -> (d0, 6)>(%b)
    %r = arith.index_cast %c : index to i32""",
    [X, Y],
    np.maximum(np.minimum(np.minimum(X * 3 + Y % 4 + X // 2, 5 * Y), 40), 6).astype(np.int32),
    breaks=("d0 floordiv 2", "d0 ceildiv 2"),
)
PROGRAMS.add(
    name="affine_for",
    op="affine.for, load, store, if",
    body="""affine.for %a = 0 to 8 {
      %v = affine.load %in[%a] : memref<?xi32>
      affine.if affine_set<(d0) : (d0 - 3 >= 0)>(%a) {
        affine.store %v, %out[%a] : memref<?xi32>
      }
    }""",
    args={"in": X},
    expect={"out": np.where(np.arange(8) >= 3, X[:8], 0).astype(np.int32)},
    block=1,
    breaks=("d0 - 3", "d0 - 4"),
)
PROGRAMS.add(
    name="affine_parallel",
    op="affine.parallel",
    body="""affine.parallel (%a) = (0) to (8) {
      %v = affine.load %in[%a] : memref<?xi32>
      affine.store %v, %out[%a] : memref<?xi32>
    }""",
    args={"in": X},
    expect={"out": X[:8]},
    block=1,
    breaks=("to (8)", "to (2)"),
)
PROGRAMS.each(
    "affine_delinearize",
    "affine.delinearize_index, linearize_index",
    """%n = arith.index_cast %x : i32 to index
    %d:3 = affine.delinearize_index %n into (2, 3, 4) : index, index, index
    %l = affine.linearize_index [%d#2, %d#0, %d#1] by (4, 2, 3) : index
    %r = arith.index_cast %l : index to i32""",
    [X],
    ((X % 4) * 6 + (X // 12) * 3 + X // 4 % 3).astype(np.int32),
    breaks=("into (2, 3, 4)", "into (2, 4, 3)"),
)
PROGRAMS.each(
    "func_call",
    "func.func, func.call",
    "%r, %q = func.call @func_call_twice(%x, %y) : (i32, i32) -> (i32, i32)",
    [X, Y],
    2 * X + Y,
    module="""  func.func @func_call_twice(%x: i32, %y: i32) -> (i32, i32) {
    %a = func.call @func_call_add(%x, %y) : (i32, i32) -> i32
    %b = func.call @func_call_add(%a, %x) : (i32, i32) -> i32
    return %b, %a : i32, i32
  }
  func.func private @func_call_add(%x: i32, %y: i32) -> i32 {
    %r = arith.addi %x, %y : i32
    return %r : i32
  }""",
    breaks=("%r, %q", "%q, %r"),
)
PROGRAMS.add(
    name="gpu_func_callee",
    op="gpu.func as callee, with a memref",
    body="""func.call @gpu_func_callee_set(%out, %i) : (memref<?xi32>, index) -> ()""",
    expect={"out": np.arange(COUNT, dtype=np.int32) * 2},
    grid=2,
    module="""  func.func @gpu_func_callee_set(%m: memref<?xi32>, %i: index) {
    %d = arith.addi %i, %i : index
    %v = arith.index_cast %d : index to i32
    memref.store %v, %m[%i] : memref<?xi32>
    return
  }""",
    breaks=("(%out, %i) :", "(%out, %t) :"),
)
PROGRAMS.add(
    name="func_barrier",
    op="gpu.barrier in a callee",
    body="""%r = func.call @func_barrier_neighbour(%w, %t) : (memref<32xi32, WG>, index) -> i32
    memref.store %r, %out[%i] : memref<?xi32>""".replace("WG", "#gpu.address_space<workgroup>"),
    attributes="workgroup(%w : memref<32xi32, #gpu.address_space<workgroup>>)",
    expect={"out": np.tile(31 - np.arange(32, dtype=np.int32), 2)},
    grid=2,
    module="""  func.func @func_barrier_neighbour(%w: memref<32xi32, WG>, %t: index) -> i32 {
    %v = arith.index_cast %t : index to i32
    memref.store %v, %w[%t] : memref<32xi32, WG>
    gpu.barrier
    %c31 = arith.constant 31 : index
    %o = arith.subi %c31, %t : index
    %r = memref.load %w[%o] : memref<32xi32, WG>
    return %r : i32
  }""".replace("WG", "#gpu.address_space<workgroup>"),
)


def _index() -> None:
    signed = A.view(np.int64) - 500
    other = np.where(np.arange(COUNT) % 2 == 0, B.view(np.int64), -B.view(np.int64))
    su, ou = signed.view(np.uint64), other.view(np.uint64)
    trunc = np.sign(signed) * np.sign(other) * (abs(signed) // abs(other))
    ops = {
        "add": (su, ou, signed + other), "sub": (su, ou, signed - other), "mul": (su, ou, signed * other),
        "divs": (su, ou, trunc), "rems": (su, ou, signed - trunc * other), "divu": (A, B, A // B),
        "remu": (A, B, A % B), "ceildivs": (su, ou, -(-signed // other)), "ceildivu": (A, B, -(-A.view(np.int64) // B.view(np.int64))),
        "floordivs": (su, ou, signed // other), "maxs": (su, ou, np.maximum(signed, other)),
        "maxu": (A, B, np.maximum(A, B)), "mins": (su, ou, np.minimum(signed, other)),
        "minu": (su, ou, np.minimum(su, ou)), "and": (A, B, A & B), "or": (A, B, A | B), "xor": (A, B, A ^ B),
        "shl": (A, B, A << B), "shrs": (su, B, signed >> B.view(np.int64)), "shru": (su, B, su >> B),
    }  # fmt: skip
    for op, (x, y, want) in ops.items():
        breaks = (f"index.{op} ", "index.xor " if op != "xor" else "index.and ")
        line = f"%r = index.{op} %x, %y"
        PROGRAMS.each(f"index_{op}", f"index.{op}", line, [x, y], want.view(np.uint64), breaks=breaks)
    PROGRAMS.each(
        "index_cmp",
        "index.cmp, casts, castu",
        "%p = index.cmp slt(%x, %y)\n    %r = index.casts %x : index to i32"
        "\n    %q = index.castu %y : index to i32",
        [su, ou],
        signed.astype(np.int32),
    )
    cast = "%n = index.casts %x : i32 to index\n    %r = index.sizeof\n    %q = index.casts %n : index to i64"
    PROGRAMS.each("index_sizeof", "index.sizeof", cast, [X], np.full(COUNT, 64, np.uint64))
    PROGRAMS.each(
        "index_constant",
        "index.constant, bool.constant",
        "%b = index.bool.constant true\n    %k = index.constant 7\n    %j = index.constant 9\n"
        "    %s = arith.select %b, %k, %j : index\n    %r = index.add %s, %x",
        [A],
        A + np.uint64(7),
    )


_index()
PROGRAMS.each(
    "ub_poison",
    "ub.poison",
    "%p = ub.poison : i32\n    %b = arith.constant true\n    %r = arith.select %b, %x, %p : i32",
    [X],
    X,
)
PROGRAMS += complex_ops.programs()
