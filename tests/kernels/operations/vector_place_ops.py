# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of vectors: positions known at run time, masked operations, factors narrower than sums, i1."""

from __future__ import annotations

import numpy as np
from kernels.program import TARGETS, Programs

PROGRAMS = Programs()
BOOLS = Programs()
RANDOM = np.random.default_rng(13)
M = RANDOM.integers(-9, 10, (4, 4)).astype(np.float32)
CUBE = RANDOM.integers(-9, 10, (2, 3, 4)).astype(np.float32)
X8, Y8 = (
    RANDOM.integers(-100, 101, (3, 4)).astype(np.int8),
    RANDOM.integers(-100, 101, (4, 5)).astype(np.int8),
)
BITS = np.array([1, 0, 0, 1, 1, 0, 1, 0], np.bool_)
_SQUARE, _V = "memref<4x4xf32>", "vector<4x4xf32>"
_MAPS = "indexing_maps = [affine_map<(i,j,k)->(i,k)>, affine_map<(i,j,k)->(k,j)>, affine_map<(i,j,k)->(i,j)>], iterator_types = ['parallel','parallel','reduction'], kind = #vector.kind<add>".replace(
    "'", '"'
)


def _with(base: np.ndarray, place: object, value: object) -> np.ndarray:
    changed = base.copy()
    changed[place] = value
    return changed


def _positions() -> None:
    PROGRAMS.one(
        "vector_positions",
        "vector.extract, vector.insert at several positions known at run time",
        f"""%v = vector.load %m[%c0, %c0] : {_SQUARE}, {_V}
    %e = vector.extract %v[%p, %q] : f32 from {_V}
    %f = vector.extract %v[2, %q] : f32 from {_V}
    %s = arith.addf %e, %f : f32
    %row = vector.extract %v[%p] : vector<4xf32> from {_V}
    %w = vector.insert %row, %v[%q] : vector<4xf32> into {_V}
    %x = vector.insert %s, %w[%q, 1] : f32 into {_V}
    %y = vector.insert %e, %x[%p, %p] : f32 into {_V}
    vector.store %y, %out[%c0, %c0] : {_SQUARE}, {_V}
    %cube = vector.load %n[%c0, %c0, %c0] : memref<2x3x4xf32>, vector<2x3x4xf32>
    %line = vector.extract %cube[1, %p] : vector<4xf32> from vector<2x3x4xf32>
    %plane = vector.extract %cube[%p] : vector<3x4xf32> from vector<2x3x4xf32>
    %new = vector.insert %line, %plane[%p] : vector<4xf32> into vector<3x4xf32>
    %whole = vector.insert %new, %cube[%p] : vector<3x4xf32> into vector<2x3x4xf32>
    vector.store %whole, %cubes[%c0, %c0, %c0] : memref<2x3x4xf32>, vector<2x3x4xf32>""",
        {"m": M, "n": CUBE, "p": np.uint64(1), "q": np.uint64(3)},
        {
            "out": _with(_with(_with(M, 3, M[1]), (3, 1), M[1, 3] + M[2, 3]), (1, 1), M[1, 3]),
            "cubes": _with(CUBE, 1, _with(CUBE[1], 1, CUBE[1, 1])),
        },
        breaks=("%v[2, %q]", "%v[1, %q]"),
    )


def _masks() -> None:
    PROGRAMS.one(
        "vector_masked_operations",
        "vector.mask of transfer_read, transfer_write, reduction, contract, multi_reduction",
        f"""%z = arith.constant 7.0 : f32
    %few = vector.create_mask %p : vector<4xi1>
    %v = vector.mask %few {{ vector.transfer_read %m[%c1, %c0], %z {{in_bounds = [true]}} : {_SQUARE}, vector<4xf32> }} : vector<4xi1> -> vector<4xf32>
    vector.mask %few {{ vector.transfer_write %v, %out[%c0, %c0] {{in_bounds = [true]}} : vector<4xf32>, {_SQUARE} }} : vector<4xi1>
    %r = vector.mask %few {{ vector.reduction <add>, %v : vector<4xf32> into f32 }} : vector<4xi1> -> f32
    %c3 = arith.constant 3 : index
    memref.store %r, %out[%c0, %c3] : {_SQUARE}
    %mask = vector.create_mask %p, %c2 : vector<4x4xi1>
    %w = vector.load %m[%c0, %c0] : {_SQUARE}, {_V}
    %u = vector.load %m[%c1, %c0] : {_SQUARE}, vector<4xf32>
    %a = vector.mask %mask {{ vector.contract {{indexing_maps = [affine_map<(i,k)->(i,k)>, affine_map<(i,k)->(k)>, affine_map<(i,k)->(i)>], iterator_types = ["parallel","reduction"], kind = #vector.kind<add>}} %w, %u, %u : {_V}, vector<4xf32> into vector<4xf32> }} : vector<4x4xi1> -> vector<4xf32>
    vector.store %a, %out[%c1, %c0] : {_SQUARE}, vector<4xf32>
    %b = vector.mask %mask {{ vector.multi_reduction <add>, %w, %u [1] : {_V} to vector<4xf32> }} : vector<4x4xi1> -> vector<4xf32>
    vector.store %b, %out[%c2, %c0] : {_SQUARE}, vector<4xf32>
    %d = vector.mask %mask {{ vector.multi_reduction <maxnumf>, %w, %u [0] : {_V} to vector<4xf32> }} : vector<4x4xi1> -> vector<4xf32>
    vector.store %d, %out[%c3, %c0] : {_SQUARE}, vector<4xf32>""",
        {"m": M, "p": np.uint64(3)},
        {
            "out": np.array(
                [
                    [*M[1, :3], M[1, :3].sum()],
                    [M[1, i] + (M[i, :2] @ M[1, :2] if i < 3 else 0) for i in range(4)],
                    [M[1, i] + (M[i, :2].sum() if i < 3 else 0) for i in range(4)],
                    [max(M[1, j], M[:3, j].max()) if j < 2 else M[1, j] for j in range(4)],
                ],
                np.float32,
            )
        },
        breaks=("create_mask %p, %c2", "create_mask %p, %c1"),
    )


def _narrow_factors() -> None:
    PROGRAMS.one(
        "vector_contract_narrow",
        "vector.contract of i8 into i32, of f16 into f32",
        f"""%a = vector.load %x[%c0, %c0] : memref<3x4xi8>, vector<3x4xi8>
    %b = vector.load %y[%c0, %c0] : memref<4x5xi8>, vector<4x5xi8>
    %z = arith.constant dense<0> : vector<3x5xi32>
    %r = vector.contract {{{_MAPS}}} %a, %b, %z : vector<3x4xi8>, vector<4x5xi8> into vector<3x5xi32>
    vector.store %r, %out[%c0, %c0] : memref<3x5xi32>, vector<3x5xi32>
    %h = vector.load %m[%c0, %c0] : memref<4x4xf16>, vector<4x4xf16>
    %n = arith.constant dense<0.0> : {_V}
    %s = vector.contract {{{_MAPS}}} %h, %h, %n : vector<4x4xf16>, vector<4x4xf16> into {_V}
    vector.store %s, %square[%c0, %c0] : {_SQUARE}, {_V}""",
        {"x": X8, "y": Y8, "m": M.astype(np.float16)},
        {"out": X8.astype(np.int32) @ Y8.astype(np.int32), "square": M @ M},
    )


def _bools() -> None:
    m, v = "memref<?xi1>", "vector<4xi1>"
    BOOLS.one(
        "memref_i1_vectors",
        "vector.load, store, transfer_read, transfer_write, maskedload, maskedstore, gather, scatter of i1",
        f"""%v = vector.load %b[%c2] : {m}, {v}
    vector.store %v, %out[%c1] : {m}, {v}
    %no = arith.constant false
    %r = vector.transfer_read %b[%c1], %no {{in_bounds = [true]}} : {m}, {v}
    vector.transfer_write %r, %out1[%c2] {{in_bounds = [true]}} : {v}, {m}
    %c6 = arith.constant 6 : index
    %yes = arith.constant true
    %part = vector.transfer_read %b[%c6], %yes : {m}, {v}
    vector.transfer_write %part, %out2[%c0] : {v}, {m}
    %k = vector.create_mask %c2 : {v}
    %q = arith.constant dense<true> : {v}
    %ml = vector.maskedload %b[%c2], %k, %q : {m}, {v}, {v} into {v}
    vector.maskedstore %out3[%c0], %q, %ml : {m}, {v}, {v}
    %at = arith.constant dense<[3, 1, 0, 2]> : vector<4xindex>
    %g = vector.gather %b[%c1][%at], %q, %k : {m}, vector<4xindex>, {v}, {v} into {v}
    vector.scatter %out4[%c0][%at], %q, %g : {m}, vector<4xindex>, {v}, {v}""",
        {"b": BITS},
        {
            "out": np.array([0, *BITS[2:6], 0, 0, 0], np.bool_),
            "out1": np.array([0, 0, *BITS[1:5], 0, 0], np.bool_),
            "out2": np.array([*BITS[6:], 1, 1, 0, 0, 0, 0], np.bool_),
            "out3": np.array([*BITS[2:4], 1, 1, 0, 0, 0, 0], np.bool_),
            "out4": np.array([*BITS[1:5], 0, 0, 0, 0], np.bool_),
        },
        breaks=("%out1[%c2]", "%out1[%c1]"),
    )
    BOOLS.one(
        "memref_i1_elements",
        "affine.load, affine.store, memref.copy of a strided view, linalg.copy of i1",
        f"""affine.for %j = 0 to 8 {{
      %e = affine.load %b[%j] : {m}
      affine.store %e, %out[7 - %j] : {m}
    }}
    %s = memref.subview %b[0] [4] [2] : {m} to memref<4xi1, strided<[2]>>
    %o = memref.subview %out1[1] [4] [1] : {m} to memref<4xi1, strided<[1], offset: 1>>
    memref.copy %s, %o : memref<4xi1, strided<[2]>> to memref<4xi1, strided<[1], offset: 1>>
    %x = memref.cast %b : {m} to memref<8xi1>
    %y = memref.cast %out2 : {m} to memref<8xi1>
    linalg.copy ins(%x : memref<8xi1>) outs(%y : memref<8xi1>)""",
        {"b": BITS},
        {"out": BITS[::-1].copy(), "out1": np.array([0, *BITS[::2], 0, 0, 0], np.bool_), "out2": BITS},
        breaks=("[7 - %j]", "[%j]"),
    )


def _rare() -> None:
    PROGRAMS.one(
        "vector_type_cast",
        "vector.type_cast",
        """%tile = memref.alloca() : memref<3x3xf32>
    affine.for %i0 = 0 to 3 {
      affine.for %j0 = 0 to 3 {
        %e = memref.load %m[%i0, %j0] : memref<4x4xf32>
        memref.store %e, %tile[%i0, %j0] : memref<3x3xf32>
      }
    }
    %whole = vector.type_cast %tile : memref<3x3xf32> to memref<vector<3x3xf32>>
    %v = memref.load %whole[] : memref<vector<3x3xf32>>
    %twice = arith.addf %v, %v : vector<3x3xf32>
    %all = vector.type_cast %out : memref<3x3xf32> to memref<vector<3x3xf32>>
    memref.store %twice, %all[] : memref<vector<3x3xf32>>""",
        {"m": M},
        {"out": 2 * M[:3, :3]},
        breaks=("arith.addf %v, %v", "arith.subf %v, %v"),
    )
    for name, op, body, reason in (
        (
            "vscale",
            "vector.vscale",
            "%n = vector.vscale",
            "needs vectors of scalable length, which no target has",
        ),
        (
            "scalable",
            "vector.scalable.extract, insert",
            """%s = vector.scalable.insert %v, %long[0] : vector<4xf32> into vector<[4]xf32>
    %r = vector.scalable.extract %s[0] : vector<4xf32> from vector<[4]xf32>""",
            "of vector<[4]xf32>, whose length no target knows",
        ),
        (
            "vector_print",
            "vector.print",
            "vector.print %v : vector<4xf32>",
            "calls functions that only host code has; use gpu.printf",
        ),
    ):
        scalable = "%long = arith.constant dense<1.0> : vector<[4]xf32>\n    " if "%long" in body else ""
        load = f"%v = vector.load %m[%c0, %c0] : {_SQUARE}, vector<4xf32>\n    "
        PROGRAMS.one(name, op, load + scalable + body, {"m": M}, {}, refused=dict.fromkeys(TARGETS, reason))


_positions()
_rare()
_masks()
_narrow_factors()
_bools()
