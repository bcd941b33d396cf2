"""Conditions under which an access, a view or a matrix of a subgroup stays inside its memref.

``gpu.subgroup_mma_*`` address rows by their own ``leadDimension``. Where that is the distance of the
memref's rows, a matrix is a box of the memref; otherwise it is one contiguous part of a memref without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.accesses import (
    Access,
    View,
    dimension,
    is_contiguous,
)
from gpubuild.engine.backends.cpu.sanitizer.ranges import Ranges, Truth
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import element_bytes
from gpubuild.engine.legalize.matrices import LOAD, STORE
from gpubuild.engine.legalize.matrix_ops import MatrixType


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """``count`` elements of one dimension from ``first`` on, ``step`` apart; the dimension has ``size``.

    A ``count`` that is a value may be zero, and then ``first`` may be anything.
    """

    dimension: int
    first: ir.Value
    size: ir.Value
    count: ir.Value | int = 1
    step: ir.Value | int = 1


def access_extents(access: Access, emit: Emitter) -> list[Extent]:
    """What an access needs of each dimension."""
    extents = []
    for number, index in enumerate(access.indices):
        count = 1
        if number == len(access.indices) - 1:
            if access.masked or access.may_be_partial:
                continue
            count = access.count
        size = dimension(emit, access.memory, number)
        extents.append(Extent(dimension=number, first=index, size=size, count=count))
    return extents


def view_extents(view: View, emit: Emitter) -> list[Extent]:
    """What a view needs of each dimension of its source; ``emit`` points behind the op that makes it."""
    if view.op.name != "memref.subview":
        return _SIZES[view.op.name](view, emit)
    parts = {name: _mixed(view.op, f"static_{name}", n + 1, emit) for n, name in enumerate(_PARTS)}
    extents = []
    for number, first in enumerate(parts["offsets"]):
        extents.append(
            Extent(
                dimension=number,
                first=first,
                size=dimension(emit, view.source, number),
                count=parts["sizes"][number],
                step=parts["strides"][number],
            )
        )
    return extents


_PARTS = ("offsets", "sizes", "strides")


def _mixed(op: ir.Operation, name: str, segment: int, emit: Emitter) -> list[ir.Value]:
    """Offsets, sizes or strides, each an attribute or an operand."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    start = sum(segments[:segment])
    dynamic = iter(list(op.operands)[start : start + segments[segment]])
    marker = ir.ShapedType.get_dynamic_size()
    return [
        next(dynamic) if value == marker else emit.constant(value)
        for value in ir.DenseI64ArrayAttr(op.attributes[name])
    ]


def _bytes_of_view(view: View, emit: Emitter) -> list[Extent]:
    kind = ir.MemRefType(view.op.results[0].type)
    bytes_each = element_bytes(kind.element_type)
    if bytes_each is None:
        return []
    shift, sizes = view.op.operands[1], iter(list(view.op.operands)[2:])
    counts = [emit.constant(bytes_each)]
    for number in range(kind.rank):
        counts.append(
            next(sizes) if kind.is_dynamic_dim(number) else emit.constant(kind.get_dim_size(number))
        )
    return _products(emit, 0, shift, counts, dimension(emit, view.source, 0))


def _cast(view: View, emit: Emitter) -> list[Extent]:
    """Sizes that only the type of the result has."""
    kind, claimed = ir.MemRefType(view.source.type), ir.MemRefType(view.op.results[0].type)
    return [
        Extent(
            dimension=number,
            first=emit.constant(0),
            size=dimension(emit, view.source, number),
            count=claimed.get_dim_size(number),
        )
        for number in range(kind.rank)
        if kind.is_dynamic_dim(number) and not claimed.is_dynamic_dim(number)
    ]


def _reshape(view: View, emit: Emitter) -> list[Extent]:
    """No more elements than the source has."""
    kind, claimed = ir.MemRefType(view.source.type), ir.MemRefType(view.op.results[0].type)
    counts = [dimension(emit, view.op.results[0], number) for number in range(claimed.rank)]
    size = emit.constant(1)
    for number in range(kind.rank):
        size = emit.binary("arith.muli", size, dimension(emit, view.source, number))
    return _products(emit, 0, emit.constant(0), counts or [emit.constant(1)], size)


_SIZES = {
    "memref.view": _bytes_of_view,
    "memref.cast": _cast,
    "memref.reshape": _reshape,
}


def _products(
    emit: Emitter, number: int, first: ir.Value, counts: Sequence[ir.Value], size: ir.Value
) -> list[Extent]:
    """Extents of each partial product: the product of all counts may overflow to a small number."""
    zero = emit.constant(0)
    empty = emit.compare(Compare.EQ, counts[0], zero)
    for count in counts[1:]:
        empty = emit.binary("arith.ori", empty, emit.compare(Compare.EQ, count, zero))
    extents = []
    total = emit.constant(1)
    for count in counts:
        total = emit.binary("arith.muli", total, count)
        for claimed in (count, total):
            needed = emit.select(empty, zero, claimed)
            extents.append(Extent(dimension=number, first=first, size=size, count=needed))
    return extents


def within(emit: Emitter, extent: Extent) -> ir.Value:
    """Whether the extent lies in its dimension. Negative indices are large ones: all is unsigned."""
    if extent.count == 1 and extent.step == 1:
        return emit.compare(Compare.ULT, extent.first, extent.size)
    if isinstance(extent.count, int):
        count = emit.constant(extent.count)
        room = emit.binary("arith.subi", extent.size, count)
        fits = emit.compare(Compare.ULE, count, extent.size)
        return emit.binary("arith.andi", fits, emit.compare(Compare.ULE, extent.first, room))
    step = extent.step if isinstance(extent.step, ir.Value) else emit.constant(extent.step)
    steps = emit.binary("arith.subi", extent.count, emit.constant(1))
    last = emit.binary("arith.addi", extent.first, emit.binary("arith.muli", steps, step))
    starts = emit.compare(Compare.ULT, extent.first, extent.size)
    inside = emit.binary("arith.andi", starts, emit.compare(Compare.ULT, last, extent.size))
    # The last index may overflow to a small one, so no step may leave the dimension.
    fits = emit.compare(Compare.ULE, extent.count, extent.size)
    if isinstance(extent.step, ir.Value):
        stays = emit.compare(Compare.EQ, step, emit.constant(0))
        fits = emit.binary("arith.ori", fits, stays)
        second = emit.compare(Compare.ULT, emit.binary("arith.addi", extent.first, step), extent.size)
        alone = emit.compare(Compare.EQ, extent.count, emit.constant(1))
        fits = emit.binary("arith.andi", fits, emit.binary("arith.ori", alone, second))
    inside = emit.binary("arith.andi", inside, fits)
    empty = emit.compare(Compare.EQ, extent.count, emit.constant(0))
    return emit.select(empty, empty, inside)


def both(emit: Emitter, conditions: Sequence[ir.Value]) -> ir.Value | None:
    """Whether all hold; ``None`` when there are none."""
    if not conditions:
        return None
    result = conditions[0]
    for condition in conditions[1:]:
        result = emit.binary("arith.andi", result, condition)
    return result


MATRIX_ACCESSES = frozenset({LOAD, STORE})


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
        matches = emit.compare(Compare.EQ, _strides(emit, memory)[-2], emit.constant(lead))
        counts = [emit.select(matches, emit.constant(n), emit.constant(1)) for n in (rows, columns)]
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


def stays_inside(op: ir.Operation, access: Access, ranges: Ranges) -> list[Truth] | None:
    """What must hold for the indices that are checked to be in bounds for all work-items."""
    facts = ranges.facts_at(op)
    conditions: list[Truth] = []
    for number, index in enumerate(access.indices):
        count = 1
        if number == len(access.indices) - 1:
            if access.masked or access.may_be_partial:
                continue
            count = access.count
        range_, size = ranges.of(index, facts), ranges.size(access.memory, number)
        if range_ is None or size is None:
            return None
        n = ranges.numbers
        conditions += (*range_.given, *size.given, n.at_most(0, range_.low))
        conditions.append(n.less(n.add(range_.high, count - 1), size.low))
    return conditions
