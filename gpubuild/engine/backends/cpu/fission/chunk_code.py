"""Code of a chunk: some work-items between barriers, with the loops of loop_interchange around them.

It is cut at these loops as a kernel is at its barriers: what lies between them becomes loops over the
work-items of a chunk, and values that are needed across a cut go through an array with an element for each
of them. As chunks have a fixed size, LLVM keeps these in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu.fission.context_arrays import load, store
from gpubuild.engine.backends.cpu.fission.item_code import ItemCode
from gpubuild.engine.backends.cpu.fission.item_loops import CHUNK_ITEMS, Chunk, ItemLoops, for_loop, if_op
from gpubuild.engine.backends.cpu.fission.loop_interchange import UPPER_BOUNDS, Interchange, is_id, may_jump
from gpubuild.engine.backends.cpu.fission.uniformity import ITEM_IDS, is_pure, nested, operations, terminator
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import VIEWS

_MOST = 12  # operations worth repeating instead of keeping their result
_WHOLE_DIALECTS = frozenset({"arith", "index"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Guard:
    """Keeps out work-items whose counter, ``counter`` plus their place in the row, has reached ``upper``."""

    counter: ir.Value
    upper: ir.Value


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

    ``inside`` are the operations of the whole segment between barriers; what is used outside them is kept
    for each work-item of the workgroup. ``chunk_arrays`` keep what is used in other loops of the chunk.
    """

    code: ItemCode
    interchange: Interchange
    chunk_arrays: dict[ir.Value, ir.Value]
    chunk: Chunk
    inside: set[ir.Operation]
    counters: dict[ir.Value, ir.Value] = field(default_factory=dict)

    def run(self, ops: Sequence[ir.Operation], wanted: Sequence[tuple[ir.Value, ir.Value]]) -> None:
        """Build all of ``ops``, then keep the ``wanted`` values in arrays of the workgroup."""
        emit = Emitter(self.chunk.end)
        rest = self._cut(ops, emit, ())
        self._fill(rest, emit, (), None, (), wanted)

    def fetch(self, value: ir.Value, loops: ChunkLoops, emit: Emitter) -> ir.Value | None:
        """Return ``value`` for the loops' work-item, if the chunk keeps or computes it."""
        if value in self.counters:
            counter = self.counters[value]
            strided = self.interchange.loops[value.owner.owner.operation]
            return emit.binary("arith.addi", counter, loops.column) if strided else counter
        array = self.chunk_arrays.get(value)
        if array is not None:
            return load(value.type, array, loops, emit, at=loops.number)
        if isinstance(value.owner, ir.Block) or not self._cheap(value):
            return None
        op = value.owner.operation
        if op.name in ITEM_IDS:
            return loops.identity(op, emit)
        number = list(op.results).index(value)
        return self.code.copy(op, loops, emit).results[number]

    # ---- cutting ----

    def _cut(
        self, ops: Sequence[ir.Operation], emit: Emitter, guards: tuple[_Guard, ...]
    ) -> list[ir.Operation]:
        """Build ``ops``; return the last ones, which no interchanged loop ends."""
        pending: list[ir.Operation] = []
        for op in ops:
            if op in self.interchange.guards:
                self._fill(pending, emit, guards, None, ())
                pending = []
                self._guarded(op, emit, guards)
                continue
            if op not in self.interchange.loops:
                pending.append(op)
                continue
            body = op.regions[0].blocks[0]
            arguments = list(body.arguments)[1:]
            entering = [(v, self._array(a)) for v, a in zip(list(op.operands)[3:], arguments, strict=True)]
            self._fill(pending, emit, guards, op, entering)
            pending = []
            for result, argument in zip(op.results, arguments, strict=True):
                self.chunk_arrays[result] = self._array(argument)
            self._loop(op, emit, guards)
            self._keep_results(op, emit, guards)
        return pending

    def _guarded(self, op: ir.Operation, emit: Emitter, guards: tuple[_Guard, ...]) -> None:
        """A bounds check is made once for a chunk that lies within bounds as a whole."""
        both = if_op(emit, self._all_within(op.operands[0], emit), [], 2)
        every, some = (terminator(region.blocks[0]) for region in both.regions)
        body = op.regions[0].blocks[0]
        end = terminator(body)
        rest = self._cut([o for o in operations(body) if o != end], Emitter(every), guards)
        self._fill(rest, Emitter(every), guards, None, ())
        self._fill([op], Emitter(some), guards, None, ())

    def _all_within(
        self, value: ir.Value, emit: Emitter, made: dict[ir.Value, ir.Value] | None = None
    ) -> ir.Value:
        """Return whether a condition of loop_interchange's kind holds for all work-items of the chunk.

        What it compares grows from a work-item to the next, unless it overflows: the last one's decides.
        """
        made = {} if made is None else made
        if value not in made:
            made[value] = self._each_within(value, emit, made)
        return made[value]

    def _each_within(self, value: ir.Value, emit: Emitter, made: dict[ir.Value, ir.Value]) -> ir.Value:
        if value not in self.code.old or self.interchange.uniform(value):
            return self._same(value, emit)
        op = value.owner.operation
        if op.name == "arith.andi":
            return emit.binary("arith.andi", *(self._all_within(o, emit, made) for o in op.operands))
        if op.name != "arith.cmpi":
            return self._same(value, emit)
        low, high = op.operands
        first, last = self._same(low, emit), self._same(low, emit, last=True)
        predicate = ir.IntegerAttr(op.attributes["predicate"]).value
        within = emit.compare(predicate, last, self._same(high, emit))
        grows = emit.compare(UPPER_BOUNDS[predicate], first, last)
        return emit.binary("arith.andi", within, grows)

    def _loop(self, op: ir.Operation, emit: Emitter, guards: tuple[_Guard, ...]) -> None:
        lower, upper, step = list(op.operands)[:3]
        above, by = self._same(upper, emit), self._same(step, emit)
        if not self.interchange.loops[op]:
            self._iterate(op, emit, (self._same(lower, emit), above, by), guards)
        elif may_jump(lower):
            both = if_op(emit, self._in_line(lower, emit), [], 2)
            together, alone = (terminator(region.blocks[0]) for region in both.regions)
            self._strided(op, Emitter(together), (above, by), guards)
            self._alone(op, Emitter(alone), guards)
        else:
            self._strided(op, emit, (above, by), guards)

    def _in_line(self, lower: ir.Value, emit: Emitter) -> ir.Value:
        """Whether ``lower`` grows by one from each work-item of a row to the next, without an overflow."""
        first, last = self._same(lower, emit), self._same(lower, emit, last=True)
        size = emit.binary("arith.addi", emit.binary("arith.subi", last, first), self.chunk.extents.one)
        return emit.compare(Compare.EQ, size, self.chunk.width)

    def _alone(self, op: ir.Operation, emit: Emitter, guards: tuple[_Guard, ...]) -> None:
        """The loop unchanged, run by each work-item on its own."""
        loops = self._open(emit, guards)
        new = self.code.copy(op, loops, loops.emit)
        for result, value in zip(op.results, new.results, strict=True):
            store(value, self._array(result), loops, at=loops.number)

    def _strided(
        self,
        op: ir.Operation,
        emit: Emitter,
        bounds: tuple[ir.Value, ir.Value],
        guards: tuple[_Guard, ...],
    ) -> None:
        (above, by), lower = bounds, op.operands[0]
        # All work-items of a row have an iteration while the last one has: no need to ask. Then the rest.
        one = self.chunk.extents.one
        start = self._same(lower, emit)
        full = emit.binary("arith.subi", above, emit.binary("arith.subi", self.chunk.width, one))
        self._iterate(op, emit, (start, full, by), guards)
        distance = emit.binary("arith.subi", full, start)
        distance = emit.binary("arith.maxsi", distance, self.chunk.extents.zero)
        rounded = emit.binary("arith.addi", distance, emit.binary("arith.subi", by, one))
        done = emit.binary("arith.muli", emit.binary("arith.divsi", rounded, by), by)
        rest = emit.binary("arith.addi", start, done)
        self._iterate(op, emit, (rest, above, by), guards, guarded=True)

    def _iterate(
        self,
        op: ir.Operation,
        emit: Emitter,
        bounds: tuple[ir.Value, ir.Value, ir.Value],
        guards: tuple[_Guard, ...],
        *,
        guarded: bool = False,
    ) -> None:
        body = op.regions[0].blocks[0]
        counter, *arguments = list(body.arguments)
        new = for_loop(emit, *bounds).regions[0].blocks[0]
        self.counters[counter] = new.arguments[0]
        if guarded:
            guards = (*guards, _Guard(counter=new.arguments[0], upper=bounds[1]))
        end = terminator(body)
        inner = Emitter(terminator(new))
        rest = self._cut([o for o in operations(body) if o != end], inner, guards)
        following = [(v, self._array(a)) for v, a in zip(end.operands, arguments, strict=True)]
        self._fill(rest, inner, guards, end, following)

    def _keep_results(self, op: ir.Operation, emit: Emitter, guards: tuple[_Guard, ...]) -> None:
        """Results that are needed behind the next barrier go to arrays of the workgroup."""
        outer = [(r, self.code.arrays.of(r)) for r in op.results if self._leaves(r)]
        if outer:
            self._fill((), emit, guards, None, (), outer)

    def _fill(
        self,
        ops: Sequence[ir.Operation],
        emit: Emitter,
        guards: tuple[_Guard, ...],
        consumer: ir.Operation | None,
        kept: Sequence[tuple[ir.Value, ir.Value]],
        outer: Sequence[tuple[ir.Value, ir.Value]] = (),
    ) -> None:
        """Loops over the chunk that run ``ops``, then store ``kept`` in arrays of the chunk and ``outer`` in
        those of the workgroup.

        ``consumer`` is the op that takes the kept values, and nothing else of ``ops`` directly.
        """
        if not ops and not kept and not outer:
            return
        loops = self._open(emit, guards)
        here = {inner for op in ops for inner in nested(op)}
        if consumer is not None:
            here.add(consumer)
        self.code.set_item(ops, loops)
        for op in ops:
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

    def _open(self, emit: Emitter, guards: tuple[_Guard, ...]) -> ChunkLoops:
        plain, number, column = self.chunk.open(emit)
        loops = ChunkLoops(
            extents=plain.extents,
            ids=plain.ids,
            linear=plain.linear,
            end=plain.end,
            chunk=self,
            number=number,
            column=column,
        )
        for guard in guards:
            self._enter(guard, loops)
        return loops

    def _enter(self, guard: _Guard, loops: ChunkLoops) -> None:
        emit = loops.emit
        own = emit.binary("arith.addi", guard.counter, loops.column)
        branch = if_op(emit, emit.compare(Compare.SLT, own, guard.upper), [], 1).regions[0].blocks[0]
        loops.end = terminator(branch)

    # ---- values ----

    def _array(self, value: ir.Value) -> ir.Value:
        if value not in self.chunk_arrays:
            self.chunk_arrays[value] = self.code.arrays.make(value.type, CHUNK_ITEMS)
        return self.chunk_arrays[value]

    def _leaves(self, value: ir.Value) -> bool:
        return any(use.owner.operation not in self.inside for use in value.uses)

    def _same(
        self,
        value: ir.Value,
        emit: Emitter,
        *,
        last: bool = False,
        made: dict[ir.Value, ir.Value] | None = None,
    ) -> ir.Value:
        """Return a value that is computed from ids and from what is the same for all: that of the first one.

        With ``last`` it is that of the chunk's last work-item. ``made`` is what has been made for it.
        """
        made = {} if made is None else made
        if value not in made:
            made[value] = self._made(value, emit, last=last, made=made)
        return made[value]

    def _made(
        self, value: ir.Value, emit: Emitter, *, last: bool, made: dict[ir.Value, ir.Value]
    ) -> ir.Value:
        if value not in self.code.old:
            return value
        if value in self.code.once:
            return self.code.once[value]
        if value in self.counters:
            return self.counters[value]
        op = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if op is not None and op.name in ITEM_IDS:
            return self._id(op, emit, last=last)
        if op is None or not is_pure(op):
            raise CannotFissionError("a loop with bounds that are not known before it")
        operands = [self._same(operand, emit, last=last, made=made) for operand in op.operands]
        new = emit.copy(op)
        for index, operand in enumerate(operands):
            new.operands[index] = operand
        return new.results[list(op.results).index(value)]

    def _id(self, op: ir.Operation, emit: Emitter, *, last: bool) -> ir.Value:
        axis = next((number for number, name in enumerate("xyz") if is_id(op, name)), None)
        if axis is None:
            raise CannotFissionError(f"a bound that depends on {op.name}")
        extents = self.chunk.extents
        place = self.chunk.origin[axis]
        if last and axis < 2:
            size = self.chunk.width if axis == 0 else emit.constant(self.chunk.rows)
            place = emit.binary("arith.addi", place, emit.binary("arith.subi", size, extents.one))
        if op.name == "gpu.thread_id":
            return place
        before = emit.binary("arith.muli", extents.block_id[axis], extents.block_dim[axis])
        return emit.binary("arith.addi", before, place)

    def _cheap(self, value: ir.Value) -> bool:
        return self._cost(value) <= _MOST

    def _cost(self, value: ir.Value) -> int:
        """Return how many operations compute ``value`` from what every loop over the chunk knows."""
        never = _MOST + 1
        if value not in self.code.old or value in self.code.once or value in self.counters:
            return 0
        if isinstance(value.owner, ir.Block):
            return never
        op = value.owner.operation
        if op.name in ITEM_IDS:
            return 1
        if op.name not in VIEWS:
            whole = all(
                isinstance(v.type, ir.IndexType | ir.IntegerType) for v in (*op.operands, *op.results)
            )
            if not (is_pure(op) and whole and op.name.partition(".")[0] in _WHOLE_DIALECTS):
                return never
        cost = 0 if op.name in VIEWS else 8 if "div" in op.name or "rem" in op.name else 1
        for operand in op.operands:
            cost += self._cost(operand)
            if cost > _MOST:
                return never
        return cost
