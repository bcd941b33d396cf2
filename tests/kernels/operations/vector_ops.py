# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of the vector dialect."""

from __future__ import annotations

import numpy as np
from kernels.program import Programs, floats, integers

PROGRAMS = Programs()
X, Y = integers(np.int32, -9, 9).astype(np.float32), integers(np.int32, 1, 9).astype(np.float32)
M = integers(np.int32, -9, 9, 64).astype(np.float32).reshape(8, 8)
N = integers(np.int32, -9, 9, 64).astype(np.float32).reshape(8, 8)
V4, V8 = "vector<4xf32>", "vector<8xf32>"


def _one(name: str, op: str, body: str, want: np.ndarray, **more) -> None:
    """A program of one work-item: ``x``, ``y`` flat, ``m``, ``n`` square, ``out`` as ``want`` is."""
    args = {"x": X, "y": Y, "m": M, "n": N}
    PROGRAMS.add(name=name, op=op, body=body, args=args, expect={"out": want}, block=1, **more)


def _flat(body: str, kind: str = V4) -> str:
    return f"""%a = vector.load %x[%c0] : memref<?xf32>, vector<4xf32>
    %b = vector.load %y[%c4] : memref<?xf32>, vector<4xf32>
    {body}
    vector.store %r, %out[%c0] : memref<?xf32>, {kind}"""


def _scalar(body: str) -> str:
    return _flat(body).rpartition("vector.store")[0] + "memref.store %r, %out[%c0] : memref<?xf32>"


A, B = X[:4], Y[4:8]
_one(
    "vector_load_store",
    "vector.load, vector.store",
    _flat(f"%r = arith.addf %a, %b : {V4}"),
    A + B,
    breaks=("addf", "subf"),
)
_one(
    "vector_load_store_2d",
    "vector.load, vector.store of two dimensions",
    "%a = vector.load %m[%c1, %c2] : memref<8x8xf32>, vector<2x3xf32>\n"
    "    vector.store %a, %out[%c2, %c1] : memref<4x4xf32>, vector<2x3xf32>",
    np.pad(M[1:3, 2:5], ((2, 0), (1, 0))),
    breaks=("%out[%c2", "%out[%c1"),
)
_one(
    "vector_broadcast",
    "vector.broadcast",
    _flat(f"%e = memref.load %x[%c2] : memref<?xf32>\n    %r = vector.broadcast %e : f32 to {V4}"),
    np.full(4, X[2]),
)
_one(
    "vector_extract_insert",
    "vector.extract, vector.insert",
    _flat(f"%e = vector.extract %a[2] : f32 from {V4}\n    %r = vector.insert %e, %b[1] : f32 into {V4}"),
    np.array([B[0], A[2], B[2], B[3]]),
    breaks=("%a[2]", "%a[3]"),
)
_one(
    "vector_extract_dynamic",
    "vector.extract at a position known at run time",
    _flat(f"%e = vector.extract %a[%t] : f32 from {V4}\n    %r = vector.insert %e, %b[%c1] : f32 into {V4}"),
    np.array([B[0], A[0], B[2], B[3]]),
)
_one(
    "vector_shuffle",
    "vector.shuffle",
    _flat(f"%r = vector.shuffle %a, %b [5, 0, 7, 2] : {V4}, {V4}"),
    np.array([B[1], A[0], B[3], A[2]]),
    breaks=("[5, 0", "[0, 5"),
)
_one(
    "vector_interleave",
    "vector.interleave, deinterleave",
    _flat(
        f"%q = vector.interleave %a, %b : {V4} -> {V8}\n    %e, %o = vector.deinterleave %q : {V8} -> {V4}\n    %r = arith.subf %e, %o : {V4}"
    ),
    A - B,
)
_one(
    "vector_from_elements",
    "vector.from_elements, to_elements",
    _flat(
        f"%e:4 = vector.to_elements %a : {V4}\n    %r = vector.from_elements %e#3, %e#2, %e#1, %e#0 : {V4}"
    ),
    A[::-1].copy(),
)
_one("vector_fma", "vector.fma", _flat(f"%r = vector.fma %a, %b, %a : {V4}"), A * B + A)
_one(
    "vector_bitcast",
    "vector.bitcast",
    _flat(
        f"%q = vector.bitcast %a : {V4} to vector<8xi16>\n    %r = vector.bitcast %q : vector<8xi16> to {V4}"
    ),
    A,
)
_one(
    "vector_step",
    "vector.step",
    _flat(
        f"%s = vector.step : vector<4xindex>\n    %q = arith.index_cast %s : vector<4xindex> to vector<4xi32>\n    %r = arith.sitofp %q : vector<4xi32> to {V4}"
    ),
    np.arange(4, dtype=np.float32),
)
_one(
    "vector_mask",
    "vector.create_mask, maskedload, maskedstore",
    f"""%k = vector.create_mask %c2 : vector<4xi1>
    %p = arith.constant dense<7.0> : {V4}
    %v = vector.maskedload %x[%c0], %k, %p : memref<?xf32>, vector<4xi1>, {V4} into {V4}
    %c = vector.constant_mask [3] : vector<4xi1>
    vector.maskedstore %out[%c0], %c, %v : memref<?xf32>, vector<4xi1>, {V4}""",
    np.array([X[0], X[1], 7, 0], np.float32),
    breaks=("[3]", "[4]"),
)
_one(
    "vector_gather",
    "vector.gather",
    f"""%j = arith.constant dense<[5, 2, 9, 0]> : vector<4xi32>
    %k = vector.constant_mask [3] : vector<4xi1>
    %p = arith.constant dense<7.0> : {V4}
    %v = vector.gather %x[%c1] [%j], %k, %p : memref<?xf32>, vector<4xi32>, vector<4xi1>, {V4} into {V4}
    vector.store %v, %out[%c0] : memref<?xf32>, {V4}""",
    np.array([X[6], X[3], X[10], 7], np.float32),
    breaks=("%x[%c1]", "%x[%c2]"),
)
_one(
    "vector_scatter",
    "vector.scatter",
    f"""%v = vector.load %x[%c0] : memref<?xf32>, {V4}
    %j = arith.constant dense<[5, 2, 7, 0]> : vector<4xi32>
    %k = vector.constant_mask [3] : vector<4xi1>
    vector.scatter %out[%c0] [%j], %k, %v : memref<?xf32>, vector<4xi32>, vector<4xi1>, {V4}""",
    np.array([0, 0, X[1], 0, 0, X[0], 0, X[2]], np.float32),
    breaks=("[3]", "[4]"),
)
_one(
    "vector_compress",
    "vector.compressstore, expandload",
    f"""%v = vector.load %x[%c0] : memref<?xf32>, {V4}
    %k = arith.constant dense<[true, false, true, false]> : vector<4xi1>
    vector.compressstore %out[%c0], %k, %v : memref<?xf32>, vector<4xi1>, {V4}
    %p = arith.constant dense<7.0> : {V4}
    %e = vector.expandload %y[%c0], %k, %p : memref<?xf32>, vector<4xi1>, {V4} into {V4}
    vector.store %e, %out[%c4] : memref<?xf32>, {V4}""",
    np.array([X[0], X[2], 0, 0, Y[0], 7, Y[1], 7], np.float32),
)

for name, function in {
    "add": np.sum,
    "mul": np.prod,
    "minnumf": np.min,
    "maxnumf": np.max,
    "minimumf": np.min,
    "maximumf": np.max,
}.items():
    _one(
        f"vector_reduction_{name}",
        f"vector.reduction <{name}>",
        _scalar(f"%r = vector.reduction <{name}>, %a : {V4} into f32"),
        np.array([function(A)], np.float32),
    )
I4 = X[:4].astype(np.int32)
for name, function in {
    "add": np.add,
    "mul": np.multiply,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "minsi": np.minimum,
    "maxsi": np.maximum,
}.items():
    _one(
        f"vector_reduction_i_{name}",
        f"vector.reduction <{name}> i32",
        _scalar(
            f"%q = arith.fptosi %a : {V4} to vector<4xi32>\n    %s = vector.reduction <{name}>, %q : vector<4xi32> into i32\n    %r = arith.sitofp %s : i32 to f32"
        ),
        np.array([function.reduce(I4)], np.float32),
    )
_one(
    "vector_scan",
    "vector.scan",
    f"""%v = vector.load %x[%c0] : memref<?xf32>, {V4}
    %z = arith.constant dense<1.0> : vector<f32>
    %s:2 = vector.scan <add>, %v, %z {{inclusive = true, reduction_dim = 0 : i64}} : {V4}, vector<f32>
    vector.store %s#0, %out[%c0] : memref<?xf32>, {V4}""",
    np.cumsum(A),
    breaks=("inclusive = true", "inclusive = false"),
)

_PAD = "%p = arith.constant 7.0 : f32\n    "
_one(
    "vector_transfer",
    "vector.transfer_read, transfer_write",
    f"{_PAD}%v = vector.transfer_read %x[%c2], %p : memref<?xf32>, {V4}\n    vector.transfer_write %v, %out[%c1] : {V4}, memref<?xf32>",
    np.concatenate([[0], X[2:6], [0]]).astype(np.float32),
    breaks=("%x[%c2]", "%x[%c1]"),
)
_one(
    "vector_transfer_outside",
    "vector.transfer_read partly outside",
    f"{_PAD}%c62 = arith.constant 62 : index\n    %v = vector.transfer_read %x[%c62], %p : memref<?xf32>, {V4}\n    vector.transfer_write %v, %out[%c0] : {V4}, memref<?xf32>",
    np.array([X[62], X[63], 7], np.float32),
    breaks=("7.0", "6.0"),
)
_one(
    "vector_transfer_2d",
    "vector.transfer_read of two dimensions, transposed",
    f"{_PAD}%v = vector.transfer_read %m[%c2, %c1], %p {{permutation_map = affine_map<(d0, d1) -> (d1, d0)>, in_bounds = [true, true]}} : memref<8x8xf32>, vector<4x2xf32>\n    vector.transfer_write %v, %out[%c0, %c0] {{in_bounds = [true, true]}} : vector<4x2xf32>, memref<4x2xf32>",
    M[2:4, 1:5].T.copy(),
    breaks=("%m[%c2", "%m[%c1"),
)
_one(
    "vector_transfer_broadcast",
    "vector.transfer_read with a broadcast dimension",
    f"{_PAD}%v = vector.transfer_read %m[%c2, %c1], %p {{permutation_map = affine_map<(d0, d1) -> (0, d1)>, in_bounds = [true, true]}} : memref<8x8xf32>, vector<3x4xf32>\n    vector.transfer_write %v, %out[%c0, %c0] {{in_bounds = [true, true]}} : vector<3x4xf32>, memref<3x4xf32>",
    np.tile(M[2, 1:5], (3, 1)),
)
_one(
    "vector_transfer_masked",
    "vector.transfer_read, transfer_write with masks",
    f"{_PAD}%k = vector.create_mask %c2 : vector<4xi1>\n    %v = vector.transfer_read %x[%c0], %p, %k : memref<?xf32>, {V4}\n    %l = vector.constant_mask [3] : vector<4xi1>\n    vector.transfer_write %v, %out[%c0], %l : {V4}, memref<?xf32>",
    np.array([X[0], X[1], 7, 0], np.float32),
)


def _two(body: str, kind: str, shape: str) -> str:
    return f"""{_PAD}%a = vector.transfer_read %m[%c0, %c0], %p {{in_bounds = [true, true]}} : memref<8x8xf32>, vector<4x8xf32>
    %b = vector.transfer_read %n[%c0, %c0], %p {{in_bounds = [true, true]}} : memref<8x8xf32>, vector<8x4xf32>
    {body}
    vector.transfer_write %r, %out[{", ".join(["%c0"] * (shape.count("x") + 1))}] : {kind}, memref<{shape if "x" in shape else "?"}xf32>"""


P, Q = M[:4], N[:, :4]
_one(
    "vector_multi_reduction",
    "vector.multi_reduction, inner dimension",
    _two(
        "%z = arith.constant dense<1.0> : vector<4xf32>\n    %r = vector.multi_reduction <add>, %a, %z [1] : vector<4x8xf32> to vector<4xf32>",
        "vector<4xf32>",
        "4",
    ),
    P.sum(1) + 1,
    breaks=("<add>", "<maximumf>"),
)
_one(
    "vector_multi_reduction_outer",
    "vector.multi_reduction, outer dimension",
    _two(
        "%z = arith.constant dense<1.0> : vector<8xf32>\n    %r = vector.multi_reduction <maximumf>, %a, %z [0] : vector<4x8xf32> to vector<8xf32>",
        "vector<8xf32>",
        "8",
    ),
    np.maximum(P.max(0), 1),
    breaks=("maximumf", "minimumf"),
)
_one(
    "vector_contract",
    "vector.contract",
    _two(
        '%z = arith.constant dense<1.0> : vector<4x4xf32>\n    %r = vector.contract {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %z : vector<4x8xf32>, vector<8x4xf32> into vector<4x4xf32>',
        "vector<4x4xf32>",
        "4x4",
    ),
    P @ Q + 1,
)
_one(
    "vector_outerproduct",
    "vector.outerproduct",
    _flat(
        f"%q = vector.outerproduct %a, %b : {V4}, {V4}\n    %s = vector.extract %q[2] : {V4} from vector<4x4xf32>\n    %r = arith.addf %s, %a : {V4}"
    ),
    A[2] * B + A,
)
_one(
    "vector_transpose",
    "vector.transpose",
    _two("%r = vector.transpose %a, [1, 0] : vector<4x8xf32> to vector<8x4xf32>", "vector<8x4xf32>", "8x4"),
    P.T.copy(),
)
_one(
    "vector_shape_cast",
    "vector.shape_cast",
    _two("%r = vector.shape_cast %a : vector<4x8xf32> to vector<8x4xf32>", "vector<8x4xf32>", "8x4"),
    P.reshape(8, 4),
)
_one(
    "vector_strided_slice",
    "vector.extract_strided_slice, insert_strided_slice",
    _two(
        "%q = vector.extract_strided_slice %a {offsets = [1, 2], sizes = [2, 3], strides = [1, 1]} : vector<4x8xf32> to vector<2x3xf32>\n    %r = vector.insert_strided_slice %q, %b {offsets = [4, 0], strides = [1, 1]} : vector<2x3xf32> into vector<8x4xf32>",
        "vector<8x4xf32>",
        "8x4",
    ),
    np.vstack([Q[:4], np.hstack([P[1:3, 2:5], Q[4:6, 3:]]), Q[6:]]),
)
EIGHT = floats(np.float32, -2, 2, 8)
PROGRAMS.add(
    name="math_on_vectors",
    op="math on vectors",
    body=f"""%a = vector.load %x[%c0] : memref<?xf32>, {V8}
    %e = math.exp %a : {V8}
    %s = math.sqrt %e : {V8}
    vector.store %s, %out[%c0] : memref<?xf32>, {V8}""",
    args={"x": EIGHT, "out": np.zeros(8, np.float32)},
    expect={"out": np.exp(EIGHT.astype(np.float64) / 2)},
    block=1,
    tolerance_ulp=3,
)
