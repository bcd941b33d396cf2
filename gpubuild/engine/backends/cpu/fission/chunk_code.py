"""Build the code of a chunk of work-items between barriers, with loops of loop_interchange around them.

The code is cut at these loops like a kernel at its barriers: the parts become loops over the work-items of
the chunk, and values that are needed across a cut go through an array with an element for each work-item.
As chunks have a fixed size, LLVM keeps these arrays in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from mlir import ir

from gpubuild.engine.backends.cpu.fission.context_arrays import load, store
from gpubuild.engine.backends.cpu.fission.guard_to_loop_bounds import count_below
from gpubuild.engine.backends.cpu.fission.item_code import ItemCode, copy_with, is_integer
from gpubuild.engine.backends.cpu.fission.item_loops import (
    CHUNK_ITEMS,
    LANES,
    Chunk,
    ItemLoops,
    if_else,
    open_loop,
)
from gpubuild.engine.backends.cpu.fission.loop_interchange import UPPER_BOUNDS, Interchange
from gpubuild.engine.backends.cpu.fission.uniformity import (
    ITEM_IDS,
    POSITIONS,
    axis_of,
    body_operations,
    is_pure,
    is_variable,
    nested,
    terminator,
)
from gpubuild.engine.backends.cpu.fission.vector_loops import VectorLoop
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import VIEWS, defining_op

_LEAST_COLUMNS = 4  # of a part of a chunk; work-items of fewer are faster one by one
_MOST = 12  # operations that are repeated rather than kept in an array
_DIALECTS = frozenset({"arith", "index"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guard:
    """Runs code for work-items whose counter, ``counter`` plus their column, is below ``upper``."""

    counter: ir.Value
    upper: ir.Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spot:
    """Where code of the chunk is created: by ``emit``, inside ``guards`` for each work-item."""

    emit: Emitter
    guards: tuple[_Guard, ...] = ()

    def before(self, end: ir.Operation) -> _Spot:
        """Return the spot before ``end``, with the same guards."""
        return _Spot(emit=Emitter(end), guards=self.guards)


@dataclass(slots=True, kw_only=True)
class ChunkLoops(ItemLoops):
    """Loops over a chunk: ``number`` counts its work-items, ``column`` those of a row."""

    chunk: ChunkCode
    number: ir.Value
    column: ir.Value

    def fetch(self, value: ir.Value, emit: Emitter) -> ir.Value | None:
        """Return ``value`` for the work-item, if the chunk keeps or computes it."""
        return self.chunk.fetch(value, self, emit)


@dataclass(slots=True, kw_only=True)
class ChunkCode:
    """The code of one chunk under construction.

    ``inside`` are the operations of the whole segment between barriers; values used outside them are kept
    for each work-item of the workgroup. ``chunk_arrays`` keep values used in other loops of the chunk.
    """

    code: ItemCode
    interchange: Interchange
    chunk_arrays: dict[ir.Value, ir.Value]
    chunk: Chunk
    inside: set[ir.Operation]
    counters: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def run(self, ops: Sequence[ir.Operation], wanted: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        """Build ``ops``, then keep the ``wanted`` values in arrays of the workgroup."""
        spot = _Spot(emit=Emitter(self.chunk.end))
        self._fill(self._cut(ops, spot), spot, outer=wanted)

    def fetch(self, value: ir.Value, loops: ChunkLoops, emit: Emitter) -> ir.Value | None:
        """Return ``value`` for the loops' work-item, if the chunk keeps or computes it."""
        if value in self.counters:
            counter = self.counters[value]
            strided = self.interchange.loops[value.owner.owner.operation]
            return emit.binary("arith.addi", counter, loops.column) if strided else counter
        array = self.chunk_arrays.get(value)
        if array is not None:
            return load(value.type, array, loops, emit, at=loops.number)
        op = defining_op(value)
        if op is None or not self._cheap(value):
            return None
        if op.name in ITEM_IDS:
            return loops.identity(op, emit)
        number = list(op.results).index(value)
        return self.code.copy(op, loops, emit).results[number]

    # ---- cutting ----

    def _cut(self, ops: Sequence[ir.Operation], spot: _Spot) -> list[ir.Operation]:
        """Build ``ops`` up to the last interchanged loop; return the rest."""
        pending: list[ir.Operation] = []
        for op in ops:
            if op in self.interchange.guards:
                self._fill(pending, spot)
                pending = []
                self._guarded(op, spot)
            elif op in self.interchange.loops:
                arguments = list(op.regions[0].blocks[0].arguments)[1:]
                carried = [self._array(argument) for argument in arguments]
                vectors = self._vectors(op, spot)
                entering = list(zip(list(op.operands)[3:], carried, strict=True))
                if vectors:
                    entering += [pair for pair in vectors.arrays.items() if pair[0] not in self.chunk_arrays]
                self._fill(pending, spot, op, entering)
                pending = []
                self.chunk_arrays.update(zip(op.results, carried, strict=True))
                if vectors:
                    vectors.build(spot.emit, carried)
                else:
                    self._loop(op, spot)
                # Results that are needed behind the next barrier go to arrays of the workgroup.
                outer = [(r, self.code.arrays.of(r)) for r in op.results if self._leaves(r)]
                self._fill((), spot, outer=outer)
            else:
                pending.append(op)
        return pending

    def _vectors(self, op: ir.Operation, spot: _Spot) -> VectorLoop | None:
        """Return how to build a loop in vectors, if that is possible here."""
        if op not in self.interchange.vectors or spot.guards:
            return None
        found = VectorLoop(op, self.chunk, self.interchange, self._same, self.code.arrays.make)
        for value in found.needed():
            array = self.chunk_arrays.get(value)
            found.arrays[value] = array or self.code.arrays.make(value.type, CHUNK_ITEMS)
        return found

    def _guarded(self, op: ir.Operation, spot: _Spot) -> None:
        """Test once whether the whole chunk lies within bounds, or a part of it, and else each work-item."""
        body = body_operations(op.regions[0].blocks[0])
        if self.chunk.is_whole:
            within = self._all_within(op.operands[0], spot.emit)
            every, spot = map(spot.before, if_else(spot.emit, within))
            self._fill(self._cut(body, every), every)
        part = self._part_within(op, spot.emit)
        if part:
            is_some, width, height = part
            some, spot = map(spot.before, if_else(spot.emit, is_some))
            chunk = replace(self.chunk, width=width, height=height, is_whole=False)
            if chunk.rows > 1:  # a single row is common: a vector times a matrix
                one = self.chunk.extents.one
                is_one = some.emit.compare(Compare.EQ, height, one)
                single, some = map(some.before, if_else(some.emit, is_one))
                self._build_part(replace(chunk, rows=1, height=one), body, single)
            self._build_part(chunk, body, some)
        self._fill([op], spot)

    def _build_part(self, chunk: Chunk, body: Sequence[ir.Operation], spot: _Spot) -> None:
        """Build what is under a bounds check for the part of the chunk that passes it."""
        if chunk.columns > LANES and not any(map(self._reads_rows, body)):
            is_wide = spot.emit.compare(Compare.SGE, chunk.width, spot.emit.constant(LANES))
            wide, spot = map(spot.before, if_else(spot.emit, is_wide))
            inside = replace(self, chunk=replace(chunk, is_wide=True))
            inside._fill(inside._cut(body, wide), wide)
            chunk = replace(chunk, columns=LANES)
        inside = replace(self, chunk=chunk)
        inside._fill(inside._cut(body, spot), spot)

    def _reads_rows(self, op: ir.Operation) -> bool:
        return any(load.name == "memref.load" and self.interchange.reads_rows(load) for load in nested(op))

    def _part_within(self, op: ir.Operation, emit: Emitter) -> tuple[ir.Value, ir.Value, ir.Value] | None:
        """Return how many columns and rows a bounds check around loops in vectors lets pass.

        The first value is whether they are the only ones, and some. ``None`` if they are not a rectangle.
        """
        if not any(inner in self.interchange.vectors for inner in nested(op)):
            return None
        sizes = [self.chunk.width, self.chunk.height]
        is_some = None
        pending = [op.operands[0]]
        while pending:
            value = pending.pop()
            term = defining_op(value)
            if term is None or self.interchange.uniform(value):
                holds = self._same(value, emit)
            elif term.name == "arith.andi":
                pending += term.operands
                continue
            else:
                low, high = term.operands
                slopes = [self.interchange.slope(low, axis) for axis in "xy"]
                if slopes == [1, 1]:
                    return None
                predicate = ir.IntegerAttr(term.attributes["predicate"]).value
                first, last = self._same(low, emit), self._same(low, emit, last=True)
                bound = self._same(high, emit)
                holds = emit.compare(predicate, first, bound)
                if slopes != [0, 0]:
                    axis = slopes.index(1)
                    size = (self.chunk.width, self.chunk.height)[axis]
                    count = count_below(emit, predicate, (first, last, bound), size)
                    sizes[axis] = emit.binary("arith.minsi", sizes[axis], count)
                    grows = emit.compare(UPPER_BOUNDS[predicate], first, last)
                    holds = emit.binary("arith.andi", holds, grows)
            is_some = holds if is_some is None else emit.binary("arith.andi", is_some, holds)
        is_wide = emit.compare(Compare.SGE, sizes[0], emit.constant(_LEAST_COLUMNS))
        return emit.binary("arith.andi", is_some, is_wide), *sizes

    def _all_within(self, condition: ir.Value, emit: Emitter) -> ir.Value:
        """Return whether a bounds check holds for all work-items of the chunk.

        The compared value grows from a work-item to the next, unless it overflows, so the last one decides.
        """

        @cache
        def within(value: ir.Value) -> ir.Value:
            op = defining_op(value)
            if value not in self.code.old or self.interchange.uniform(value) or op is None:
                return self._same(value, emit)
            if op.name == "arith.andi":
                return emit.binary("arith.andi", *map(within, op.operands))
            if op.name != "arith.cmpi":
                return self._same(value, emit)
            low, high = op.operands
            first, last = self._same(low, emit), self._same(low, emit, last=True)
            predicate = ir.IntegerAttr(op.attributes["predicate"]).value
            below = emit.compare(predicate, last, self._same(high, emit))
            return emit.binary("arith.andi", below, emit.compare(UPPER_BOUNDS[predicate], first, last))

        return within(condition)

    def _loop(self, op: ir.Operation, spot: _Spot) -> None:
        lower, upper, step = list(op.operands)[:3]
        emit = spot.emit
        above, by = self._same(upper, emit), self._same(step, emit)
        if not self.interchange.loops[op]:
            self._iterate(op, spot, (self._same(lower, emit), above, by))
        elif self.interchange.may_jump(lower):
            together, alone = map(spot.before, if_else(emit, self._in_line(lower, emit)))
            self._strided(op, together, above, by)
            self._alone(op, alone)
        else:
            self._strided(op, spot, above, by)

    def _in_line(self, lower: ir.Value, emit: Emitter) -> ir.Value:
        """Return whether ``lower`` grows by one from each work-item of a row to the next."""
        first, last = self._same(lower, emit), self._same(lower, emit, last=True)
        size = emit.binary("arith.addi", emit.binary("arith.subi", last, first), self.chunk.extents.one)
        return emit.compare(Compare.EQ, size, self.chunk.width)

    def _alone(self, op: ir.Operation, spot: _Spot) -> None:
        """Build the unchanged loop, which each work-item runs on its own."""
        loops = self._open(spot)
        new = self.code.copy(op, loops, loops.emit)
        for result, value in zip(op.results, new.results, strict=True):
            store(value, self._array(result), loops, at=loops.number)

    def _strided(self, op: ir.Operation, spot: _Spot, above: ir.Value, by: ir.Value) -> None:
        """Build the iterations that all work-items of a row have, without a test, and then the others."""
        emit, one = spot.emit, self.chunk.extents.one
        start = self._same(op.operands[0], emit)
        full = emit.binary("arith.subi", above, emit.binary("arith.subi", self.chunk.width, one))
        self._iterate(op, spot, (start, full, by))
        distance = emit.binary("arith.subi", full, start)
        distance = emit.binary("arith.maxsi", distance, self.chunk.extents.zero)
        rounded = emit.binary("arith.addi", distance, emit.binary("arith.subi", by, one))
        done = emit.binary("arith.muli", emit.binary("arith.divsi", rounded, by), by)
        rest = emit.binary("arith.addi", start, done)
        self._iterate(op, spot, (rest, above, by), guarded=True)

    def _iterate(
        self,
        op: ir.Operation,
        spot: _Spot,
        bounds: tuple[ir.Value, ir.Value, ir.Value],
        *,
        guarded: bool = False,
    ) -> None:
        body = op.regions[0].blocks[0]
        counter, *arguments = list(body.arguments)
        self.counters[counter], end = open_loop(spot.emit, *bounds)
        inner = spot.before(end)
        if guarded:
            guard = _Guard(counter=self.counters[counter], upper=bounds[1])
            inner = replace(inner, guards=(*spot.guards, guard))
        rest = self._cut(body_operations(body), inner)
        last = terminator(body)
        following = [(v, self._array(a)) for v, a in zip(last.operands, arguments, strict=True)]
        self._fill(rest, inner, last, following)

    def _fill(
        self,
        ops: Sequence[ir.Operation],
        spot: _Spot,
        consumer: ir.Operation | None = None,
        kept: Sequence[tuple[ir.Value, ir.Value]] = (),
        outer: Sequence[tuple[ir.Value, ir.Value]] = (),
    ) -> None:
        """Build loops over the chunk that run ``ops``, then store ``kept`` and ``outer`` values.

        Their arrays are those of the chunk and of the workgroup. ``consumer`` is the op that uses the kept
        values, and nothing else of ``ops`` directly.
        """
        if not ops and not kept and not outer:
            return
        loops = self._open(spot)
        here = {inner for op in ops for inner in nested(op)}
        if consumer is not None:
            here.add(consumer)
        self.code.set_item(ops, loops)
        for op in ops:
            if op.name in ITEM_IDS:  # of the body of a loop or guard; users compute it
                continue
            new = self.code.copy(op, loops, loops.emit)
            for old, value in zip(op.results, new.results, strict=True):
                loops.values[old] = value
                if self._leaves(old):
                    store(value, self.code.arrays.of(old), loops)
                users = {use.owner.operation for use in old.uses}
                elsewhere = any(u in self.inside and u not in here for u in users)
                if elsewhere and not self._cheap(old):
                    store(value, self._array(old), loops, at=loops.number)
        for_chunk = [(self.code.value(v, loops, loops.emit), array) for v, array in kept]
        for_items = [(self.code.value(v, loops, loops.emit), array) for v, array in outer]
        for value, array in for_chunk:
            store(value, array, loops, at=loops.number)
        for value, array in for_items:
            store(value, array, loops)

    def _open(self, spot: _Spot) -> ChunkLoops:
        plain, number, column = self.chunk.open(spot.emit)
        loops = ChunkLoops(
            extents=plain.extents,
            ids=plain.ids,
            linear=plain.linear,
            end=plain.end,
            chunk=self,
            number=number,
            column=column,
        )
        for guard in spot.guards:
            emit = loops.emit
            own = emit.binary("arith.addi", guard.counter, column)
            loops.only_if(emit.compare(Compare.SLT, own, guard.upper))
        return loops

    # ---- values ----

    def _array(self, value: ir.Value) -> ir.Value:
        if value not in self.chunk_arrays:
            self.chunk_arrays[value] = self.code.arrays.make(value.type, CHUNK_ITEMS)
        return self.chunk_arrays[value]

    def _leaves(self, value: ir.Value) -> bool:
        return any(use.owner.operation not in self.inside for use in value.uses)

    def _same(
        self, wanted: ir.Value, emit: Emitter, *, last: bool = False, column: int = 0, row: int = 0
    ) -> ir.Value:
        """Compute a value from ids and uniform values, for one work-item of the chunk.

        That is the first one, the ``last`` one, or the one at ``column`` and ``row``.
        """

        @cache
        def computed(value: ir.Value) -> ir.Value:
            if value not in self.code.old:
                return value
            if value in self.code.once:
                return self.code.once[value]
            if value in self.counters:
                strided = self.interchange.loops[value.owner.owner.operation]
                return self._moved(self.counters[value], 0, column if strided else 0, emit)
            op = defining_op(value)
            if op is not None and op.name in ITEM_IDS:
                return self._id(op, emit, last=last, offset=(column, row, 0))
            if op is None or not is_pure(op):
                raise CannotFissionError("a loop with bounds that are not known before it")
            new = copy_with(op, [computed(operand) for operand in op.operands], emit)
            return new.results[list(op.results).index(value)]

        return computed(wanted)

    def _id(self, op: ir.Operation, emit: Emitter, *, last: bool, offset: tuple[int, int, int]) -> ir.Value:
        if op.name not in POSITIONS:
            raise CannotFissionError(f"a bound that depends on {op.name}")
        axis, extents = "xyz".index(axis_of(op)), self.chunk.extents
        position = self._moved(self.chunk.origin[axis], axis, offset[axis], emit)
        if last and axis < 2:
            size = self.chunk.width if axis == 0 else self.chunk.height
            position = emit.binary("arith.addi", position, emit.binary("arith.subi", size, extents.one))
        if op.name == "gpu.thread_id":
            return position
        before = emit.binary("arith.muli", extents.block_id[axis], extents.block_dim[axis])
        return emit.binary("arith.addi", before, position)

    def _moved(self, position: ir.Value, axis: int, by: int, emit: Emitter) -> ir.Value:
        return emit.binary("arith.addi", position, self.chunk.offset(axis, by, emit)) if by else position

    def _cheap(self, value: ir.Value) -> bool:
        return self._cost(value) <= _MOST

    def _cost(self, value: ir.Value) -> int:
        """Return how many operations compute ``value`` from values that all loops over the chunk know."""
        never = _MOST + 1
        if value not in self.code.old or value in self.code.once or value in self.counters:
            return 0
        op = defining_op(value)
        if op is None:
            return never
        if op.name in ITEM_IDS:
            return 1
        if op.name in VIEWS or is_variable(op):
            cost = 0
        elif is_pure(op) and is_integer(op) and op.name.partition(".")[0] in _DIALECTS:
            cost = 8 if "div" in op.name or "rem" in op.name else 1
        else:
            return never
        for operand in op.operands:
            cost += self._cost(operand)
            if cost > _MOST:
                return never
        return cost
