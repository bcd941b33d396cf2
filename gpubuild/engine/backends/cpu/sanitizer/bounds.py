"""Conditions under which an access, a view or a matrix of a subgroup stays inside its memref.

``gpu.subgroup_mma_*`` address rows by their own ``leadDimension``. If that is the memref's row stride, a
matrix is a box of the memref; otherwise it is one contiguous part of a memref without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu.sanitizer.accesses import Access, dimension, is_contiguous, layout
from gpubuild.engine.backends.cpu.sanitizer.ranges import Ranges, Truth
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import element_bytes
from gpubuild.engine.legalize.matrices import LOAD, STORE
from gpubuild.engine.legalize.matrix_ops import MatrixType
from gpubuild.support.frozen import frozen

MATRIX_ACCESSES = frozenset({LOAD, STORE})
_VIEWS = frozenset({"memref.subview", "memref.view", "memref.cast", "memref.reshape"})


@frozen
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
    """Return the elements of each dimension that an access needs."""
    return [
        Extent(dimension=number, first=index, size=dimension(emit, access.memory, number), count=count)
        for number, index, count in access.checked_dimensions()
    ]


def is_checked_view(op: ir.Operation) -> bool:
    """Return whether ``op`` makes a view of a memref that can leave its source."""
    return op.name in _VIEWS and all(
        isinstance(value.type, ir.MemRefType) for value in (op.results[0], op.operands[0])
    )


def view_extents(op: ir.Operation, emit: Emitter) -> list[Extent]:
    """Return the elements of each dimension of its source that a view needs; ``emit`` points behind it."""
    source, result = op.operands[0], op.results[0]
    kind, claimed = ir.MemRefType(source.type), ir.MemRefType(result.type)
    sizes = [dimension(emit, source, number) for number in range(kind.rank)]
    if op.name == "memref.subview":
        names = ("offsets", "sizes", "strides")
        parts = [_mixed(op, f"static_{name}", n + 1, emit) for n, name in enumerate(names)]
        return [
            Extent(dimension=number, first=first, size=size, count=count, step=step)
            for number, (first, count, step, size) in enumerate(zip(*parts, sizes, strict=True))
        ]
    if op.name == "memref.cast":  # sizes that only the type of the result has
        return [
            Extent(dimension=n, first=emit.constant(0), size=size, count=claimed.get_dim_size(n))
            for n, size in enumerate(sizes)
            if kind.is_dynamic_dim(n) and not claimed.is_dynamic_dim(n)
        ]
    counts = [dimension(emit, result, number) for number in range(claimed.rank)]
    if op.name == "memref.view":
        bytes_each = element_bytes(claimed.element_type)
        if bytes_each is None:
            return []
        return _products(emit, op.operands[1], [emit.constant(bytes_each), *counts], sizes[0])
    elements = emit.constant(1)  # a reshape: no more elements than the source has
    for size in sizes:
        elements = emit.binary("arith.muli", elements, size)
    return _products(emit, emit.constant(0), counts or [emit.constant(1)], elements)


def _mixed(op: ir.Operation, name: str, segment: int, emit: Emitter) -> list[ir.Value]:
    """Return offsets, sizes or strides, each an attribute or an operand."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    start = sum(segments[:segment])
    dynamic = iter(list(op.operands)[start : start + segments[segment]])
    marker = ir.ShapedType.get_dynamic_size()
    return [
        next(dynamic) if value == marker else emit.constant(value)
        for value in ir.DenseI64ArrayAttr(op.attributes[name])
    ]


def _products(emit: Emitter, first: ir.Value, counts: Sequence[ir.Value], size: ir.Value) -> list[Extent]:
    """Return an extent for each partial product: the product of all counts may overflow to a small number."""
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
            extents.append(Extent(dimension=0, first=first, size=size, count=needed))
    return extents


def within(emit: Emitter, extent: Extent) -> ir.Value:
    """Emit whether the extent lies in its dimension. Unsigned: negative indices are large numbers."""
    first, size = extent.first, extent.size
    if extent.count == 1 and extent.step == 1:
        return emit.compare(Compare.ULT, first, size)
    count = emit.constant(extent.count) if isinstance(extent.count, int) else extent.count
    fits = emit.compare(Compare.ULE, count, size)
    if isinstance(extent.step, int):
        room = emit.binary("arith.subi", size, count)
        inside = emit.binary("arith.andi", fits, emit.compare(Compare.ULE, first, room))
    else:
        steps = emit.binary("arith.subi", count, emit.constant(1))
        last = emit.binary("arith.addi", first, emit.binary("arith.muli", steps, extent.step))
        starts = emit.compare(Compare.ULT, first, size)
        inside = emit.binary("arith.andi", starts, emit.compare(Compare.ULT, last, size))
        # The last index may overflow to a small one, so no step may leave the dimension.
        stays = emit.compare(Compare.EQ, extent.step, emit.constant(0))
        fits = emit.binary("arith.ori", fits, stays)
        second = emit.compare(Compare.ULT, emit.binary("arith.addi", first, extent.step), size)
        alone = emit.compare(Compare.EQ, count, emit.constant(1))
        fits = emit.binary("arith.andi", fits, emit.binary("arith.ori", alone, second))
        inside = emit.binary("arith.andi", inside, fits)
    if isinstance(extent.count, int):
        return inside
    return emit.binary("arith.ori", emit.compare(Compare.EQ, count, emit.constant(0)), inside)


def both(emit: Emitter, conditions: Sequence[ir.Value]) -> ir.Value | None:
    """Emit whether all hold; ``None`` when there are none."""
    result: ir.Value | None = None
    for condition in conditions:
        result = condition if result is None else emit.binary("arith.andi", result, condition)
    return result


def matrix_extents(op: ir.Operation, emit: Emitter) -> list[Extent]:
    """Return what ``op``, a load or store of a matrix, needs; nothing if its memory consists of vectors."""
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
    sizes = [dimension(emit, memory, number) for number in range(kind.rank)]
    strides = kind.get_strides_and_offset()[0]
    if len(indices) == 1 or (is_contiguous(kind) and strides[-2] != lead):
        first, elements = emit.constant(0), emit.constant(1)
        for index, size in zip(indices, sizes, strict=True):
            first = emit.binary("arith.addi", emit.binary("arith.muli", first, size), index)
            elements = emit.binary("arith.muli", elements, size)
        return [Extent(dimension=0, first=first, size=elements, count=(rows - 1) * lead + columns)]
    counts: list[ir.Value | int] = [rows, columns]
    if strides[-2] != lead:
        # With another row stride only the first element is known to be needed.
        _, _, actual = layout(emit, memory)
        matches = emit.compare(Compare.EQ, actual[-2], emit.constant(lead))
        counts = [emit.select(matches, emit.constant(n), emit.constant(1)) for n in (rows, columns)]
    counts = [1] * (kind.rank - 2) + counts
    return [
        Extent(dimension=number, first=index, size=size, count=count)
        for number, (index, size, count) in enumerate(zip(indices, sizes, counts, strict=True))
    ]


def stays_inside(op: ir.Operation, access: Access, ranges: Ranges) -> list[Truth] | None:
    """Return the conditions under which the checked indices are in bounds for all work-items."""
    facts = ranges.facts_at(op)
    conditions: list[Truth] = []
    for number, index, count in access.checked_dimensions():
        range_, size = ranges.of(index, facts), ranges.size(access.memory, number)
        if range_ is None or size is None:
            return None
        n = ranges.numbers
        conditions += (*range_.given, *size.given, n.at_most(0, range_.low))
        conditions.append(n.less(n.add(range_.high, count - 1), size.low))
    return conditions
