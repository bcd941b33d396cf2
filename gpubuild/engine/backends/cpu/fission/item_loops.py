"""Item loops: loop nests over the work-items of a workgroup, and the structured ops they are made of.

Chunks: the work-items of a workgroup in pieces of known shape, whose loops LLVM turns into vectors.

A piece is 64 work-items in x, or 4 rows of 16; what is left over goes in rows of less than 64. Extents
of workgroups are known when a kernel runs only; those of pieces are known when it is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import terminator
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
    """A nest under construction; ``emit`` makes ops for one work-item, in its innermost loop."""

    extents: Extents
    ids: tuple[ir.Value, ...]
    linear: ir.Value  # of the work-item in its workgroup, x fastest
    end: ir.Operation  # the terminator of the innermost loop
    values: dict[ir.Value, ir.Value] = field(default_factory=dict)  # the kernel's value → the one here

    @property
    def emit(self) -> Emitter:
        """Puts ops at the end of what the work-item does."""
        return Emitter(self.end)

    def fetch(self, value: ir.Value, emit: Emitter) -> ir.Value | None:
        """Return the kernel's ``value`` for the work-item, if these loops keep or compute it."""
        return None

    @classmethod
    def open(cls, emit: Emitter, extents: Extents) -> ItemLoops:
        """Open a nest with nothing in it yet, z outermost."""
        ids: list[ir.Value] = []
        for size in reversed(extents.block_dim):
            loop = for_loop(emit, extents.zero, size, extents.one)
            ids.insert(0, loop.regions[0].blocks[0].arguments[0])
            end = loop.regions[0].blocks[0].operations[0].operation
            emit = Emitter(end)
        return cls.at(emit, extents, tuple(ids), end)

    @classmethod
    def at(cls, emit: Emitter, extents: Extents, ids: tuple[ir.Value, ...], end: ir.Operation) -> ItemLoops:
        """Return a nest inside existing loops; ``ids`` are the work-item's x, y and z."""
        rows = emit.binary(
            "arith.addi",
            emit.binary("arith.muli", ids[2], extents.plane),
            emit.binary("arith.muli", ids[1], extents.block_dim[0]),
        )
        return cls(extents=extents, ids=ids, linear=emit.binary("arith.addi", rows, ids[0]), end=end)

    def only_if(self, condition: ir.Value) -> None:
        """Limit what follows to work-items for which ``condition`` is true."""
        branch = if_op(self.emit, condition, [], 1)
        self.end = branch.regions[0].blocks[0].operations[0].operation

    def identity(self, op: ir.Operation, emit: Emitter) -> ir.Value:
        """Return what ``op``, one of ITEM_IDS, is for this work-item."""
        if op.name == "gpu.lane_id":
            return emit.binary("arith.andi", self.linear, emit.constant(image_layout.SUBGROUP - 1))
        axis = _AXES.index(str(op.attributes["dimension"]).removeprefix("#gpu<dim ")[0])
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
    """Create an ``scf.for`` whose body only passes on what it carries: its terminator is to be changed."""
    kinds = [value.type for value in carried]
    loop = emit.op("scf.for", [lower, upper, step, *carried], kinds, attributes, regions=1)
    index = ir.IndexType.get()
    places = [loop.location] * (1 + len(kinds))
    body = loop.regions[0].blocks.append(index, *kinds, arg_locs=places)
    _yield(body, list(body.arguments)[1:], loop.location)
    return loop


def if_op(emit: Emitter, condition: ir.Value, results: Sequence[ir.Type], branches: int) -> ir.Operation:
    """Create an ``scf.if`` with empty branches; their terminators still lack operands for ``results``."""
    op = emit.op("scf.if", [condition], results, regions=2)
    for region in list(op.regions)[:branches]:
        _yield(region.blocks.append(), [], op.location)
    return op


def set_operands(end: ir.Operation, values: Sequence[ir.Value]) -> ir.Operation:
    """Replace the terminator ``end`` by one with ``values``."""
    made = Emitter(end).op(end.name, values, [])
    end.erase()
    return made


def _yield(block: ir.Block, values: Sequence[ir.Value], location: ir.Location) -> None:
    ir.Operation.create("scf.yield", operands=list(values), loc=location, ip=ir.InsertionPoint(block))


CHUNK_ITEMS = 64  # work-items of a chunk, at most
_WIDTH, _ROWS = 16, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """``rows`` of ``width`` work-items from ``origin`` on; ``end`` is where the code for them goes."""

    extents: Extents
    origin: tuple[ir.Value, ir.Value, ir.Value]
    width: ir.Value
    rows: int
    end: ir.Operation

    def open(self, emit: Emitter) -> tuple[ItemLoops, ir.Value, ir.Value]:
        """Open loops over the chunk; return them, the work-item's number in it, and that in its row."""
        zero, one = self.extents.zero, self.extents.one
        row = zero
        if self.rows > 1:
            row, end = _loop(emit, zero, emit.constant(self.rows), one)
            emit = Emitter(end)
        column, end = _loop(emit, zero, self.width, one)
        emit = Emitter(end)
        x, y, z = self.origin
        ids = (emit.binary("arith.addi", x, column), emit.binary("arith.addi", y, row), z)
        lane = emit.binary("arith.addi", emit.binary("arith.muli", row, self.width), column)
        rows = emit.binary(
            "arith.addi",
            emit.binary("arith.muli", ids[2], self.extents.plane),
            emit.binary("arith.muli", ids[1], self.extents.block_dim[0]),
        )
        linear = emit.binary("arith.addi", rows, ids[0])
        return ItemLoops(extents=self.extents, ids=ids, linear=linear, end=end), lane, column


def open_chunks(emit: Emitter, extents: Extents) -> Iterator[Chunk]:
    """Open loops over all chunks of a workgroup, for each shape; the code of one goes to its ``end``."""
    zero, one = extents.zero, extents.one
    x, y, depth = extents.block_dim
    z, end = _loop(emit, zero, depth, one)
    plane = Emitter(end)
    wide = _multiple(plane, x, CHUNK_ITEMS)
    narrow = _multiple(plane, x, _WIDTH)
    rows = _multiple(plane, y, _ROWS)

    at_y, end = _loop(plane, zero, y, one)
    row = Emitter(end)
    width = row.constant(CHUNK_ITEMS)
    at_x, end = _loop(row, zero, wide, width)
    yield Chunk(extents=extents, origin=(at_x, at_y, z), width=width, rows=1, end=end)

    at_y, end = _loop(plane, zero, rows, plane.constant(_ROWS))
    row = Emitter(end)
    width = row.constant(_WIDTH)
    at_x, end = _loop(row, wide, narrow, width)
    yield Chunk(extents=extents, origin=(at_x, at_y, z), width=width, rows=_ROWS, end=end)

    at_y, end = _loop(plane, zero, y, one)
    row = Emitter(end)
    start = row.select(row.compare(Compare.SLT, at_y, rows), narrow, wide)
    width = row.binary("arith.subi", x, start)
    at_x, end = _loop(row, start, x, row.binary("arith.maxsi", width, one))  # once, or not at all
    yield Chunk(extents=extents, origin=(at_x, at_y, z), width=width, rows=1, end=end)


def _multiple(emit: Emitter, value: ir.Value, of: int) -> ir.Value:
    """Return the largest multiple of a power of two that is not above ``value``."""
    return emit.binary("arith.andi", value, emit.constant(-of))


def _loop(emit: Emitter, lower: ir.Value, upper: ir.Value, step: ir.Value) -> tuple[ir.Value, ir.Operation]:
    """Create a loop; return its counter and the end of its body."""
    body = for_loop(emit, lower, upper, step).regions[0].blocks[0]
    return body.arguments[0], terminator(body)
