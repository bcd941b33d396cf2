"""Loop nests over the work-items of a workgroup, or over chunks of it, and the operations they consist of.

A chunk is 64 work-items in x, or 4 rows of 16; the rest is in smaller ones. The extents of workgroups are
known at run time only, those of whole chunks at compile time, so that LLVM makes vectors of their loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import axis_of, terminator
from gpubuild.engine.ir.builder import Compare, Emitter

_AXES = "xyz"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extents:
    """Values that are computed once per workgroup, at the entry of the function."""

    zero: ir.Value
    one: ir.Value
    block_id: tuple[ir.Value, ...]
    block_dim: tuple[ir.Value, ...]
    plane: ir.Value  # work-items in an x-y plane
    items: ir.Value  # work-items in the workgroup

    @classmethod
    def emit(cls, emit: Emitter) -> Extents:
        """Compute them where ``emit`` points."""
        sizes = tuple(emit.dimension("block_dim", axis) for axis in _AXES)
        plane = emit.binary("arith.muli", sizes[0], sizes[1])
        return cls(
            zero=emit.constant(0),
            one=emit.constant(1),
            block_id=tuple(emit.dimension("block_id", axis) for axis in _AXES),
            block_dim=sizes,
            plane=plane,
            items=emit.binary("arith.muli", plane, sizes[2]),
        )


@dataclass(slots=True, kw_only=True)
class ItemLoops:
    """A nest of loops under construction."""

    extents: Extents
    ids: tuple[ir.Value, ...]
    linear: ir.Value  # of the work-item in its workgroup, x fastest
    end: ir.Operation  # the terminator of the innermost loop
    values: dict[ir.Value, ir.Value] = field(default_factory=dict)  # the kernel's values → the work-item's

    @property
    def emit(self) -> Emitter:
        """Return an emitter at the end of the innermost loop."""
        return Emitter(self.end)

    def fetch(self, value: ir.Value, emit: Emitter) -> ir.Value | None:
        """Return the kernel's ``value`` for the work-item, if these loops keep or compute it."""
        return None

    @classmethod
    def open(cls, emit: Emitter, extents: Extents) -> ItemLoops:
        """Create an empty nest, z outermost."""
        x, y, z = extents.block_dim
        at_z, end = open_loop(emit, extents.zero, z, extents.one)
        at_y, end = open_loop(Emitter(end), extents.zero, y, extents.one)
        at_x, end = open_loop(Emitter(end), extents.zero, x, extents.one)
        return cls.at(extents, (at_x, at_y, at_z), end)

    @classmethod
    def at(cls, extents: Extents, ids: tuple[ir.Value, ...], end: ir.Operation) -> ItemLoops:
        """Return a nest of existing loops, which ``end`` ends; ``ids`` are the work-item's x, y and z."""
        emit = Emitter(end)
        rows = emit.binary(
            "arith.addi",
            emit.binary("arith.muli", ids[2], extents.plane),
            emit.binary("arith.muli", ids[1], extents.block_dim[0]),
        )
        return cls(extents=extents, ids=ids, linear=emit.binary("arith.addi", rows, ids[0]), end=end)

    def only_if(self, condition: ir.Value) -> None:
        """Run the following code for work-items for which ``condition`` is true."""
        self.end = if_then(self.emit, condition)

    def identity(self, op: ir.Operation, emit: Emitter) -> ir.Value:
        """Return what ``op``, one of ITEM_IDS, is for this work-item."""
        if op.name == "gpu.lane_id":
            return emit.binary("arith.andi", self.linear, emit.constant(image_layout.SUBGROUP - 1))
        axis = _AXES.index(axis_of(op))
        if op.name == "gpu.thread_id":
            return self.ids[axis]
        before = emit.binary("arith.muli", self.extents.block_id[axis], self.extents.block_dim[axis])
        return emit.binary("arith.addi", before, self.ids[axis])


def for_loop(
    emit: Emitter,
    lower: ir.Value,
    upper: ir.Value,
    step: ir.Value,
    carried: Sequence[ir.Value] = (),
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """Create an ``scf.for`` whose body yields its arguments; callers change the terminator."""
    kinds = [value.type for value in carried]
    loop = emit.op("scf.for", [lower, upper, step, *carried], kinds, attributes, regions=1)
    locations = [loop.location] * (1 + len(kinds))
    body = loop.regions[0].blocks.append(ir.IndexType.get(), *kinds, arg_locs=locations)
    _yield(body, list(body.arguments)[1:], loop.location)
    return loop


def open_loop(
    emit: Emitter, lower: ir.Value, upper: ir.Value, step: ir.Value
) -> tuple[ir.Value, ir.Operation]:
    """Create a loop; return its counter and the end of its body."""
    body = for_loop(emit, lower, upper, step).regions[0].blocks[0]
    return body.arguments[0], terminator(body)


def if_op(emit: Emitter, condition: ir.Value, results: Sequence[ir.Type], branches: int) -> ir.Operation:
    """Create an ``scf.if`` with empty branches; callers give their terminators operands for ``results``."""
    op = emit.op("scf.if", [condition], results, regions=2)
    for region in list(op.regions)[:branches]:
        _yield(region.blocks.append(), [], op.location)
    return op


def if_then(emit: Emitter, condition: ir.Value) -> ir.Operation:
    """Create an ``scf.if`` without ``else``; return the end of its branch."""
    return terminator(if_op(emit, condition, [], 1).regions[0].blocks[0])


def if_else(emit: Emitter, condition: ir.Value) -> list[ir.Operation]:
    """Create an ``scf.if`` without results; return the ends of its two branches."""
    return [terminator(region.blocks[0]) for region in if_op(emit, condition, [], 2).regions]


def set_operands(end: ir.Operation, values: Sequence[ir.Value]) -> ir.Operation:
    """Replace the terminator ``end`` by one with ``values``."""
    made = Emitter(end).op(end.name, values, [])
    end.erase()
    return made


def _yield(block: ir.Block, values: Sequence[ir.Value], location: ir.Location) -> None:
    ir.Operation.create("scf.yield", operands=list(values), loc=location, ip=ir.InsertionPoint(block))


LANES = 16  # work-items of a strip, whose values are a vector
CHUNK_ITEMS = 64  # the most work-items of a chunk
_ROWS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """``rows`` of ``columns`` work-items from ``origin`` on; their code is created before ``end``.

    There are work-items in the first ``width`` columns and ``height`` rows, which are all if it ``is_whole``.
    If it ``is_wide``, they fill a strip, and each strip that would reach behind the last one ends there.
    """

    extents: Extents
    origin: tuple[ir.Value, ir.Value, ir.Value]
    columns: int
    rows: int
    width: ir.Value
    height: ir.Value
    is_whole: bool
    end: ir.Operation
    is_wide: bool = False

    def open(self, emit: Emitter) -> tuple[ItemLoops, ir.Value, ir.Value]:
        """Create loops over the chunk; return them, the work-item's number in the chunk, and in its row."""
        zero, one = self.extents.zero, self.extents.one
        row = zero
        if self.rows > 1:
            row, end = open_loop(emit, zero, self.height, one)
            emit = Emitter(end)
        column, end = open_loop(emit, zero, self.width, one)
        emit = Emitter(end)
        x, y, z = self.origin
        ids = (emit.binary("arith.addi", x, column), emit.binary("arith.addi", y, row), z)
        first = emit.binary("arith.muli", row, emit.constant(self.columns))
        return ItemLoops.at(self.extents, ids, end), emit.binary("arith.addi", first, column), column

    def offset(self, axis: int, number: int, emit: Emitter) -> ir.Value:
        """Return ``number``, of a column (axis 0) or row (1), or the last possible one before it."""
        at = emit.constant(number)
        if self.is_whole or not number:
            return at
        size = (self.width, self.height)[axis]
        count = emit.constant(LANES) if self.is_wide and axis == 0 else self.extents.one
        return emit.binary("arith.minsi", at, emit.binary("arith.subi", size, count))


def open_chunks(emit: Emitter, extents: Extents, *, in_vectors: bool) -> Iterator[Chunk]:
    """Create loops over the chunks of a workgroup, and return a chunk for each shape.

    The rest is in parts of chunks of 4 rows where loops are built ``in_vectors``, else in parts of rows.
    """
    zero, one = extents.zero, extents.one
    x, y, depth = extents.block_dim
    z, end = open_loop(emit, zero, depth, one)
    plane = Emitter(end)
    wide = _multiple(plane, x, CHUNK_ITEMS)
    narrow = _multiple(plane, x, LANES)
    rows = _multiple(plane, y, _ROWS)

    for columns, height, x_range, y_end in (
        (CHUNK_ITEMS, 1, (zero, wide), y),
        (LANES, _ROWS, (wide, narrow), rows),
    ):
        at_y, end = open_loop(plane, zero, y_end, plane.constant(height))
        at_x, end = open_loop(Emitter(end), *x_range, Emitter(end).constant(columns))
        inside = Emitter(end)
        yield Chunk(
            extents=extents,
            origin=(at_x, at_y, z),
            columns=columns,
            rows=height,
            width=inside.constant(columns),
            height=inside.constant(height),
            is_whole=True,
            end=end,
        )

    columns, height = (LANES, _ROWS) if in_vectors else (CHUNK_ITEMS, 1)
    at_y, end = open_loop(plane, zero, y, plane.constant(height))
    row = Emitter(end)
    start = row.select(row.compare(Compare.SLT, at_y, rows), narrow, wide)
    at_x, end = open_loop(row, start, x, row.constant(columns))
    inside = Emitter(end)
    sizes = [
        inside.binary("arith.minsi", inside.binary("arith.subi", size, at), inside.constant(most))
        for size, at, most in ((x, at_x, columns), (y, at_y, height))
    ]
    yield Chunk(
        extents=extents,
        origin=(at_x, at_y, z),
        columns=columns,
        rows=height,
        width=sizes[0],
        height=sizes[1],
        is_whole=False,
        end=end,
    )


def _multiple(emit: Emitter, value: ir.Value, of: int) -> ir.Value:
    """Return the largest multiple of a power of two that is not above ``value``."""
    return emit.binary("arith.andi", value, emit.constant(-of))
