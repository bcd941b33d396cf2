# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of operations that few kernels have: scopes, casts, heaps, reinterpreted numbers."""

from __future__ import annotations

import numpy as np
from kernels.program import AMD_CHIPS, CPU, TARGETS, WORKGROUP, Programs

MEMREF = Programs()
CONTROL = Programs()
ARITH = Programs()
X = np.arange(1, 33, dtype=np.float32)
Z = np.array([1 + 2j, -3 + 0.5j, 0, 0], np.complex64)


def _atan2(y: complex, x: complex) -> complex:
    """As the dialect defines it: -i log((x + i y) / sqrt(x² + y²))."""
    y, x = complex(y), complex(x)
    return complex(-1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)))


def _memref() -> None:
    MEMREF.one(
        "memref_alloca_scope",
        "memref.alloca_scope, distinct_objects, assume_alignment",
        """%v = memref.load %xs[%i] : memref<?xf32>
    %r = memref.alloca_scope -> (f32) {
      %q = memref.alloca() : memref<4xf32>
      memref.store %v, %q[%c2] : memref<4xf32>
      %w = memref.load %q[%c2] : memref<4xf32>
      memref.alloca_scope.return %w : f32
    }
    %d:2 = memref.distinct_objects %xs, %out : memref<?xf32>, memref<?xf32>
    memref.store %r, %d#1[%i] : memref<?xf32>""",
        {"xs": X},
        {"out": X},
        block=32,
    )
    MEMREF.one(
        "memref_space_cast",
        "memref.memory_space_cast, memref.reshape",
        f"""%g = memref.memory_space_cast %w : memref<4xf32, {WORKGROUP}> to memref<4xf32>
    %v = memref.load %xs[%c4] : memref<?xf32>
    memref.store %v, %g[%c2] : memref<4xf32>
    %s = memref.alloca() : memref<2xindex>
    memref.store %c2, %s[%c0] : memref<2xindex>
    memref.store %c4, %s[%c1] : memref<2xindex>
    %two = memref.reshape %xs(%s) : (memref<?xf32>, memref<2xindex>) -> memref<?x?xf32>
    %a = memref.load %w[%c2] : memref<4xf32, {WORKGROUP}>
    %b = memref.load %two[%c1, %c2] : memref<?x?xf32>
    memref.store %a, %out[%c0] : memref<?xf32>
    memref.store %b, %out[%c1] : memref<?xf32>""",
        {"xs": X},
        {"out": np.array([5, 7], np.float32)},
        attributes=f"workgroup(%w : memref<4xf32, {WORKGROUP}>)",
        breaks=("%two[%c1", "%two[%c0"),
    )
    MEMREF.one(
        "memref_alloc",
        "memref.alloc, dealloc",
        """%n = memref.dim %xs, %c0 : memref<?xf32>
    %h = memref.alloc(%n) : memref<?xf32>
    memref.copy %xs, %h : memref<?xf32> to memref<?xf32>
    %v = memref.load %h[%c4] : memref<?xf32>
    memref.store %v, %out[%c0] : memref<?xf32>
    memref.dealloc %h : memref<?xf32>""",
        {"xs": X},
        {"out": np.array([5], np.float32)},
        refused=dict.fromkeys(AMD_CHIPS, "undefined in @k: free, malloc"),
    )
    MEMREF.one(
        "memref_realloc",
        "memref.realloc to a size known at run time, to a constant one",
        """%v = memref.load %xs[%c2] : memref<?xf32>
    %h = memref.alloc(%c4) : memref<?xf32>
    memref.store %v, %h[%c1] : memref<?xf32>
    %n = memref.dim %xs, %c0 : memref<?xf32>
    %g = memref.realloc %h(%n) : memref<?xf32> to memref<?xf32>
    memref.store %v, %g[%t] : memref<?xf32>
    %last = memref.load %xs[%c4] : memref<?xf32>
    %end = arith.subi %n, %c1 : index
    memref.store %last, %g[%end] : memref<?xf32>
    %a = memref.load %g[%c1] : memref<?xf32>
    %b = memref.load %g[%end] : memref<?xf32>
    %f = memref.alloc() : memref<4xf32>
    memref.store %b, %f[%c2] : memref<4xf32>
    %w = memref.realloc %f : memref<4xf32> to memref<64xf32>
    %d = memref.load %w[%c2] : memref<64xf32>
    %size = memref.dim %g, %c0 : memref<?xf32>
    memref.store %a, %out[%c0] : memref<?xf32>
    memref.store %d, %out[%c1] : memref<?xf32>
    memref.store %size, %many[%c0] : memref<?xindex>
    memref.dealloc %g : memref<?xf32>
    memref.dealloc %w : memref<64xf32>""",
        {"xs": X},
        {"out": np.array([3, 5], np.float32), "many": np.array([32], np.uint64)},
        breaks=("memref.load %xs[%c2]", "memref.load %xs[%c1]"),
        refused=dict.fromkeys(AMD_CHIPS, "undefined in @k: free, malloc"),
    )
    MEMREF.one(
        "memref_spaces",
        "memref.global in constant memory (space 4), in global memory",
        """%constants = memref.get_global @memref_spaces_constant : memref<4xf32, 4>
    %globals = memref.get_global @memref_spaces_global : memref<4xf32, #gpu.address_space<global>>
    %j = arith.remui %t, %c4 : index
    %a = memref.load %constants[%j] : memref<4xf32, 4>
    %b = memref.load %globals[%j] : memref<4xf32, #gpu.address_space<global>>
    %sum = arith.addf %a, %b : f32
    memref.store %sum, %out[%t] : memref<?xf32>""",
        {},
        {"out": np.tile(np.array([101.5, 202.5, 303.5, 404.5], np.float32), 2)},
        block=8,
        module='  memref.global "private" constant @memref_spaces_constant : memref<4xf32, 4> '
        "= dense<[1.5, 2.5, 3.5, 4.5]>\n"
        '  memref.global "private" @memref_spaces_global : memref<4xf32, #gpu.address_space<global>> '
        "= dense<[100.0, 200.0, 300.0, 400.0]>",
        breaks=("%globals[%j]", "%globals[%c0]"),
    )
    MEMREF.one(
        "memref_rank",
        "memref.rank",
        """%r = memref.rank %xs : memref<?xf32>
    memref.store %r, %out[%c0] : memref<?xindex>""",
        {"xs": X},
        {"out": np.array([1], np.uint64)},
    )
    MEMREF.one(
        "memref_alloc_workgroup_dynamic",
        "memref.alloc in workgroup memory, of a size that varies",
        f"%h = memref.alloc(%i) : memref<?xf32, {WORKGROUP}>\n    memref.store %x, %h[%c0] : memref<?xf32, {WORKGROUP}>",
        {"x": np.float32(1)},
        {},
        refused=dict.fromkeys(TARGETS, "in workgroup memory, of a size that only the running kernel knows"),
    )
    MEMREF.one(
        "memref_dma",
        "memref.dma_start, dma_wait, affine.dma_start, dma_wait",
        f"memref.dma_wait %tag[%c0], %c4 : memref<?xi32>\n    memref.dma_start %xs[%c0], %w[%c0], %c4, %tag[%c0] : memref<?xf32>, memref<4xf32, {WORKGROUP}>, memref<?xi32>\n"
        f"    affine.dma_start %xs[0], %w[0], %tag[0], %c4 : memref<?xf32>, memref<4xf32, {WORKGROUP}>, memref<?xi32>",
        {"xs": X, "tag": np.zeros(1, np.int32)},
        {},
        attributes=f"workgroup(%w : memref<4xf32, {WORKGROUP}>)",
        refused=dict.fromkeys(TARGETS, "needs a copy engine, which no target has"),
    )


def _control() -> None:
    CONTROL.one(
        "affine_vectors",
        "affine.vector_load, vector_store, prefetch",
        """affine.for %j = 0 to 8 {
      affine.prefetch %xs[%j * 4], read, locality<3>, data : memref<?xf32>
      %v = affine.vector_load %xs[%j * 4] : memref<?xf32>, vector<4xf32>
      %w = arith.addf %v, %v : vector<4xf32>
      affine.vector_store %w, %out[28 - %j * 4] : memref<?xf32>, vector<4xf32>
    }""",
        {"xs": X},
        {"out": (2 * X).reshape(8, 4)[::-1].ravel()},
        breaks=("[28 - %j * 4]", "[%j * 4]"),
    )
    CONTROL.one(
        "complex_bitcast",
        "complex.bitcast",
        """%z = memref.load %c[%c0] : memref<?xcomplex<f32>>
    %n = complex.bitcast %z : complex<f32> to i64
    memref.store %n, %out[%c0] : memref<?xi64>
    %x = memref.load %given[%c0] : memref<?xi64>
    %y = complex.bitcast %x : i64 to complex<f32>
    %f = complex.bitcast %y : complex<f32> to f64
    %w = complex.bitcast %f : f64 to complex<f32>
    memref.store %w, %back[%c0] : memref<?xcomplex<f32>>""",
        {"c": Z[:1], "given": Z[1:2].view(np.int64)},
        {"out": Z[:1].view(np.int64), "back": Z[1:2]},
        breaks=("%f = complex.bitcast %y", "%f = complex.bitcast %z"),
    )
    CONTROL.one(
        "complex_atan2",
        "complex.atan2, complex.constant",
        """%z = memref.load %c[%c0] : memref<?xcomplex<f32>>
    %y = complex.constant [0.5 : f32, 2.0 : f32] : complex<f32>
    %w = complex.atan2 %z, %y : complex<f32>
    memref.store %w, %out[%c0] : memref<?xcomplex<f32>>""",
        {"c": Z[:1], "out": np.zeros(1, np.complex64)},
        {"out": np.array([_atan2(Z[0], 0.5 + 2j)], np.complex128)},
        tolerance_ulp=64,
    )
    CONTROL.one(
        "complex_powi",
        "complex.powi",
        """%z = memref.load %c[%c0] : memref<?xcomplex<f32>>
    %n = arith.constant 3 : i32
    %w = complex.powi %z, %n : complex<f32>, i32
    memref.store %w, %out[%c0] : memref<?xcomplex<f32>>""",
        {"c": Z[:1]},
        {"out": Z[:1] ** 3},
        tolerance_ulp=64,
    )
    CONTROL.one(
        "ub_unreachable",
        "ub.unreachable",
        """%v = memref.load %xs[%i] : memref<?xf32>
    %z = arith.constant 0.0 : f32
    %never = arith.cmpf olt, %v, %z : f32
    cf.cond_br %never, ^no, ^yes
  ^no:
    ub.unreachable
  ^yes:
    memref.store %v, %out[%i] : memref<?xf32>""",
        {"xs": X},
        {"out": X},
        block=32,
    )
    CONTROL.one(
        "func_call_indirect",
        "func.constant, func.call_indirect",
        """%v = memref.load %xs[%i] : memref<?xf32>
    %f = func.constant @twice : (f32) -> f32
    %g = func.constant @negated : (f32) -> f32
    %odd = arith.cmpi ugt, %i, %c4 : index
    %h = arith.select %odd, %f, %g : (f32) -> f32
    %r = func.call_indirect %h(%v) : (f32) -> f32
    memref.store %r, %out[%i] : memref<?xf32>""",
        {"xs": X},
        {"out": np.where(np.arange(32) > 4, 2 * X, -X)},
        module="  func.func @twice(%x: f32) -> f32 {\n    %y = arith.addf %x, %x : f32\n    return %y : f32\n  }\n"
        "  func.func @negated(%x: f32) -> f32 {\n    %y = arith.negf %x : f32\n    return %y : f32\n  }",
        block=32,
        refused={CPU: "taking the address of function"},
    )


def _arith() -> None:
    ARITH.one(
        "arith_tf32",
        "arith.truncf, arith.extf tf32",
        """%r0 = arith.truncf %x : f32 to tf32
    %r = arith.extf %r0 : tf32 to f32
    memref.store %r, %out[%c0] : memref<?xf32>""",
        {"x": np.float32(1.1)},
        {"out": np.zeros(1, np.float32)},
        refused=dict.fromkeys(TARGETS, "which is a format that tensor cores round f32 to"),
    )


_memref()
_control()
_arith()
