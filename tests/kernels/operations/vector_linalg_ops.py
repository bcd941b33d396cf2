# ruff: noqa: E501 — kernel text reads better unbroken
"""Programs of linalg's operations on buffers, which become loops, with the matrices of ``vector_ops``."""

from __future__ import annotations

import numpy as np
from kernels.operations.vector_ops import M, N
from kernels.program import Programs

PROGRAMS = Programs()
F = "memref<8x8xf32>"
_L = {"m": M, "n": N, "out": np.zeros((8, 8), np.float32)}


def _linalg(name: str, op: str, body: str, want: np.ndarray, **more) -> None:
    args = dict(_L)
    if "args" in more:
        args |= more.pop("args")
    PROGRAMS.add(
        name=f"linalg_{name}",
        op=op,
        body=body,
        args=args,
        expect={"out": want.astype(np.float32)},
        block=1,
        **more,
    )


_linalg(
    "fill",
    "linalg.fill",
    f"%v = arith.constant 3.0 : f32\n    linalg.fill ins(%v : f32) outs(%out : {F})",
    np.full((8, 8), 3.0),
)
_linalg(
    "matmul",
    "linalg.matmul",
    f"linalg.matmul ins(%m, %n : {F}, {F}) outs(%out : {F})",
    M @ N,
    breaks=("(%m, %n", "(%n, %m"),
)
_linalg("add", "linalg.add", f"linalg.add ins(%m, %n : {F}, {F}) outs(%out : {F})", M + N)
_linalg("map", "linalg.map", f"linalg.map {{ math.absf }} ins(%m : {F}) outs(%out : {F})", abs(M))
_linalg(
    "transpose",
    "linalg.transpose",
    f"linalg.transpose ins(%m : {F}) outs(%out : {F}) permutation = [1, 0]",
    M.T,
)
_linalg(
    "broadcast",
    "linalg.broadcast",
    f"%r = memref.subview %m[2, 0] [1, 8] [1, 1] : {F} to memref<8xf32, strided<[1], offset: 16>>\n    linalg.broadcast ins(%r : memref<8xf32, strided<[1], offset: 16>>) outs(%out : {F}) dimensions = [0]",
    np.tile(M[2], (8, 1)),
)
_linalg("copy", "linalg.copy", f"linalg.copy ins(%m : {F}) outs(%out : {F})", M)
_linalg(
    "generic",
    "linalg.generic",
    f"""linalg.generic {{indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}} ins(%m : {F}) outs(%out : {F}) {{
    ^bb0(%a: f32, %b: f32):
      %q = linalg.index 1 : index
      %qi = arith.index_cast %q : index to i32
      %qf = arith.sitofp %qi : i32 to f32
      %s = arith.addf %a, %qf : f32
      linalg.yield %s : f32
    }}""",
    M.T + np.arange(8),
    breaks=("linalg.index 1", "linalg.index 0"),
)
_linalg(
    "reduce",
    "linalg.reduce",
    f"""%o = memref.subview %out[0, 0] [1, 8] [1, 1] : {F} to memref<8xf32, strided<[1]>>
    linalg.reduce {{ arith.addf }} ins(%m : {F}) outs(%o : memref<8xf32, strided<[1]>>) dimensions = [1]""",
    np.vstack([M.sum(1), np.zeros((7, 8))]),
)
_linalg(
    "matvec",
    "linalg.matvec, linalg.dot",
    """%v = memref.subview %n[0, 0] [1, 8] [1, 1] : memref<8x8xf32> to memref<8xf32, strided<[1]>>
    %o = memref.subview %out[0, 0] [1, 8] [1, 1] : memref<8x8xf32> to memref<8xf32, strided<[1]>>
    linalg.matvec ins(%m, %v : memref<8x8xf32>, memref<8xf32, strided<[1]>>) outs(%o : memref<8xf32, strided<[1]>>)
    %w = memref.subview %m[0, 0] [1, 8] [1, 1] : memref<8x8xf32> to memref<8xf32, strided<[1]>>
    %d = memref.subview %out[1, 2] [1, 1] [1, 1] : memref<8x8xf32> to memref<f32, strided<[], offset: 10>>
    linalg.dot ins(%w, %v : memref<8xf32, strided<[1]>>, memref<8xf32, strided<[1]>>) outs(%d : memref<f32, strided<[], offset: 10>>)""",
    np.vstack([M @ N[0], np.where(np.arange(8) == 2, M[0] @ N[0], 0), np.zeros((6, 8))]),
)
_linalg(
    "conv",
    "linalg.conv_2d",
    """%k = memref.subview %n[0, 0] [3, 3] [1, 1] : memref<8x8xf32> to memref<3x3xf32, strided<[8, 1]>>
    %o = memref.subview %out[0, 0] [6, 6] [1, 1] : memref<8x8xf32> to memref<6x6xf32, strided<[8, 1]>>
    linalg.conv_2d ins(%m, %k : memref<8x8xf32>, memref<3x3xf32, strided<[8, 1]>>) outs(%o : memref<6x6xf32, strided<[8, 1]>>)""",
    np.pad(sum(M[i : i + 6, j : j + 6] * N[i, j] for i in range(3) for j in range(3)), ((0, 2), (0, 2))),
)
