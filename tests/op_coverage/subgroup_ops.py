"""Programs of the gpu dialect whose work-items exchange values within a subgroup."""

from __future__ import annotations

import numpy as np
from op_coverage.gpu_ops import (
    REDUCED_TYPES,
    reduce_values,
    reduction_input,
    reduction_program,
    reductions,
)
from op_coverage.program import Program, floats, integers, to_bf16

LANES = 32
PROGRAMS: list[Program] = []
_COUNT = 2 * LANES
_lane = np.arange(_COUNT) % LANES
_base = np.arange(_COUNT) - _lane
_TYPES = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


# Not from the generator that all rows share: which bits happen to be equal decides what can be told apart.
_BITS = np.random.default_rng(16).integers(0, 2, _COUNT).astype(np.bool_)


def _values(kind: str) -> np.ndarray:
    if kind == "i1":
        return _BITS
    if kind == "bf16":
        return to_bf16(floats(np.float32, count=_COUNT))
    dtype = _TYPES[kind]
    return integers(dtype, count=_COUNT) if kind[0] == "i" else floats(dtype, count=_COUNT)


def _exchange(
    name: str, op: str, kind: str, line: str, source: np.ndarray, valid: np.ndarray, **more
) -> None:
    """``line`` sets ``%v`` and ``%p``; an invalid value is stored as nought."""
    given = _values(kind)
    zero = "false" if kind == "i1" else (f"0 : {kind}" if kind[0] == "i" else f"0.0 : {kind}")
    want = np.where(valid, given[np.where(valid, _base + source, 0)], 0).astype(given.dtype)
    args = {"in": given, "out": np.zeros(_COUNT, given.dtype), "ok": np.zeros(_COUNT, np.bool_)}
    types = {"in": kind, "out": kind}
    PROGRAMS.append(
        Program(
            name=name,
            op=op,
            body=f"""%x = memref.load %in[%i] : memref<?x{kind}>
    %zero = arith.constant {zero}
    {line}
    %r = arith.select %p, %v, %zero : {kind}
    memref.store %r, %out[%i] : memref<?x{kind}>
    memref.store %p, %ok[%i] : memref<?xi1>""",
            args=args,
            expect={"out": want, "ok": valid},
            types=types,
            block=_COUNT,
            **more,
        )
    )


def _shuffled(mode: str, offset: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Source lane and validity, as the dialect defines them: the first ``width`` lanes take part."""
    source = {"xor": _lane ^ offset, "up": _lane - offset, "down": _lane + offset}.get(
        mode, np.full(_COUNT, offset)
    )
    return source, (_lane < width) & (source >= 0) & (source < width)


def _shuffles() -> None:
    swap = {"xor": "down", "up": "down", "down": "up", "idx": "xor"}
    for kind in _TYPES:
        for mode, other in swap.items():
            source, valid = _shuffled(mode, 3, 32)
            _exchange(
                f"gpu_shuffle_{mode}_{kind}",
                f"gpu.shuffle {mode} {kind}",
                kind,
                "%o = arith.constant 3 : i32\n    %w = arith.constant 32 : i32\n"
                f"    %v, %p = gpu.shuffle {mode} %x, %o, %w : {kind}",
                source,
                valid,
                breaks=(f"gpu.shuffle {mode}", f"gpu.shuffle {other}"),
            )
    for width in (1, 2, 4, 7, 8, 16, 31):
        for mode in swap:
            source, valid = _shuffled(mode, 1, width)
            _exchange(
                f"gpu_shuffle_{mode}_width{width}",
                f"gpu.shuffle {mode}, width {width}",
                "f32",
                f"%o = arith.constant 1 : i32\n    %w = arith.constant {width} : i32\n"
                f"    %v, %p = gpu.shuffle {mode} %x, %o, %w : f32",
                source,
                valid,
                breaks=(f"constant {width} :", "constant 32 :") if width > 1 else None,
            )
    for mode in swap:
        source, valid = _shuffled(mode, 2, 16)
        given = integers(np.int32, count=_COUNT)
        want = np.where(valid, given[np.where(valid, _base + source, 0)], 0).astype(np.int32)
        PROGRAMS.append(
            Program(
                name=f"gpu_shuffle_{mode}_values",
                op=f"gpu.shuffle {mode}, offset and width known at run time, in a branch",
                body=f"""%w = memref.load %ws[%c0] : memref<?xi32>
    %o = memref.load %ws[%c1] : memref<?xi32>
    %x = memref.load %in[%i] : memref<?xi32>
    %l = gpu.lane_id
    %n = arith.index_cast %w : i32 to index
    %inside = arith.cmpi ult, %l, %n : index
    scf.if %inside {{
      %v, %p = gpu.shuffle {mode} %x, %o, %w : i32
      scf.if %p {{
        memref.store %v, %out[%i] : memref<?xi32>
      }}
    }}""",
                args={"in": given, "ws": np.array([16, 2], np.int32), "out": np.zeros(_COUNT, np.int32)},
                expect={"out": want},
                block=_COUNT,
            )
        )
    given = np.arange(2 * _COUNT, dtype=np.float32)
    want = given.reshape(_COUNT, 2)[np.arange(_COUNT) ^ 5].ravel()
    PROGRAMS.append(
        Program(
            name="gpu_shuffle_vector",
            op="gpu.shuffle of a vector",
            body="""%j = arith.muli %i, %c2 : index
    %x = vector.load %in[%j] : memref<?xf32>, vector<2xf32>
    %o = arith.constant 5 : i32
    %w = arith.constant 32 : i32
    %v, %p = gpu.shuffle xor %x, %o, %w : vector<2xf32>
    vector.store %v, %out[%j] : memref<?xf32>, vector<2xf32>""",
            args={"in": given, "out": np.zeros_like(given)},
            expect={"out": want},
            block=_COUNT,
            breaks=("constant 5", "constant 6"),
        )
    )
    PROGRAMS.append(
        Program(
            name="gpu_subgroup_broadcast_2d",
            op="gpu.subgroup_broadcast of a vector of two dimensions",
            body="""%j = arith.muli %i, %c2 : index
    %f = vector.load %in[%j] : memref<?xf32>, vector<2xf32>
    %x = vector.shape_cast %f : vector<2xf32> to vector<2x1xf32>
    %l = arith.constant 3 : i32
    %b = gpu.subgroup_broadcast %x, specific_lane %l : vector<2x1xf32>
    %v = vector.shape_cast %b : vector<2x1xf32> to vector<2xf32>
    vector.store %v, %out[%j] : memref<?xf32>, vector<2xf32>""",
            args={"in": given, "out": np.zeros_like(given)},
            expect={"out": given.reshape(_COUNT, 2)[np.arange(_COUNT) // LANES * LANES + 3].ravel()},
            block=_COUNT,
            breaks=("constant 3", "constant 4"),
        )
    )


def _rotations() -> None:
    for kind in _TYPES:
        _exchange(
            f"gpu_rotate_{kind}",
            f"gpu.rotate {kind}",
            kind,
            f"%v, %p = gpu.rotate %x, 3, 32 : {kind}",
            (_lane + 3) % 32,
            _lane < 32,
            breaks=("%x, 3", "%x, 2"),
        )
    for width in (2, 8, 16):
        _exchange(
            f"gpu_rotate_width{width}",
            f"gpu.rotate, width {width}",
            "f32",
            f"%v, %p = gpu.rotate %x, 1, {width} : f32",
            (_lane + 1) % width + _lane // width * width,
            _lane < width,
        )


def _broadcasts() -> None:
    every = np.ones(_COUNT, bool)
    for kind in _TYPES:
        line = f"%l = arith.constant 5 : i32\n    %v = gpu.subgroup_broadcast %x, specific_lane %l : {kind}"
        _exchange(
            f"gpu_subgroup_broadcast_{kind}",
            f"gpu.subgroup_broadcast specific_lane {kind}",
            kind,
            line + "\n    %p = arith.constant true",
            np.full(_COUNT, 5),
            every,
            breaks=("constant 5", "constant 4"),
        )
    _exchange(
        "gpu_subgroup_broadcast_first",
        "gpu.subgroup_broadcast first_active_lane",
        "f32",
        "%v = gpu.subgroup_broadcast %x, first_active_lane : f32\n    %p = arith.constant true",
        np.zeros(_COUNT, int),
        every,
    )


def _reductions() -> None:
    for kind in REDUCED_TYPES:
        for op in reductions(kind):
            values = reduction_input(kind, op, _COUNT).reshape(2, LANES)
            PROGRAMS.append(
                reduction_program(
                    f"gpu_subgroup_reduce_{op}_{kind}",
                    f"gpu.subgroup_reduce {op} {kind}",
                    kind,
                    f"%r = gpu.subgroup_reduce {op} %x : ({kind}) -> ({kind})",
                    values,
                    reduce_values(op, values),
                    block=_COUNT,
                )
            )
    for size, stride in ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (4, 2), (2, 16), (8, 4)):
        values = reduction_input("i32", "add", _COUNT)
        # lane = (outer, place in cluster, which of `stride` clusters)
        shaped = values.reshape(-1, size, stride)
        want = reduce_values("add", shaped, axis=1).reshape(-1)
        cluster = f"cluster(size = {size}, stride = {stride})"
        PROGRAMS.append(
            reduction_program(
                f"gpu_subgroup_reduce_{size}_by_{stride}",
                f"gpu.subgroup_reduce, cluster size {size}, stride {stride}",
                "i32",
                f"%r = gpu.subgroup_reduce add %x {cluster} : (i32) -> (i32)",
                values,
                want,
                block=_COUNT,
                breaks=("reduce add", "reduce mul") if size > 1 else None,
            )
        )
    given = reduction_input("f16", "add", 2 * _COUNT)
    want = reduce_values("add", given.reshape(2, LANES, 2), axis=1).ravel()
    PROGRAMS.append(
        Program(
            name="gpu_subgroup_reduce_vector",
            op="gpu.subgroup_reduce of a vector",
            body="""%j = arith.muli %i, %c2 : index
    %x = vector.load %in[%j] : memref<?xf16>, vector<2xf16>
    %r = gpu.subgroup_reduce add %x uniform : (vector<2xf16>) -> vector<2xf16>
    vector.store %r, %out[%j] : memref<?xf16>, vector<2xf16>""",
            args={"in": given, "out": np.zeros_like(given)},
            expect={"out": want},
            block=_COUNT,
            breaks=("reduce add", "reduce maximumf"),
        )
    )


def _identifiers() -> None:
    items = np.arange(2 * 96) % 96
    for name, want, result in (
        ("lane_id", items % LANES, ""),
        ("subgroup_id", items // LANES, " : index"),
        ("num_subgroups", np.full(192, -(-96 // LANES)), " : index"),
        ("subgroup_size", np.full(192, LANES), " : index"),
    ):
        for bound in ("", " upper_bound 64"):
            PROGRAMS.append(
                Program(
                    name=f"gpu_{name}{'_bounded' if bound else ''}",
                    op=f"gpu.{name}{bound and ' upper_bound'}",
                    body=f"""%r = gpu.{name}{bound}{result}
    memref.store %r, %out[%i] : memref<?xindex>""",
                    args={"out": np.zeros(192, np.uint64)},
                    expect={"out": want.astype(np.uint64)},
                    grid=2,
                    block=96,
                )
            )
    PROGRAMS.append(
        Program(
            name="gpu_subgroup_id_3d",
            op="gpu.subgroup_id in a workgroup of three dimensions",
            body="""%ty = gpu.thread_id y
    %tz = gpu.thread_id z
    %r = gpu.subgroup_id : index
    memref.store %r, %out[%tz, %ty, %t] : memref<4x3x8xindex>""",
            args={"out": np.zeros((4, 3, 8), np.uint64)},
            expect={"out": (np.arange(96) // LANES).reshape(4, 3, 8).astype(np.uint64)},
            block=(8, 3, 4),
        )
    )
    PROGRAMS.append(
        Program(
            name="gpu_warp_execute_on_lane_0",
            op="gpu.warp_execute_on_lane_0",
            body="""%l = gpu.lane_id
    gpu.warp_execute_on_lane_0(%l)[32] {
      %v = arith.constant 7 : i32
      memref.store %v, %out[%i] : memref<?xi32>
    }""",
            args={"out": np.zeros(_COUNT, np.int32)},
            expect={"out": np.where(_lane == 0, 7, 0).astype(np.int32)},
            block=_COUNT,
        )
    )


def _matrices() -> None:
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
        PROGRAMS.append(Program(name=name, op=op, body=body, args=args, expect={"out": want}, **more))

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
    zero = np.zeros((16, 16), np.float32)
    product = a.astype(np.float32) @ b.astype(np.float32)
    loads = load("A", "a", f16["A"], half) + load("B", "b", f16["B"], half) + load("C", "c", f32, single)
    add(
        "gpu_mma_compute",
        "gpu.subgroup_mma_load_matrix, compute, store_matrix f16 x f16 + f32",
        loads + compute + store("D", f32, single),
        {"a": a, "b": b, "c": c, "out": zero},
        product + c,
        breaks=("%D, %out", "%C, %out"),
    )
    add(
        "gpu_mma_transpose",
        "gpu.subgroup_mma_load_matrix transpose",
        load("A", "a", f16["A"], half, ", transpose") + load("B", "b", f16["B"], half)
        + load("C", "c", f32, single) + compute + store("D", f32, single),
        {"a": a, "b": b, "c": c, "out": zero},
        a.T.astype(np.float32) @ b.astype(np.float32) + c,
        breaks=(", transpose", ""),
    )  # fmt: skip
    add(
        "gpu_mma_constant",
        "gpu.subgroup_mma_constant_matrix",
        load("A", "a", f16["A"], half) + load("B", "b", f16["B"], half)
        + f"%two = arith.constant 2.0 : f32\n    %C = gpu.subgroup_mma_constant_matrix %two : {f32}\n    "
        + compute + store("D", f32, single),
        {"a": a, "b": b, "out": zero},
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
            {"x": x, "y": y, "out": zero},
            want.astype(np.float32),
        )  # fmt: skip
    add(
        "gpu_mma_f16",
        "gpu.subgroup_mma_compute f16 + f16",
        load("A", "a", f16["A"], half) + load("B", "b", f16["B"], half) + load("C", "c", c16, half)
        + f"%D = gpu.subgroup_mma_compute %A, %B, %C : {f16['A']}, {f16['B']} -> {c16}\n    "
        + store("D", c16, half),
        {"a": a, "b": b, "c": c.astype(np.float16), "out": np.zeros((16, 16), np.float16)},
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
        {"a": m, "b": n, "c": o, "out": np.zeros((16, 16), np.int32)},
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
        {"a": p, "b": q, "c": s, "out": np.zeros((8, 8))},
        p @ q + s,
        tolerance_ulp=64,
    )  # fmt: skip


_shuffles()
_rotations()
_broadcasts()
_reductions()
_identifiers()
_matrices()
