"""Check matrices: what a subgroup loads or stores as a matrix needs of each dimension of the memref.

``gpu.subgroup_mma_*`` address rows by their own ``leadDimension``. Where that is the distance of the
memref's rows, a matrix is a box of the memref; where it is another, one stretch of a memref without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.check_access import compare, dimension, select
from gpubuild.engine.backends.cpu.sanitizer.check_bounds import Extent
from gpubuild.engine.backends.cpu.sanitizer.check_memory import is_contiguous
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize.matrix_fragments import MatrixType
from gpubuild.engine.legalize.matrix_sync import LOAD, STORE

MATRIX_ACCESSES = frozenset({LOAD, STORE})
_EQUAL = 0  # arith.cmpi predicate


def matrix_extents(op: ir.Operation, emit: Emitter) -> list[Extent]:
    """What ``op``, a load or store of a matrix, needs; of memory of vectors nothing is known."""
    values = list(op.operands)
    stored = values[:1] if op.name == STORE else []
    memory, *indices = values[len(stored) :]
    matrix = MatrixType.of((stored or list(op.results))[0].type)
    kind = ir.MemRefType(memory.type)
    if matrix is None or not indices or kind.element_type != matrix.scalar:
        return []
    extents = (matrix.rows, matrix.columns)
    rows, columns = extents[::-1] if "transpose" in op.attributes else extents
    lead = ir.IntegerAttr(op.attributes["leadDimension"]).value
    if len(indices) == 1 or (is_contiguous(kind) and _row_stride(kind) != lead):
        return [_stretch(emit, memory, indices, (rows - 1) * lead + columns)]
    counts: list[ir.Value | int] = [rows, columns]
    if _row_stride(kind) != lead:
        # What rows it has is not known: without another distance the element that it begins with.
        matches = compare(emit, _EQUAL, _strides(emit, memory)[-2], emit.constant(lead))
        counts = [select(emit, matches, emit.constant(n), emit.constant(1)) for n in (rows, columns)]
    return [
        Extent(dimension=number, first=index, size=dimension(emit, memory, number), count=count)
        for number, (index, count) in enumerate(
            zip(indices, [1] * (kind.rank - 2) + counts, strict=True),
        )
    ]


def _row_stride(kind: ir.MemRefType) -> int:
    """Elements from one row to the next; the mark of a dynamic stride where that is not known."""
    strides, _ = kind.get_strides_and_offset()
    return int(strides[-2])


def _stretch(emit: Emitter, memory: ir.Value, indices: Sequence[ir.Value], count: int) -> Extent:
    """Of all elements of ``memory`` in a row."""
    first, size = emit.constant(0), emit.constant(1)
    for number, index in enumerate(indices):
        extent = dimension(emit, memory, number)
        first = emit.binary("arith.addi", emit.binary("arith.muli", first, extent), index)
        size = emit.binary("arith.muli", size, extent)
    return Extent(dimension=0, first=first, size=size, count=count)


def _strides(emit: Emitter, memory: ir.Value) -> list[ir.Value]:
    kind, index = ir.MemRefType(memory.type), ir.IndexType.get()
    base = ir.MemRefType.get([], kind.element_type, memory_space=kind.memory_space)
    parts = emit.op("memref.extract_strided_metadata", [memory], [base, *[index] * (1 + 2 * kind.rank)])
    return list(parts.results)[2 + kind.rank :]
