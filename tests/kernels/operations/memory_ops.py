"""Programs of the memref dialect: views, allocations, globals, atomics."""

from __future__ import annotations

import numpy as np
from kernels.program import COUNT, WORKGROUP, Programs, floats, integers

X = integers(np.int32)
MATRIX = np.arange(64, dtype=np.int32).reshape(8, 8)
_STRIDED = "memref<3x2xi32, strided<[16, 2], offset: ?>>"
PROGRAMS = Programs()


def _views() -> None:
    one = {"in": MATRIX, "out": np.zeros((3, 2), np.int32)}
    PROGRAMS.add(
        name="memref_subview",
        op="memref.subview",
        body=f"""%s = memref.subview %in[%c1, 2] [3, 2] [2, 2] : memref<8x8xi32> to {_STRIDED}
    affine.for %a = 0 to 3 {{
      affine.for %b = 0 to 2 {{
        %v = memref.load %s[%a, %b] : {_STRIDED}
        memref.store %v, %out[%a, %b] : memref<3x2xi32>
      }}
    }}""",
        args=one,
        expect={"out": MATRIX[1:7:2, 2:6:2]},
        block=1,
        breaks=("[%c1, 2]", "[%c2, 2]"),
    )
    PROGRAMS.add(
        name="memref_copy",
        op="memref.copy",
        body="memref.copy %in, %out : memref<8x8xi32> to memref<8x8xi32>",
        args={"in": MATRIX},
        expect={"out": MATRIX},
        block=1,
    )
    PROGRAMS.add(
        name="memref_copy_strided",
        op="memref.copy of a strided view",
        body=f"""%s = memref.subview %in[%c1, 2] [3, 2] [2, 2] : memref<8x8xi32> to {_STRIDED}
    memref.copy %s, %out : {_STRIDED} to memref<3x2xi32>""",
        args=one,
        expect={"out": MATRIX[1:7:2, 2:6:2]},
        block=1,
    )
    PROGRAMS.add(
        name="memref_reinterpret_cast",
        op="memref.reinterpret_cast, dim",
        body="""%s = memref.reinterpret_cast %in to offset: [3], sizes: [4, %c2], strides: [8, 3]
      : memref<8x8xi32> to memref<4x?xi32, strided<[8, 3], offset: 3>>
    %d = memref.dim %s, %c1 : memref<4x?xi32, strided<[8, 3], offset: 3>>
    %v = memref.load %s[%c2, %c1] : memref<4x?xi32, strided<[8, 3], offset: 3>>
    %w = arith.index_cast %d : index to i32
    %r = arith.addi %v, %w : i32
    memref.store %r, %out[%c0] : memref<?xi32>""",
        args={"in": MATRIX},
        expect={"out": np.array([3 + 16 + 3 + 2], np.int32)},
        block=1,
        breaks=("%s[%c2, %c1]", "%s[%c1, %c1]"),
    )
    PROGRAMS.add(
        name="memref_reshapes",
        op="memref.collapse_shape, expand_shape, cast, transpose",
        body="""%f = memref.collapse_shape %in [[0, 1]] : memref<8x8xi32> into memref<64xi32>
    %e = memref.expand_shape %f [[0, 1, 2]] output_shape [2, 4, 8] : memref<64xi32> into memref<2x4x8xi32>
    %d = memref.cast %e : memref<2x4x8xi32> to memref<?x?x?xi32>
    %u = memref.transpose %in (a, b) -> (b, a) : memref<8x8xi32> to memref<8x8xi32, strided<[1, 8]>>
    %v = memref.load %d[%c1, %c2, %c4] : memref<?x?x?xi32>
    %w = memref.load %u[%c1, %c2] : memref<8x8xi32, strided<[1, 8]>>
    memref.store %v, %out[%c0] : memref<?xi32>
    memref.store %w, %out[%c1] : memref<?xi32>""",
        args={"in": MATRIX},
        expect={"out": np.array([52, 17], np.int32)},
        block=1,
    )
    PROGRAMS.add(
        name="memref_view_metadata",
        op="memref.extract_strided_metadata, extract_aligned_pointer_as_index",
        body="""%b, %o, %s:2, %t2:2 = memref.extract_strided_metadata %in
      : memref<8x8xi32> -> memref<i32>, index, index, index, index, index
    %p = memref.extract_aligned_pointer_as_index %in : memref<8x8xi32> -> index
    %q = arith.cmpi ne, %p, %c0 : index
    %r = arith.select %q, %t2#0, %c0 : index
    memref.store %r, %out[%c0] : memref<?xindex>
    memref.store %s#1, %out[%c1] : memref<?xindex>""",
        args={"in": MATRIX},
        expect={"out": np.array([8, 8], np.uint64)},
        block=1,
    )


def _memory() -> None:
    PROGRAMS.add(
        name="memref_alloca",
        op="memref.alloca, memref.load, memref.store",
        body="""%a = memref.alloca() : memref<4xindex>
    %b = memref.alloca(%c4) : memref<?xindex>
    %n = arith.remui %t, %c4 : index
    memref.store %i, %a[%n] : memref<4xindex>
    memref.store %t, %b[%n] : memref<?xindex>
    %v = memref.load %a[%n] : memref<4xindex>
    %w = memref.load %b[%n] : memref<?xindex>
    %r = arith.addi %v, %w : index
    memref.store %r, %out[%i] : memref<?xindex>""",
        expect={"out": (np.arange(COUNT) + np.arange(COUNT) % 32).astype(np.uint64)},
        grid=2,
        breaks=("store %t, %b", "store %c1, %b"),
    )
    PROGRAMS.each(
        "memref_global",
        "memref.global constant, memref.get_global",
        "%g = memref.get_global @memref_global_table : memref<4xi32>\n"
        "    %n = arith.remui %i, %c4 : index\n"
        "    %v = memref.load %g[%n] : memref<4xi32>\n    %r = arith.addi %v, %x : i32",
        [X],
        X + np.tile(np.array([1, 2, 4, 8], np.int32), COUNT // 4),
        module='  memref.global "private" constant @memref_global_table : memref<4xi32>'
        " = dense<[1, 2, 4, 8]>",
        breaks=("%v, %x", "%v, %v"),
    )
    PROGRAMS.add(
        name="memref_global_workgroup",
        op="memref.global in workgroup memory",
        body=f"""%g = memref.get_global @memref_global_shared : memref<32xindex, {WORKGROUP}>
    memref.store %t, %g[%t] : memref<32xindex, {WORKGROUP}>
    gpu.barrier
    %c31 = arith.constant 31 : index
    %o = arith.subi %c31, %t : index
    %r = memref.load %g[%o] : memref<32xindex, {WORKGROUP}>
    memref.store %r, %out[%i] : memref<?xindex>""",
        module=f'  memref.global "private" @memref_global_shared : memref<32xindex, {WORKGROUP}>',
        expect={"out": np.tile(np.arange(31, -1, -1), 2).astype(np.uint64)},
        grid=2,
    )
    PROGRAMS.add(
        name="memref_global_mutable",
        op="memref.global that kernels change",
        body="""%g = memref.get_global @memref_global_counter : memref<1xi32>
    %k = arith.constant 1 : i32
    %z = arith.constant 0 : i32
    %o = memref.atomic_rmw addi %k, %g[%c0] : (i32, memref<1xi32>) -> i32
    %p = arith.cmpi sge, %o, %z : i32
    %r = arith.extui %p : i1 to i32
    memref.store %r, %out[%i] : memref<?xi32>""",
        module='  memref.global "private" @memref_global_counter : memref<1xi32> = dense<0>',
        expect={"out": np.ones(COUNT, np.int32)},
        grid=2,
    )
    PROGRAMS.add(
        name="memref_assume_alignment",
        op="memref.assume_alignment, memref.prefetch",
        body="""%a = memref.assume_alignment %in, 4 : memref<8x8xi32>
    memref.prefetch %a[%c0, %c0], read, locality<3>, data : memref<8x8xi32>
    %v = memref.load %a[%c1, %c2] : memref<8x8xi32>
    memref.store %v, %out[%c0] : memref<?xi32>""",
        args={"in": MATRIX},
        expect={"out": np.array([10], np.int32)},
        block=1,
    )
    PROGRAMS.add(
        name="memref_rank0",
        op="memref of rank 0",
        body="""%a = memref.alloca() : memref<i32>
    %v = memref.load %in[%i] : memref<?xi32>
    memref.store %v, %a[] : memref<i32>
    %r = memref.load %a[] : memref<i32>
    memref.store %r, %out[%i] : memref<?xi32>""",
        args={"in": X},
        expect={"out": X},
        grid=2,
    )


_KINDS = {
    "addi": (np.add, "i32 i64"), "muli": (np.multiply, "i32 i64"), "ori": (np.bitwise_or, "i32 i64"),
    "andi": (np.bitwise_and, "i32 i64"), "xori": (np.bitwise_xor, "i32 i64"),
    "maxs": (np.maximum, "i32 i64"), "mins": (np.minimum, "i32 i64"), "maxu": (np.maximum, "i32 i64"),
    "minu": (np.minimum, "i32 i64"), "addf": (np.add, "f16 bf16 f32 f64"), "mulf": (np.multiply, "f32 f64"),
    "maximumf": (np.maximum, "f16 f32 f64"), "minimumf": (np.minimum, "f32 f64"),
    "maxnumf": (np.fmax, "f32 f64"), "minnumf": (np.fmin, "f32 f64"), "assign": (None, "i32 f32 f64"),
}  # fmt: skip
_TYPES = {
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.uint64, "f16": np.float16,
    "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def _operands(op: str, kind: str) -> np.ndarray:
    dtype = _TYPES.get(kind, np.float32)
    if op in {"muli", "mulf"}:
        return np.where(np.arange(COUNT) % 13 == 0, 2, np.where(np.arange(COUNT) % 4 == 0, -1, 1)).astype(
            dtype
        )
    if op == "addf":
        return integers(np.int32, -3, 4).astype(dtype)
    return integers(dtype, 0 if kind == "index" else -90, 90) if kind[0] == "i" else floats(dtype)


def _reduced(op: str, values: np.ndarray) -> np.ndarray:
    function = _KINDS[op][0]
    seen = values.view(f"u{values.itemsize}") if op in {"maxu", "minu"} else values
    return function.reduce(
        seen, keepdims=True, **({"dtype": seen.dtype} if op[:3] in {"add", "mul"} else {})
    ).view(values.dtype)


def _atomics() -> None:
    from kernels.program import to_bf16

    for op, (_, kinds) in _KINDS.items():
        for kind in kinds.split():
            for space in ("", WORKGROUP):
                if space and (kind not in {"i32", "f32"}):
                    continue
                values = _operands(op, kind)
                values = np.full_like(values, 5) if op == "assign" else values
                start = values[:1] if op not in {"addi", "addf"} else np.zeros(1, values.dtype)
                if op in {"muli", "mulf"}:
                    start = np.ones(1, values.dtype)
                want = values[:1] if op == "assign" else _reduced(op, np.concatenate([start, values]))
                encode = to_bf16 if kind == "bf16" else (lambda v: v)
                memory = f"memref<1x{kind}, {space}>" if space else f"memref<?x{kind}>"
                name = "%w" if space else "%out"
                line = f"%o = memref.atomic_rmw {op} %x, {name}[%c0] : ({kind}, {memory}) -> {kind}"
                body = f"%x = memref.load %in[%i] : memref<?x{kind}>\n    "
                if space:
                    body += f"""%first = arith.cmpi eq, %t, %c0 : index
    scf.if %first {{
      %s = memref.load %out[%c0] : memref<?x{kind}>
      memref.store %s, %w[%c0] : {memory}
    }}
    gpu.barrier
    {line}
    gpu.barrier
    scf.if %first {{
      %s = memref.load %w[%c0] : {memory}
      memref.store %s, %out[%c0] : memref<?x{kind}>
    }}"""
                else:
                    body += line
                where = " in workgroup memory" if space else ""
                PROGRAMS.add(
                    name=f"memref_atomic_{op}_{kind}{'_shared' if space else ''}",
                    op=f"memref.atomic_rmw {op} {kind}{where}",
                    body=body,
                    args={"in": encode(values), "out": encode(start.copy())},
                    expect={"out": encode(want)},
                    types={"in": kind, "out": kind},
                    attributes=f"workgroup(%w : {memory})" if space else "",
                    grid=1 if space else 2,
                    block=COUNT if space else 32,
                )
    # What an atomic gives back: each work-item draws another number.
    PROGRAMS.add(
        name="memref_atomic_result",
        op="memref.atomic_rmw, its result",
        body="""%k = arith.constant 1 : i32
    %o = memref.atomic_rmw addi %k, %n[%c0] : (i32, memref<?xi32>) -> i32
    %p = arith.index_cast %o : i32 to index
    memref.store %k, %out[%p] : memref<?xi32>""",
        expect={"n": np.array([COUNT], np.int32), "out": np.ones(COUNT, np.int32)},
        grid=2,
        breaks=("constant 1 : i32", "constant 0 : i32"),
    )
    for kind in ("i8", "i16", "i32", "i64", "f16", "f32", "f64"):
        values = _operands("addf", kind) if kind[0] == "f" else integers(_TYPES[kind], -2, 3)
        add = "arith.addf" if kind[0] == "f" else "arith.addi"
        if not values.sum():  # else the changed program, which only doubles zeros, were right
            values[0] += 1
        PROGRAMS.add(
            name=f"memref_generic_atomic_{kind}",
            op=f"memref.generic_atomic_rmw {kind}",
            body=f"""%x = memref.load %in[%i] : memref<?x{kind}>
    %o = memref.generic_atomic_rmw %out[%c1] : memref<?x{kind}> {{
    ^bb0(%c: {kind}):
      %s = {add} %c, %x : {kind}
      memref.atomic_yield %s : {kind}
    }}""",
            args={"in": values, "out": np.array([7, 0, 7], values.dtype)},
            expect={"out": np.array([7, values.sum(), 7]).astype(values.dtype)},
            grid=2,
            breaks=("%c, %x", "%c, %c"),
        )


def _types() -> None:
    """Loads and stores of every element type, at odd places."""
    for kind in ("i1", *_TYPES, "bf16"):
        dtype = {"i1": np.bool_, "bf16": np.uint16}.get(kind, _TYPES.get(kind))
        given = integers(np.int8, 0, 100) > 50 if kind == "i1" else integers(np.int32, 0, 100).astype(dtype)
        PROGRAMS.each(
            f"memref_load_store_{kind}",
            f"memref.load, memref.store {kind}",
            f"%c63 = arith.constant 63 : index\n    %j = arith.subi %c63, %i : index\n"
            f"    %r = memref.load %xs[%j] : memref<?x{kind}>",
            [given],
            given[::-1].copy(),
            kinds=[kind],
            kind=kind,
        )


_views()
_memory()
_atomics()
_types()
