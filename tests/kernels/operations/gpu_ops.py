"""Programs of the gpu dialect: ids, memory, barrier, all_reduce."""

from __future__ import annotations

import numpy as np
from kernels.operations import message_ops
from kernels.program import (
    AMD_CHIPS,
    NVIDIA_OLD,
    PRIVATE,
    WORKGROUP,
    Programs,
    floats,
    from_bf16,
    integers,
    to_bf16,
)

_GRID, _BLOCK = (2, 3, 2), (4, 2, 3)
PROGRAMS = Programs()


def _shape(grid, block) -> tuple[np.ndarray, ...]:
    """For every work-item, by global id [z, y, x]: its block ids and thread ids, as (x, y, z)."""
    extent = [g * b for g, b in zip(grid, block, strict=True)]
    z, y, x = np.meshgrid(*(np.arange(n) for n in reversed(extent)), indexing="ij")
    block_ids = [a // b for a, b in zip((x, y, z), block, strict=True)]
    thread_ids = [a % b for a, b in zip((x, y, z), block, strict=True)]
    return block_ids, thread_ids, [x, y, z]


def _identifiers() -> None:
    blocks, threads, globals_ = _shape(_GRID, _BLOCK)
    same = np.ones_like(globals_[0])
    values = {
        "thread_id": threads,
        "block_id": blocks,
        "global_id": globals_,
        "block_dim": [same * n for n in _BLOCK],
        "grid_dim": [same * n for n in _GRID],
    }
    bounds = {"thread_id": 8, "block_id": 8, "global_id": 64, "block_dim": 8, "grid_dim": 8}
    for name, wanted in values.items():
        for bounded in (False, True):
            bound = f" upper_bound {bounds[name]}" if bounded else ""
            body = "".join(
                f"    %v{axis} = gpu.{name} {axis}{bound}\n"
                f"    memref.store %v{axis}, %o{axis}[%gz, %gy, %gx] : memref<6x6x8xindex>\n"
                for axis in "xyz"
            )
            body = f"""%gx = gpu.global_id x
    %gy = gpu.global_id y
    %gz = gpu.global_id z
{body}"""
            PROGRAMS.add(
                name=f"gpu_{name}{'_bounded' if bounded else ''}",
                op=f"gpu.{name}{' upper_bound' if bounded else ''}",
                body=body,
                args={f"o{a}": np.zeros((6, 6, 8), np.uint64) for a in "xyz"},
                expect={f"o{a}": w.astype(np.uint64) for a, w in zip("xyz", wanted, strict=True)},
                grid=_GRID,
                block=_BLOCK,
                breaks=(f"%vy = gpu.{name} y", f"%vy = gpu.{name} x"),
            )
    cluster = (2, 1, 1)
    grid = (4, 3, 2)
    blocks, _, where = _shape(grid, _BLOCK)
    same = np.ones_like(where[0])
    clusters = {
        "cluster_id": [b // c for b, c in zip(blocks, cluster, strict=True)],
        "cluster_dim": [same * (g // c) for g, c in zip(grid, cluster, strict=True)],
        "cluster_block_id": [b % c for b, c in zip(blocks, cluster, strict=True)],
        "cluster_dim_blocks": [same * c for c in cluster],
    }
    for name, wanted in clusters.items():
        body = "".join(
            f"    %v{axis} = gpu.{name} {axis}\n"
            f"    memref.store %v{axis}, %o{axis}[%gz, %gy, %gx] : memref<6x6x16xindex>\n"
            for axis in "xyz"
        )
        PROGRAMS.add(
            name=f"gpu_{name}",
            op=f"gpu.{name}",
            body=f"%gx = gpu.global_id x\n    %gy = gpu.global_id y\n    %gz = gpu.global_id z\n{body}",
            args={f"o{a}": np.zeros((6, 6, 16), np.uint64) for a in "xyz"},
            expect={f"o{a}": w.astype(np.uint64) for a, w in zip("xyz", wanted, strict=True)},
            grid=grid,
            block=_BLOCK,
            cluster=cluster,
            refused=dict.fromkeys((NVIDIA_OLD, *AMD_CHIPS), "needs clusters of workgroups"),
        )


def _memory() -> None:
    lanes = np.arange(32)
    PROGRAMS.add(
        name="gpu_barrier",
        op="gpu.barrier, workgroup attribution",
        body=f"""%v = memref.load %in[%i] : memref<?xi32>
    memref.store %v, %w[%t] : memref<32xi32, {WORKGROUP}>
    gpu.barrier
    %c31 = arith.constant 31 : index
    %o = arith.subi %c31, %t : index
    %r = memref.load %w[%o] : memref<32xi32, {WORKGROUP}>
    memref.store %r, %out[%i] : memref<?xi32>""",
        attributes=f"workgroup(%w : memref<32xi32, {WORKGROUP}>)",
        args={"in": np.arange(64, dtype=np.int32)},
        expect={"out": np.arange(64, dtype=np.int32).reshape(2, 32)[:, ::-1].ravel()},
        grid=2,
        breaks=("gpu.barrier", ""),
    )
    PROGRAMS.add(
        name="memref_alloc_workgroup",
        op="memref.alloc, dealloc in workgroup memory",
        body=f"""%w = memref.alloc() : memref<32xi32, {WORKGROUP}>
    %v = memref.load %in[%i] : memref<?xi32>
    memref.store %v, %w[%t] : memref<32xi32, {WORKGROUP}>
    gpu.barrier
    %c31 = arith.constant 31 : index
    %o = arith.subi %c31, %t : index
    %r = memref.load %w[%o] : memref<32xi32, {WORKGROUP}>
    memref.store %r, %out[%i] : memref<?xi32>
    memref.dealloc %w : memref<32xi32, {WORKGROUP}>""",
        args={"in": np.arange(64, dtype=np.int32)},
        expect={"out": np.arange(64, dtype=np.int32).reshape(2, 32)[:, ::-1].ravel()},
        grid=2,
        breaks=("gpu.barrier", ""),
    )
    PROGRAMS.add(
        name="gpu_two_workgroups",
        op="two workgroup attributions of different types",
        body=f"""%v = memref.load %in[%i] : memref<?xi32>
    %f = arith.sitofp %v : i32 to f64
    memref.store %v, %w[%t] : memref<32xi32, {WORKGROUP}>
    memref.store %f, %u[%t, %c1] : memref<32x2xf64, {WORKGROUP}>
    gpu.barrier
    %c31 = arith.constant 31 : index
    %o = arith.subi %c31, %t : index
    %r = memref.load %w[%o] : memref<32xi32, {WORKGROUP}>
    %s = memref.load %u[%o, %c1] : memref<32x2xf64, {WORKGROUP}>
    %q = arith.sitofp %r : i32 to f64
    %p = arith.addf %q, %s : f64
    memref.store %p, %out[%i] : memref<?xf64>""",
        attributes=f"workgroup(%w : memref<32xi32, {WORKGROUP}>, %u : memref<32x2xf64, {WORKGROUP}>)",
        args={"in": np.arange(64, dtype=np.int32)},
        expect={"out": 2.0 * np.arange(64).reshape(2, 32)[:, ::-1].ravel()},
        grid=2,
        breaks=("arith.addf", "arith.subf"),
    )
    PROGRAMS.add(
        name="gpu_private",
        op="private attribution",
        body=f"""%n = arith.remui %t, %c4 : index
    memref.store %t, %p[%n] : memref<4xindex, {PRIVATE}>
    gpu.barrier
    %r = memref.load %p[%n] : memref<4xindex, {PRIVATE}>
    memref.store %r, %out[%i] : memref<?xindex>""",
        attributes=f"private(%p : memref<4xindex, {PRIVATE}>)",
        expect={"out": np.tile(lanes, 2).astype(np.uint64)},
        grid=2,
        breaks=("store %t, %p", "store %n, %p"),
    )
    PROGRAMS.add(
        name="gpu_dynamic_shared_memory",
        op="gpu.dynamic_shared_memory",
        body=f"""%d = gpu.dynamic_shared_memory : memref<?xi8, {WORKGROUP}>
    %c128 = arith.constant 128 : index
    %a = memref.view %d[%c0][] : memref<?xi8, {WORKGROUP}> to memref<32xi32, {WORKGROUP}>
    %b = memref.view %d[%c128][] : memref<?xi8, {WORKGROUP}> to memref<32xi32, {WORKGROUP}>
    %v = memref.load %in[%i] : memref<?xi32>
    %z = arith.addi %v, %v : i32
    memref.store %v, %a[%t] : memref<32xi32, {WORKGROUP}>
    memref.store %z, %b[%t] : memref<32xi32, {WORKGROUP}>
    gpu.barrier
    %c31 = arith.constant 31 : index
    %o = arith.subi %c31, %t : index
    %r = memref.load %a[%o] : memref<32xi32, {WORKGROUP}>
    %s = memref.load %b[%o] : memref<32xi32, {WORKGROUP}>
    %q = arith.addi %r, %s : i32
    memref.store %q, %out[%i] : memref<?xi32>""",
        args={"in": np.arange(64, dtype=np.int32)},
        expect={"out": 3 * np.arange(64, dtype=np.int32).reshape(2, 32)[:, ::-1].ravel()},
        grid=2,
        dynamic_bytes=256,
        breaks=("arith.constant 128", "arith.constant 0"),
    )
    PROGRAMS.add(
        name="gpu_known_sizes",
        op="known_block_size, known_grid_size",
        body="""%d = gpu.block_dim x
    %g = gpu.grid_dim x
    %r = arith.muli %d, %g : index
    memref.store %r, %out[%i] : memref<?xindex>""",
        attributes="|attributes {known_block_size = array<i32: 32, 1, 1>, "
        "known_grid_size = array<i32: 2, 1, 1>}",
        expect={"out": np.full(64, 64, np.uint64)},
        grid=2,
    )
    PROGRAMS.add(
        name="gpu_return_early",
        op="gpu.return from several blocks",
        body="""%k = arith.constant 5 : index
    %p = arith.cmpi ult, %t, %k : index
    cf.cond_br %p, ^a, ^b
  ^a:
    gpu.return
  ^b:
    memref.store %t, %out[%i] : memref<?xindex>""",
        expect={"out": np.where(np.tile(lanes, 2) < 5, 0, np.tile(lanes, 2)).astype(np.uint64)},
        grid=2,
        breaks=("ult", "ugt"),
    )


_INTEGER = {
    "add": np.add, "mul": np.multiply, "minsi": np.minimum, "maxsi": np.maximum, "minui": np.minimum,
    "maxui": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_FLOAT = {
    "add": np.add, "mul": np.multiply, "minnumf": np.fmin, "maxnumf": np.fmax, "minimumf": np.minimum,
    "maximumf": np.maximum,
}  # fmt: skip
REDUCED_TYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64, "bf16": np.float32,
}  # fmt: skip


def reductions(kind: str) -> dict:
    return _INTEGER if kind.startswith("i") else _FLOAT


def reduction_input(kind: str, op: str, count: int) -> np.ndarray:
    """Values whose reduction is exact in any order."""
    dtype = REDUCED_TYPES[kind]
    if kind.startswith("i"):
        low = 1 if op == "mul" else -100
        return integers(dtype, low, 3 if op == "mul" else 100, count) | (1 if op == "mul" else 0)
    if op == "mul":
        return np.where(np.arange(count) % 9 == 0, 2.0, np.where(np.arange(count) % 3 == 0, -1, 1)).astype(
            dtype
        )
    if op == "add":
        return integers(np.int32, -3, 4, count).astype(dtype)
    values = floats(dtype, count=count).astype(np.float16).astype(dtype)
    if kind == "bf16":
        values = from_bf16(to_bf16(values))
    return values


def reduce_values(op: str, values: np.ndarray, axis: int = -1) -> np.ndarray:
    """The reduction along ``axis``, with the type's own wrapping, repeated over it."""
    function = (_INTEGER if values.dtype.kind in "iu" else _FLOAT)[op]
    seen = values
    if op.endswith("ui"):
        seen = values.view(f"u{values.dtype.itemsize}")
    with np.errstate(over="ignore"):
        result = function.reduce(
            seen,
            axis=axis,
            keepdims=True,
            **({"dtype": seen.dtype} if function in (np.add, np.multiply) else {}),
        )
    return (
        np.broadcast_to(result, seen.shape).view(values.dtype)
        if op.endswith("ui")
        else np.broadcast_to(result, seen.shape)
    )


def add_reduction(
    to: Programs, name: str, op: str, kind: str, line: str, values: np.ndarray, want: np.ndarray, **more
) -> None:
    """``line`` sets ``%r`` from ``%x``, both of type ``kind``."""
    bits = kind == "bf16"
    encode = to_bf16 if bits else (lambda v: v)
    to.add(
        name=name,
        op=op,
        body=f"""%x = memref.load %in[%i] : memref<?x{kind}>
    {line}
    memref.store %r, %out[%i] : memref<?x{kind}>""",
        args={"in": encode(values.ravel())},
        expect={"out": encode(np.ascontiguousarray(want).ravel())},
        types={"in": kind, "out": kind} if bits else {},
        **more,
    )


def _all_reduce() -> None:
    for kind in REDUCED_TYPES:
        for op in reductions(kind):
            block = 96 if op in {"add", "mul"} else 80
            values = reduction_input(kind, op, 2 * block).reshape(2, block)
            add_reduction(
                PROGRAMS,
                f"gpu_all_reduce_{op}_{kind}",
                f"gpu.all_reduce {op} {kind}",
                kind,
                f"%r = gpu.all_reduce {op} %x uniform {{}} : ({kind}) -> ({kind})",
                values,
                reduce_values(op, values),
                grid=2,
                block=block,
            )
    for kind, op, combine in (
        ("i32", "add", "arith.addi"), ("f32", "add", "arith.addf"), ("f64", "maximumf", "arith.maximumf"),
        ("i64", "xor", "arith.xori"), ("f16", "add", "arith.addf"), ("i8", "add", "arith.addi"),
    ):  # fmt: skip
        values = reduction_input(kind, op, 160).reshape(2, 80)
        add_reduction(
            PROGRAMS,
            f"gpu_all_reduce_region_{kind}",
            f"gpu.all_reduce with a region, {kind}",
            kind,
            f"""%r = gpu.all_reduce %x uniform {{
    ^bb(%l : {kind}, %h : {kind}):
      %c = {combine} %l, %h : {kind}
      "gpu.yield"(%c) : ({kind}) -> ()
    }} : ({kind}) -> ({kind})""",
            values,
            reduce_values(op, values),
            grid=2,
            block=80,
        )
    large = integers(np.int64, -(2**46), 2**46, 80)
    PROGRAMS.add(
        name="gpu_all_reduce_i48",
        op="gpu.all_reduce minsi i48, a parameter of type i24",
        body="""%x = memref.load %in[%t] : memref<?xi64>
    %e = arith.extsi %least : i24 to i64
    %y = arith.maxsi %x, %e : i64
    %z = arith.trunci %y : i64 to i48
    %r = gpu.all_reduce minsi %z uniform {} : (i48) -> (i48)
    %w = arith.extsi %r : i48 to i64
    memref.store %w, %out[%t] : memref<?xi64>""",
        args={"in": large, "least": np.int32(-(2**23) + 5)},
        expect={"out": np.full(80, max(large.min(), -(2**23) + 5))},
        types={"least": "i24"},
        block=80,
        breaks=("reduce minsi", "reduce minui"),
    )
    values = reduction_input("i32", "add", 72).reshape(1, 72)
    PROGRAMS.add(
        name="gpu_all_reduce_3d",
        op="gpu.all_reduce in a workgroup of three dimensions",
        body="""%ty = gpu.thread_id y
    %tz = gpu.thread_id z
    %c3 = arith.constant 3 : index
    %c8 = arith.constant 8 : index
    %a = arith.muli %tz, %c3 : index
    %b = arith.addi %a, %ty : index
    %c = arith.muli %b, %c8 : index
    %d = arith.addi %c, %t : index
    %x = memref.load %in[%d] : memref<?xi32>
    %r = gpu.all_reduce add %x uniform {} : (i32) -> (i32)
    memref.store %r, %out[%d] : memref<?xi32>""",
        args={"in": values.ravel()},
        expect={"out": reduce_values("add", values).ravel()},
        block=(8, 3, 3),
        breaks=("all_reduce add", "all_reduce xor"),
    )


_identifiers()
_memory()
PROGRAMS += message_ops.programs()
_all_reduce()
