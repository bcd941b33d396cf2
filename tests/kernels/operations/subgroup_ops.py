"""Programs of the gpu dialect whose work-items exchange values within a subgroup."""

from __future__ import annotations

import numpy as np
from kernels.operations import subgroup_matrix_ops
from kernels.operations.gpu_ops import (
    REDUCED_TYPES,
    add_reduction,
    reduce_values,
    reduction_input,
    reductions,
)
from kernels.program import AMD_CHIPS, NVIDIA_CHIPS, Programs, floats, integers, to_bf16

LANES = 32
PROGRAMS = Programs()
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
    PROGRAMS.add(
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
        PROGRAMS.add(
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
            args={"in": given, "ws": np.array([16, 2], np.int32)},
            expect={"out": want},
            block=_COUNT,
        )
    given = np.arange(2 * _COUNT, dtype=np.float32)
    want = given.reshape(_COUNT, 2)[np.arange(_COUNT) ^ 5].ravel()
    PROGRAMS.add(
        name="gpu_shuffle_vector",
        op="gpu.shuffle of a vector",
        body="""%j = arith.muli %i, %c2 : index
    %x = vector.load %in[%j] : memref<?xf32>, vector<2xf32>
    %o = arith.constant 5 : i32
    %w = arith.constant 32 : i32
    %v, %p = gpu.shuffle xor %x, %o, %w : vector<2xf32>
    vector.store %v, %out[%j] : memref<?xf32>, vector<2xf32>""",
        args={"in": given},
        expect={"out": want},
        block=_COUNT,
        breaks=("constant 5", "constant 6"),
    )
    PROGRAMS.add(
        name="gpu_subgroup_broadcast_2d",
        op="gpu.subgroup_broadcast of a vector of two dimensions",
        body="""%j = arith.muli %i, %c2 : index
    %f = vector.load %in[%j] : memref<?xf32>, vector<2xf32>
    %x = vector.shape_cast %f : vector<2xf32> to vector<2x1xf32>
    %l = arith.constant 3 : i32
    %b = gpu.subgroup_broadcast %x, specific_lane %l : vector<2x1xf32>
    %v = vector.shape_cast %b : vector<2x1xf32> to vector<2xf32>
    vector.store %v, %out[%j] : memref<?xf32>, vector<2xf32>""",
        args={"in": given},
        expect={"out": given.reshape(_COUNT, 2)[np.arange(_COUNT) // LANES * LANES + 3].ravel()},
        block=_COUNT,
        breaks=("constant 3", "constant 4"),
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
            add_reduction(
                PROGRAMS,
                f"gpu_subgroup_reduce_{op}_{kind}",
                f"gpu.subgroup_reduce {op} {kind}",
                kind,
                f"%r = gpu.subgroup_reduce {op} %x : ({kind}) -> ({kind})",
                values,
                reduce_values(op, values),
                block=_COUNT,
            )
    for size, stride in ((1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (32, 1), (4, 2), (2, 16), (8, 4)):
        values = reduction_input("i32", "add", _COUNT)
        # lane = (outer, place in cluster, which of `stride` clusters)
        shaped = values.reshape(-1, size, stride)
        want = reduce_values("add", shaped, axis=1).reshape(-1)
        cluster = f"cluster(size = {size}, stride = {stride})"
        add_reduction(
            PROGRAMS,
            f"gpu_subgroup_reduce_{size}_by_{stride}",
            f"gpu.subgroup_reduce, cluster size {size}, stride {stride}",
            "i32",
            f"%r = gpu.subgroup_reduce add %x {cluster} : (i32) -> (i32)",
            values,
            want,
            block=_COUNT,
            breaks=("reduce add", "reduce mul") if size > 1 else None,
        )
    given = reduction_input("f16", "add", 2 * _COUNT)
    want = reduce_values("add", given.reshape(2, LANES, 2), axis=1).ravel()
    PROGRAMS.add(
        name="gpu_subgroup_reduce_vector",
        op="gpu.subgroup_reduce of a vector",
        body="""%j = arith.muli %i, %c2 : index
    %x = vector.load %in[%j] : memref<?xf16>, vector<2xf16>
    %r = gpu.subgroup_reduce add %x uniform : (vector<2xf16>) -> vector<2xf16>
    vector.store %r, %out[%j] : memref<?xf16>, vector<2xf16>""",
        args={"in": given},
        expect={"out": want},
        block=_COUNT,
        breaks=("reduce add", "reduce maximumf"),
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
            PROGRAMS.add(
                name=f"gpu_{name}{'_bounded' if bound else ''}",
                op=f"gpu.{name}{bound and ' upper_bound'}",
                body=f"""%r = gpu.{name}{bound}{result}
    memref.store %r, %out[%i] : memref<?xindex>""",
                expect={"out": want.astype(np.uint64)},
                grid=2,
                block=96,
            )
    PROGRAMS.add(
        name="gpu_subgroup_id_3d",
        op="gpu.subgroup_id in a workgroup of three dimensions",
        body="""%ty = gpu.thread_id y
    %tz = gpu.thread_id z
    %r = gpu.subgroup_id : index
    memref.store %r, %out[%tz, %ty, %t] : memref<4x3x8xindex>""",
        expect={"out": (np.arange(96) // LANES).reshape(4, 3, 8).astype(np.uint64)},
        block=(8, 3, 4),
    )


def _on_lane_0(name: str, what: str, body: str, args: dict, expect: dict, **more) -> None:
    """Add a program whose region the first lane runs; refused where subgroups have other sizes."""
    others = AMD_CHIPS if LANES == 32 else NVIDIA_CHIPS
    reason = f"'gpu.warp_execute_on_lane_0' of {LANES} work-items, where a subgroup has {96 - LANES}"
    PROGRAMS.add(
        name=f"gpu_warp_execute_on_lane_0{name}",
        op=f"gpu.warp_execute_on_lane_0{what}",
        body=f"%l = gpu.lane_id\n{body}",
        args=args,
        expect=expect,
        block=_COUNT,
        refused=dict.fromkeys(others, reason),
        **more,
    )


def _first_lanes() -> None:
    ints = (np.arange(2 * _COUNT) ** 2 % 211 - 100).astype(np.int32)
    halves, bytes_ = ints[:_COUNT].astype(np.float16), ints[:_COUNT].astype(np.int8)
    _on_lane_0(
        "",
        "",
        f"""    gpu.warp_execute_on_lane_0(%l)[{LANES}] {{
      %v = arith.constant 7 : i32
      memref.store %v, %out[%i] : memref<?xi32>
    }}""",
        {"out": np.zeros(_COUNT, np.int32)},
        {"out": np.where(_lane == 0, 7, 0).astype(np.int32)},
    )
    groups = ints.reshape(2, 2 * LANES)
    _on_lane_0(
        "_vector",
        " with distributed vectors",
        f"""    %j = arith.muli %i, %c2 : index
    %x = vector.load %in[%j] : memref<?xi32>, vector<2xi32>
    %sum, %r = gpu.warp_execute_on_lane_0(%l)[{LANES}] args(%x : vector<2xi32>) -> (i32, vector<2xi32>) {{
    ^bb0(%whole: vector<{2 * LANES}xi32>):
      %total = vector.reduction <add>, %whole : vector<{2 * LANES}xi32> into i32
      %back = vector.shuffle %whole, %whole [{", ".join(map(str, reversed(range(2 * LANES))))}]
        : vector<{2 * LANES}xi32>, vector<{2 * LANES}xi32>
      gpu.yield %total, %back : i32, vector<{2 * LANES}xi32>
    }}
    memref.store %sum, %sums[%i] : memref<?xi32>
    vector.store %r, %out[%j] : memref<?xi32>, vector<2xi32>""",
        {"in": ints, "sums": np.zeros(_COUNT, np.int32), "out": np.zeros(2 * _COUNT, np.int32)},
        {"sums": np.repeat(groups.sum(1), LANES).astype(np.int32), "out": groups[:, ::-1].reshape(-1)},
        breaks=(f"{2 * LANES - 1}, {2 * LANES - 2}", f"{2 * LANES - 2}, {2 * LANES - 1}"),
    )
    tiles = LANES // 4  # of 1x1 in four rows: lanes run along the columns first
    half_groups = halves.reshape(2, 4, tiles)
    _on_lane_0(
        "_rows",
        " with vectors distributed along two dimensions",
        f"""    %x = memref.load %in[%i] : memref<?xf16>
    %tile = vector.broadcast %x : f16 to vector<1x1xf16>
    %r = gpu.warp_execute_on_lane_0(%l)[{LANES}] args(%tile : vector<1x1xf16>) -> (vector<1x1xf16>) {{
    ^bb0(%whole: vector<4x{tiles}xf16>):
      %a = vector.extract %whole[0] : vector<{tiles}xf16> from vector<4x{tiles}xf16>
      %b = vector.extract %whole[3] : vector<{tiles}xf16> from vector<4x{tiles}xf16>
      %d = vector.insert %b, %whole [0] : vector<{tiles}xf16> into vector<4x{tiles}xf16>
      %e = vector.insert %a, %d [3] : vector<{tiles}xf16> into vector<4x{tiles}xf16>
      gpu.yield %e : vector<4x{tiles}xf16>
    }}
    %y = vector.extract %r[0, 0] : f16 from vector<1x1xf16>
    memref.store %y, %out[%i] : memref<?xf16>""",
        {"in": halves, "out": np.zeros(_COUNT, np.float16)},
        {"out": half_groups[:, [3, 1, 2, 0]].reshape(-1)},
        breaks=("%a, %d [3]", "%a, %d [2]"),
    )
    _on_lane_0(
        "_same",
        " with values of the first lane",
        f"""    %x = memref.load %in[%i] : memref<?xi8>
    %0:5 = gpu.warp_execute_on_lane_0(%l)[{LANES}] args(%x, %in : i8, memref<?xi8>)
        -> (i8, i1, index, f64, vector<3xi8>) {{
    ^bb0(%own: i8, %memory: memref<?xi8>):
      %other = memref.load %memory[%i] : memref<?xi8>
      %equal = arith.cmpi eq, %other, %own : i8
      %wide = arith.sitofp %own : i8 to f64
      %three = vector.broadcast %own : i8 to vector<3xi8>
      gpu.yield %own, %equal, %i, %wide, %three : i8, i1, index, f64, vector<3xi8>
    }}
    %y = vector.extract %0#4[2] : i8 from vector<3xi8>
    memref.store %0#0, %out[%i] : memref<?xi8>
    memref.store %0#1, %ok[%i] : memref<?xi1>
    memref.store %0#2, %at[%i] : memref<?xindex>
    memref.store %0#3, %wides[%i] : memref<?xf64>
    memref.store %y, %last[%i] : memref<?xi8>""",
        {
            "in": bytes_,
            "out": np.zeros(_COUNT, np.int8),
            "ok": np.zeros(_COUNT, np.bool_),
            "at": np.zeros(_COUNT, np.uint64),
            "wides": np.zeros(_COUNT, np.float64),
            "last": np.zeros(_COUNT, np.int8),
        },
        {
            "out": bytes_[_base],
            "ok": np.ones(_COUNT, np.bool_),
            "at": _base.astype(np.uint64),
            "wides": bytes_[_base].astype(np.float64),
            "last": bytes_[_base],
        },
    )


_shuffles()
_rotations()
_broadcasts()
_reductions()
_identifiers()
_first_lanes()
PROGRAMS += subgroup_matrix_ops.programs()
