"""Programs of the gpu dialect with matrices that a subgroup holds together."""

from __future__ import annotations

import numpy as np
from kernels.program import Program, Programs, floats, integers


def programs() -> list[Program]:
    """Made again at each call, with further numbers of those that all rows share."""
    found = Programs()
    a, b = (
        integers(np.int32, -3, 4, 256).astype(np.float16),
        integers(np.int32, -3, 4, 256).astype(np.float16),
    )
    a, b = a.reshape(16, 16), b.reshape(16, 16)
    c = integers(np.int32, -9, 9, 256).astype(np.float32).reshape(16, 16)
    f16 = {k: f'!gpu.mma_matrix<16x16xf16, "{k}Op">' for k in "AB"}
    f32 = '!gpu.mma_matrix<16x16xf32, "COp">'
    c16 = '!gpu.mma_matrix<16x16xf16, "COp">'

    def add(name: str, op: str, body: str, args: dict, want: np.ndarray, **more) -> None:
        found.add(name=name, op=op, body=body, args=args, expect={"out": want}, **more)

    def load(name: str, memref: str, kind: str, memory: str, extra: str = "") -> str:
        return (
            f"%{name} = gpu.subgroup_mma_load_matrix %{memref}[%c0, %c0] "
            f"{{leadDimension = 16 : index{extra}}} : {memory} -> {kind}\n    "
        )

    def store(name: str, kind: str, memory: str, extra: str = "") -> str:
        return (
            f"gpu.subgroup_mma_store_matrix %{name}, %out[%c0, %c0] {{leadDimension = 16 : index{extra}}} : "
            f"{kind}, {memory}"
        )

    half, single = "memref<16x16xf16>", "memref<16x16xf32>"
    compute = f"%D = gpu.subgroup_mma_compute %A, %B, %C : {f16['A']}, {f16['B']} -> {f32}\n    "
    product = a.astype(np.float32) @ b.astype(np.float32)
    loads = load("A", "a", f16["A"], half) + load("B", "b", f16["B"], half) + load("C", "c", f32, single)
    add(
        "gpu_mma_compute",
        "gpu.subgroup_mma_load_matrix, compute, store_matrix f16 x f16 + f32",
        loads + compute + store("D", f32, single),
        {"a": a, "b": b, "c": c},
        product + c,
        breaks=("%D, %out", "%C, %out"),
    )
    add(
        "gpu_mma_transpose",
        "gpu.subgroup_mma_load_matrix transpose",
        load("A", "a", f16["A"], half, ", transpose") + load("B", "b", f16["B"], half)
        + load("C", "c", f32, single) + compute + store("D", f32, single),
        {"a": a, "b": b, "c": c},
        a.T.astype(np.float32) @ b.astype(np.float32) + c,
        breaks=(", transpose", ""),
    )  # fmt: skip
    add(
        "gpu_mma_constant",
        "gpu.subgroup_mma_constant_matrix",
        load("A", "a", f16["A"], half) + load("B", "b", f16["B"], half)
        + f"%two = arith.constant 2.0 : f32\n    %C = gpu.subgroup_mma_constant_matrix %two : {f32}\n    "
        + compute + store("D", f32, single),
        {"a": a, "b": b},
        product + 2,
        breaks=("2.0", "3.0"),
    )  # fmt: skip
    x, y = c, integers(np.int32, 1, 5, 256).astype(np.float32).reshape(16, 16)
    functions = {
        "addf": x + y, "mulf": x * y, "subf": x - y, "maxf": np.maximum(x, y), "minf": np.minimum(x, y),
        "divf": x / y, "negatef": -x,
    }  # fmt: skip
    for op, want in functions.items():
        one = op == "negatef"
        values, kinds = ("%X", f32) if one else ("%X, %Y", f"{f32}, {f32}")
        add(
            f"gpu_mma_elementwise_{op}",
            f"gpu.subgroup_mma_elementwise {op}",
            load("X", "x", f32, single) + load("Y", "y", f32, single)
            + f"%D = gpu.subgroup_mma_elementwise {op} {values} : ({kinds}) -> {f32}\n    "
            + store("D", f32, single),
            {"x": x, "y": y},
            want.astype(np.float32),
        )  # fmt: skip
    add(
        "gpu_mma_f16",
        "gpu.subgroup_mma_compute f16 + f16",
        load("A", "a", f16["A"], half) + load("B", "b", f16["B"], half) + load("C", "c", c16, half)
        + f"%D = gpu.subgroup_mma_compute %A, %B, %C : {f16['A']}, {f16['B']} -> {c16}\n    "
        + store("D", c16, half),
        {"a": a, "b": b, "c": c.astype(np.float16)},
        (product + c).astype(np.float16),
    )  # fmt: skip
    i8 = {k: f'!gpu.mma_matrix<16x16xsi8, "{k}Op">' for k in "AB"}
    i32 = '!gpu.mma_matrix<16x16xi32, "COp">'
    m, n = (integers(np.int8, -9, 9, 256).reshape(16, 16) for _ in range(2))
    o = integers(np.int32, -9, 9, 256).reshape(16, 16)
    byte, word = "memref<16x16xi8>", "memref<16x16xi32>"
    add(
        "gpu_mma_i8",
        "gpu.subgroup_mma_compute si8 x si8 + i32",
        load("A", "a", i8["A"], byte) + load("B", "b", i8["B"], byte) + load("C", "c", i32, word)
        + f"%D = gpu.subgroup_mma_compute %A, %B, %C : {i8['A']}, {i8['B']} -> {i32}\n    "
        + store("D", i32, word),
        {"a": m, "b": n, "c": o},
        m.astype(np.int32) @ n.astype(np.int32) + o,
    )  # fmt: skip
    d = {"A": '!gpu.mma_matrix<8x4xf64, "AOp">', "B": '!gpu.mma_matrix<4x8xf64, "BOp">'}
    f64 = '!gpu.mma_matrix<8x8xf64, "COp">'
    p, q = floats(np.float64, count=32).reshape(8, 4), floats(np.float64, count=32).reshape(4, 8)
    s = floats(np.float64, count=64).reshape(8, 8)

    def double(name: str, memref: str, kind: str, rows: int, columns: int) -> str:
        return load(name, memref, kind, f"memref<{rows}x{columns}xf64>").replace("16 :", f"{columns} :")

    add(
        "gpu_mma_f64",
        "gpu.subgroup_mma_compute f64 8x8x4",
        double("A", "a", d["A"], 8, 4) + double("B", "b", d["B"], 4, 8) + double("C", "c", f64, 8, 8)
        + f"%D = gpu.subgroup_mma_compute %A, %B, %C : {d['A']}, {d['B']} -> {f64}\n    "
        + store("D", f64, "memref<8x8xf64>").replace("16 :", "8 :"),
        {"a": p, "b": q, "c": s},
        p @ q + s,
        tolerance_ulp=64,
    )  # fmt: skip
    return found
