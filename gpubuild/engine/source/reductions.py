"""Split reductions to one number, and of few long rows, into partial ones on many work-items.

As a loop over its results, such a reduction has too few iterations for a device. Here each group of 32
work-items takes a part, of which each work-item takes every 32nd element. Which elements these are depends
on their number alone, so that sums of floating-point numbers have the same order on all devices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from math import inf, nan, prod

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.memrefs import reinterpreted
from gpubuild.engine.ir.query import defining_op, element_type, is_contiguous, operations
from gpubuild.engine.source.parallel_loops import WIDTH, inside_parallel, parallel_loop
from gpubuild.support.frozen import frozen

_LEAST_ROWS = 64  # of elements for each work-item, so that partial results are few
_MOST_GROUPS = (512, 32)  # for one number, whose parts the host joins; for each of several
_MOST_RESULTS = 64  # where there are more, there is a work-item for each
_LEAST_LENGTH = 4096
_EXTREMES = {"arith.maximumf": -inf, "arith.minimumf": inf, "arith.maxnumf": nan, "arith.minnumf": nan}
# What changes no other operand; for signed integers, infinity is the greatest one.
_NEUTRAL = {
    **{"arith.addf": -0.0, "arith.addi": 0, "arith.ori": 0, "arith.xori": 0, "arith.maxui": 0},
    **{"arith.mulf": 1, "arith.muli": 1, "arith.andi": -1, "arith.minui": -1},
    **{"arith.maxsi": -inf, "arith.minsi": inf},
    **_EXTREMES,
}


@frozen
class _Reduction:
    """A reduction whose last loops, from number ``first`` on, are reduced to ``output``.

    ``inputs`` have the numbers of their loops. ``combine`` makes the next result of the last one.
    """

    op: ir.Operation
    inputs: tuple[tuple[ir.Value, tuple[int, ...]], ...]
    output: ir.Value
    first: int
    combine: ir.Operation


def move_inside(function: ir.Operation) -> None:
    """Make the loops of a reduction the innermost ones, in their order.

    Around a parallel loop they would stay on the host, which then launches it in each iteration.
    """
    for op in operations(function, ("linalg.generic",)):
        kinds = op.attributes["iterator_types"]
        is_reduced = ["reduction" in str(kind) for kind in kinds]
        order = sorted(range(len(kinds)), key=lambda number: is_reduced[number])
        if order == list(range(len(kinds))):
            continue
        moved = ir.AffineMap.get(
            len(order), 0, [ir.AffineDimExpr.get(order.index(n)) for n in range(len(order))]
        )
        maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
        op.attributes["iterator_types"] = ir.ArrayAttr.get([kinds[number] for number in order])
        op.attributes["indexing_maps"] = ir.ArrayAttr.get(
            [
                ir.AffineMapAttr.get(ir.AffineMap.get(len(order), 0, [e.compose(moved) for e in one.results]))
                for one in maps
            ]
        )
        for index in operations(op, ("linalg.index",)):
            number = order.index(index.attributes["dim"].value)
            index.attributes["dim"] = ir.IntegerAttr.get(index.attributes["dim"].type, number)


def split(function: ir.Operation) -> None:
    """Split the reductions in a function on memrefs that have few results."""
    for op in operations(function, ("linalg.generic",)):
        found = None if inside_parallel(op) else _found(op)
        if found is not None:
            _split(found)
            op.erase()


def _found(op: ir.Operation) -> _Reduction | None:
    kinds = ["reduction" in str(kind) for kind in op.attributes["iterator_types"]]
    first = kinds.index(True) if True in kinds else len(kinds)
    reduced = tuple(range(first, len(kinds)))
    *inputs, output = op.operands
    combine = _combination(op)
    if combine is None or not reduced or not all(kinds[first:]):
        return None
    if not all(isinstance(value.type, ir.MemRefType) for value in op.operands):
        return None
    maps = [attribute.value for attribute in op.attributes["indexing_maps"]]
    if not all(isinstance(one, ir.AffineDimExpr) for results in maps for one in results.results):
        return None
    loops = [tuple(one.position for one in results.results) for results in maps]
    lengths = []
    for value, used in zip(inputs, loops, strict=False):
        kind, kept = value.type, used[: -len(reduced)]
        if set(used).isdisjoint(reduced):
            continue
        if used[len(kept) :] != reduced or not set(kept).isdisjoint(reduced):
            return None
        if len(reduced) > 1 and not is_contiguous(kind):
            return None
        lengths.append(kind.shape[len(kept) :])
    results = output.type.shape
    if not lengths or loops[-1] != tuple(range(first)) or not _is_worthwhile(results, lengths[0]):
        return None
    return _Reduction(
        op=op,
        inputs=tuple(zip(inputs, loops, strict=False)),
        output=output,
        first=first,
        combine=combine,
    )


def _is_worthwhile(results: Sequence[int], lengths: Sequence[int]) -> bool:
    """Return whether there are few results of many elements; a single one may be of an unknown number."""
    if any(extent < 0 for extent in lengths):
        return not results
    return all(extent > 0 for extent in results) and (
        prod(results) <= _MOST_RESULTS and prod(lengths) >= _LEAST_LENGTH
    )


def _combination(op: ir.Operation) -> ir.Operation | None:
    """Return the operation that makes the next result of the last one and something else, if it is known."""
    *inner, end = (one.operation for one in op.regions[0].blocks[0])
    last = list(op.regions[0].blocks[0].arguments)[-1]
    combine = defining_op(end.operands[0]) if len(end.operands) == 1 else None
    if combine is None or combine not in inner or combine.name not in _NEUTRAL:
        return None
    if any(one.name.partition(".")[0] not in ("arith", "math") for one in inner):
        return None
    is_number = isinstance(last.type, ir.FloatType | ir.IntegerType | ir.IndexType)
    return combine if is_number and [use.owner.operation for use in last.uses] == [combine] else None


def _neutral(name: str, kind: ir.Type) -> float:
    number = _NEUTRAL[name]
    if isinstance(kind, ir.FloatType) or abs(number) != inf:
        return number
    half = 1 << ((64 if isinstance(kind, ir.IndexType) else kind.width) - 1)
    return half - 1 if number > 0 else -half


def _split(found: _Reduction) -> None:
    emit = Emitter(found.op)
    body = found.op.regions[0].blocks[0]
    kind = found.combine.results[0].type
    _remove_flags(found.combine)
    neutral = _neutral(found.combine.name, kind)
    inputs = [(_collapsed(emit, value, used, found.first), used) for value, used in found.inputs]
    length = next(_last_extent(emit, value) for value, used in inputs if found.first in used)
    results = found.output.type.shape
    extents = [emit.constant(extent) for extent in results]
    columns, one = emit.constant(WIDTH), emit.constant(1)
    rows = emit.binary("arith.divsi", length, columns)
    most = emit.constant(_MOST_GROUPS[bool(results)])
    groups = emit.binary("arith.minsi", emit.binary("arith.divsi", rows, emit.constant(_LEAST_ROWS)), most)
    groups = emit.binary("arith.maxsi", groups, one)
    height = emit.binary("arith.divsi", rows, groups)
    whole = emit.binary("arith.muli", groups, height)
    count = emit.binary("arith.muli", groups, columns)
    shape = ir.MemRefType.get([*results, ir.ShapedType.get_dynamic_size()], kind)
    parts = emit.value(
        "memref.alloc", [count], shape, {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0])}
    )

    def element(at: Emitter, row: ir.Value, column: ir.Value) -> ir.Value:
        return at.binary("arith.addi", at.binary("arith.muli", row, columns), column)

    def reduce_part(inside: Emitter, indices: list[ir.Value]) -> None:
        *result, group, column = indices

        def next_of(at: Emitter, row: ir.Value, so_far: ir.Value) -> ir.Value:
            loops = [*result, element(at, row, column)]
            values = [
                at.value(
                    "memref.load",
                    [value, *(loops[n] for n in used if n <= found.first)],
                    element_type(value.type),
                )
                for value, used in inputs
            ]
            return at.inline(body, [*values, so_far])[0]

        start = inside.binary("arith.muli", group, height)
        begin = [inside.constant(neutral, kind)]
        value = inside.loop(
            height, begin, lambda at, row, v: [next_of(at, at.binary("arith.addi", start, row), v[0])]
        )[0]
        # Of the rows behind the parts, of which the last one is shorter, each group has one.
        row = inside.binary("arith.addi", whole, group)
        has_more = inside.compare(Compare.SLT, element(inside, row, column), length)
        choice = inside.op("scf.if", [has_more], [kind], regions=2)
        more, none = (inside.inside(region.blocks.append()) for region in choice.regions)
        more.op("scf.yield", [next_of(more, row, value)], [])
        none.op("scf.yield", [value], [])
        inside.op("memref.store", [*choice.results, parts, *result, element(inside, group, column)], [])

    def join(inside: Emitter, result: list[ir.Value]) -> None:
        def next_of(at: Emitter, number: ir.Value, so_far: list[ir.Value]) -> list[ir.Value]:
            value = at.value("memref.load", [parts, *result, number], kind)
            copy = at.copy(found.combine)
            for index, operand in enumerate(found.combine.operands):
                copy.operands[index] = so_far[0] if operand == list(body.arguments)[-1] else value
            return list(copy.results)

        given = inside.value("memref.load", [found.output, *result], kind)
        inside.op("memref.store", [*inside.loop(count, [given], next_of), found.output, *result], [])

    _parallel(emit, [*extents, groups, columns], reduce_part)
    if extents:
        _parallel(emit, extents, join)
    else:
        join(emit, [])
    emit.op("memref.dealloc", [parts], [])


def _remove_flags(combine: ir.Operation) -> None:
    """Remove flags that hold for the order of the source only."""
    attributes = combine.attributes
    if combine.name in _EXTREMES and "fastmath" in attributes:
        del attributes["fastmath"]  # it may exclude the neutral number
    if "overflowFlags" in attributes:  # partial sums may overflow
        attributes["overflowFlags"] = ir.Attribute.parse("#arith.overflow<none>")


def _collapsed(emit: Emitter, value: ir.Value, used: tuple[int, ...], first: int) -> ir.Value:
    """Return a view of ``value`` in which its dimensions from that of loop ``first`` on are one.

    Not by ``memref.collapse_shape``, which upstream folds into divisions of each index.
    """
    if first not in used or used[-1] == first:
        return value
    kind, kept = value.type, used.index(first)
    extents = [
        emit.extent(value, number) if kind.is_dynamic_dim(number) else emit.constant(kind.shape[number])
        for number in range(kind.rank)
    ]
    whole = prod(kind.shape[kept:])
    if any(extent < 0 for extent in kind.shape[kept:]):
        whole = ir.ShapedType.get_dynamic_size()
    sizes = [*extents[:kept], reduce(partial(emit.binary, "arith.muli"), extents[kept:])]
    strides = [emit.constant(1)]
    for size in reversed(sizes[1:]):
        strides.insert(0, emit.binary("arith.muli", strides[0], size))
    new = ir.MemRefType.get([*kind.shape[:kept], whole], kind.element_type, memory_space=kind.memory_space)
    return reinterpreted(emit, value, new, sizes=sizes, strides=strides)


def _last_extent(emit: Emitter, value: ir.Value) -> ir.Value:
    kind = value.type
    if not kind.is_dynamic_dim(kind.rank - 1):
        return emit.constant(kind.shape[-1])
    return emit.extent(value, kind.rank - 1)


def _parallel(
    emit: Emitter, extents: Sequence[ir.Value], body: Callable[[Emitter, list[ir.Value]], None]
) -> None:
    block = parallel_loop(emit, extents)
    inside = emit.inside(block)
    body(inside, list(block.arguments))
    inside.op("scf.reduce", [], [])
