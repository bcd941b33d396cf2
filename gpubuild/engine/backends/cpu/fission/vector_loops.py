"""Build an interchanged loop in vectors, with what it carries in registers.

LLVM finds such vectors only sometimes: it unrolls loops over work-items before it looks for vectors, and what
a loop carries is in an array. Here a vector has the values of a strip: work-items next to each other in x.
The loop is built for all strips of a chunk at once, which share loads. In a chunk that is not whole, rows
that do not exist compute what the last one does. So do columns where those that exist fill a strip; in other
chunks, columns that do not exist load nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mlir import ir

from gpubuild.engine.backends.cpu.fission.item_code import copy_with
from gpubuild.engine.backends.cpu.fission.item_loops import (
    LANES,
    Chunk,
    for_loop,
    if_op,
    open_loop,
    set_operands,
)
from gpubuild.engine.backends.cpu.fission.loop_interchange import Interchange
from gpubuild.engine.backends.cpu.fission.uniformity import (
    body_operations,
    defined_values,
    nested,
    terminator,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import defining_op

_LOAD, _LOOP = "memref.load", "scf.for"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """Where a strip is in its chunk, and the number of its first work-item there."""

    column: int
    row: int
    number: int


class Scalar(Protocol):
    """A function that computes a value for one work-item."""

    def __call__(self, wanted: ir.Value, emit: Emitter, *, column: int, row: int) -> ir.Value:
        """Compute ``wanted`` for the work-item at ``column`` and ``row`` of the chunk."""


class VectorLoop:
    """A loop of ``interchange.vectors`` for the strips of a chunk.

    ``arrays`` keep values from outside, see :meth:`needed`: an element for each work-item of the chunk.
    """

    def __init__(
        self,
        op: ir.Operation,
        chunk: Chunk,
        interchange: Interchange,
        scalar: Scalar,
        make_array: Callable[[ir.Type, int], ir.Value],
    ) -> None:
        self.arrays: dict[ir.Value, ir.Value] = {}
        self._op = op
        self._chunk = chunk
        self._strips = [
            Strip(column=column, row=row, number=row * chunk.columns + column)
            for row in range(chunk.rows)
            for column in range(0, chunk.columns, LANES)
        ]
        self._interchange = interchange
        self._compute = scalar
        self._make_array = make_array
        self._masks: dict[int, tuple[ir.Value, ir.Value]] = {}  # by column
        self._values: dict[tuple[ir.Value, Strip], ir.Value] = {}  # of the first work-item, or of all
        self._before: Emitter

    def needed(self) -> list[ir.Value]:
        """Return values from outside the loop which differ between the work-items of a strip."""
        inside = nested(self._op)
        own = {value for op in inside for value in defined_values(op)}
        used = (value for op in inside if op != self._op for value in op.operands)
        return list(dict.fromkeys(v for v in used if v not in own and not self._is_scalar(v)))

    def _is_scalar(self, value: ir.Value) -> bool:
        """Return whether the value of the first work-item of a strip determines those of the others."""
        return self._interchange.same_in_row(value) or self._interchange.slope(value, "x") is not None

    def build(self, emit: Emitter, carried: Sequence[ir.Value]) -> None:
        """Build the loop before the operation of ``emit``. What it carries is in the arrays ``carried``."""
        bounds = [self._compute(v, emit, column=0, row=0) for v in list(self._op.operands)[:3]]
        arguments = list(self._op.regions[0].blocks[0].arguments)[1:]
        initial = [
            self._load(argument.type, array, self._place(strip, emit), emit)
            for argument, array in zip(arguments, carried, strict=True)
            for strip in self._strips
        ]
        self._loop(self._op, bounds, initial, emit)
        for result, array in zip(self._op.results, carried, strict=True):
            for strip in self._strips:
                emit.op("vector.store", [self._values[result, strip], array, self._place(strip, emit)], [])

    def _place(self, strip: Strip, emit: Emitter) -> ir.Value:
        """Return the place of a strip in arrays with an element for each work-item of the chunk."""
        if not (self._chunk.is_wide and strip.column):
            return emit.constant(strip.number)
        first = emit.constant(strip.row * self._chunk.columns)
        return emit.binary("arith.addi", first, self._chunk.offset(0, strip.column, emit))

    def _loop(
        self, op: ir.Operation, bounds: Sequence[ir.Value], initial: Sequence[ir.Value], emit: Emitter
    ) -> None:
        """Build a loop. ``initial`` are the vectors of its first argument, of the second, and so on."""
        lower, upper, step = bounds
        body = op.regions[0].blocks[0]
        row_loads = [o for o in body_operations(body) if o.name == _LOAD and self._interchange.reads_rows(o)]
        if row_loads:
            lower, initial = self._blocks(op, row_loads, lower, upper, initial, emit)
        loop = for_loop(emit, lower, upper, step, initial)
        if op == self._op and not row_loads:
            self._before = Emitter(loop)
        counter, *arguments = loop.regions[0].blocks[0].arguments
        self._body(op, loop, counter, arguments, {})
        self._values.update(zip(self._each(op.results), loop.results, strict=True))

    def _blocks(
        self,
        op: ir.Operation,
        row_loads: Sequence[ir.Operation],
        lower: ir.Value,
        upper: ir.Value,
        initial: Sequence[ir.Value],
        emit: Emitter,
    ) -> tuple[ir.Value, Sequence[ir.Value]]:
        """Build blocks of iterations, for which rows are read in vectors and transposed.

        Returns the first iteration of the rest, and what it carries.
        """
        zero, one, lanes = emit.constant(0), emit.constant(1), emit.constant(LANES)
        distance = emit.binary("arith.maxsi", emit.binary("arith.subi", upper, lower), zero)
        whole = emit.binary("arith.andi", distance, emit.constant(-LANES))
        end = emit.binary("arith.addi", lower, whole)
        blocks = for_loop(emit, lower, end, lanes, initial)
        if op == self._op:
            self._before = Emitter(blocks)
        first, *arguments = blocks.regions[0].blocks[0].arguments
        last = terminator(blocks.regions[0].blocks[0])
        inside = Emitter(last)
        self._count(op, first)
        arrays = {load: self._for_rows(load, inside, self._transpose) for load in row_loads}
        loop = for_loop(inside, zero, lanes, one, arguments)
        number, *arguments = loop.regions[0].blocks[0].arguments
        start = Emitter(terminator(loop.regions[0].blocks[0]))
        at = start.binary("arith.muli", number, lanes)
        loaded = {}
        for load, by_row in arrays.items():
            for strip in self._strips:
                place = start.binary("arith.addi", at, start.constant(strip.column * LANES))
                vector = start.value(
                    "vector.load", [by_row[strip.row], place], _vector_of(load.results[0].type)
                )
                loaded[load.results[0], strip] = vector
        self._body(op, loop, start.binary("arith.addi", first, number), arguments, loaded)
        set_operands(last, list(loop.results))
        return end, list(blocks.results)

    def _for_rows(
        self,
        load: ir.Operation,
        emit: Emitter,
        make: Callable[[ir.Operation, Strip, Emitter], ir.Value],
    ) -> dict[int, ir.Value]:
        """Make an array of what ``load`` loads for each row of the chunk; one for all if they are equal."""
        arrays: dict[int, ir.Value] = {}
        for strip in self._strips:
            if not strip.column:
                first = self._first_with_same_load(load, strip)
                arrays[strip.row] = arrays[first.row] if first != strip else make(load, strip, emit)
        return arrays

    def _first_with_same_load(self, load: ir.Operation, strip: Strip) -> Strip:
        """Return the first strip that loads what ``strip`` does, of an earlier row or itself."""
        if any(self._interchange.slope(index, "y") != 0 for index in list(load.operands)[1:]):
            return strip
        return next(other for other in self._strips if other.column == strip.column)

    def _transpose(self, load: ir.Operation, first: Strip, emit: Emitter) -> ir.Value:
        """Load ``LANES`` iterations for the row of ``first``; return an array of their vectors."""
        kind = load.results[0].type
        array = self._make_array(kind, self._chunk.columns * LANES)
        column, end = open_loop(
            emit, emit.constant(0), emit.constant(self._chunk.columns), emit.constant(LANES)
        )
        inside = Emitter(end)
        rows = []
        for lane in range(LANES):
            of_lane = inside.binary("arith.addi", column, inside.constant(lane))
            rows.append(
                inside.value("vector.load", self._element(load, first, of_lane, inside), _vector_of(kind))
            )
        start = inside.binary("arith.muli", column, inside.constant(LANES))
        for number, vector in enumerate(_transposed(rows, inside)):
            at = inside.binary("arith.addi", start, inside.constant(number * LANES))
            inside.op("vector.store", [vector, array, at], [])
        return array

    def _gather(self, load: ir.Operation, first: Strip, emit: Emitter) -> ir.Value:
        """Load one iteration for the row of ``first``; return an array of its elements."""
        kind = load.results[0].type
        array = self._make_array(kind, self._chunk.columns)
        column, end = open_loop(emit, emit.constant(0), emit.constant(self._chunk.columns), emit.constant(1))
        inside = Emitter(end)
        value = inside.value(_LOAD, self._element(load, first, column, inside), kind)
        inside.op("memref.store", [value, array, column], [])
        return array

    def _element(self, load: ir.Operation, first: Strip, column: ir.Value, emit: Emitter) -> list[ir.Value]:
        """Return memory and indices of what the work-item in ``column`` of the row of ``first`` loads."""
        memory, *indices = load.operands
        loop = load.parent.operation
        number = emit.constant(first.number)
        if not self._chunk.is_whole:
            last = emit.binary("arith.subi", self._chunk.width, emit.constant(1))
            column = emit.binary("arith.minsi", column, last)
            row = self._chunk.offset(1, first.row, emit)
            number = emit.binary("arith.muli", row, emit.constant(self._chunk.columns))

        def of_item(value: ir.Value) -> ir.Value:
            op = defining_op(value)
            if op is not None and op.parent.operation == loop:
                return copy_with(op, [of_item(operand) for operand in op.operands], emit).results[0]
            if not self._is_scalar(value):
                at = emit.binary("arith.addi", column, number)
                return emit.value(_LOAD, [self.arrays[value], at], value.type)
            slope = self._interchange.slope(value, "x") or 0
            start = self._scalar(value, first)
            if not slope:
                return start
            distance = emit.binary("arith.muli", column, emit.constant(slope))
            if distance.type != value.type:
                distance = emit.value("arith.index_cast", [distance], value.type)
            return emit.binary("arith.addi", start, distance)

        return [self._scalar(memory, first), *map(of_item, indices)]

    def _count(self, op: ir.Operation, counter: ir.Value) -> None:
        """Set the counter of the loop ``op``."""
        self._values.update(
            ((op.regions[0].blocks[0].arguments[0], strip), counter) for strip in self._strips
        )

    def _body(
        self,
        op: ir.Operation,
        loop: ir.Operation,
        counter: ir.Value,
        arguments: Sequence[ir.Value],
        loaded: Mapping[tuple[ir.Value, Strip], ir.Value],
    ) -> None:
        """Build an iteration of ``op`` in ``loop``. ``loaded`` are results that are known before it."""
        old, end = op.regions[0].blocks[0], terminator(loop.regions[0].blocks[0])
        self._count(op, counter)
        self._values.update(zip(self._each(list(old.arguments)[1:]), arguments, strict=True))
        self._values.update(loaded)
        for inner in body_operations(old):
            if not any((result, self._strips[0]) in loaded for result in inner.results):
                self._operation(inner, Emitter(end))
        following = [self._vector(v, s, Emitter(end)) for v, s in self._each(terminator(old).operands)]
        set_operands(end, following)

    def _each(self, values: Sequence[ir.Value]) -> Iterator[tuple[ir.Value, Strip]]:
        return ((value, strip) for value in values for strip in self._strips)

    def _operation(self, op: ir.Operation, emit: Emitter) -> None:
        if op.name == _LOOP:
            bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
            vectors = [self._vector(v, s, emit) for v, s in self._each(initial)]
            self._loop(op, [self._scalar(value, self._strips[0]) for value in bounds], vectors, emit)
            return
        result = op.results[0]
        if op.name == _LOAD and self._interchange.reads_rows(op):
            arrays = self._for_rows(op, emit, self._gather)
            for strip in self._strips:
                found = self._load(result.type, arrays[strip.row], emit.constant(strip.column), emit)
                self._values[result, strip] = found
            return
        for strip in self._strips:
            if self._is_scalar(result):
                made = copy_with(op, [self._scalar(value, strip) for value in op.operands], emit).results[0]
            elif op.name == _LOAD:
                first = self._first_with_same_load(op, strip)
                made = self._values[result, first] if first != strip else self._neighbours(op, strip, emit)
            else:
                operands = [self._vector(value, strip, emit) for value in op.operands]
                attributes = {name: op.attributes[name] for name in op.attributes}
                made = emit.value(op.name, operands, _vector_of(result.type), attributes)
            self._values[result, strip] = made

    def _neighbours(self, load: ir.Operation, strip: Strip, emit: Emitter) -> ir.Value:
        """Load what the work-items of a strip read beside each other."""
        kind = load.results[0].type
        memory, *indices, at = (self._scalar(value, strip) for value in load.operands)
        if self._chunk.is_whole or self._chunk.is_wide:
            return emit.value("vector.load", [memory, *indices, at], _vector_of(kind))
        is_full, mask = self._mask(strip)
        both = if_op(emit, is_full, [_vector_of(kind)], 2)
        every, some = (terminator(region.blocks[0]) for region in both.regions)
        found = Emitter(every).value("vector.load", [memory, *indices, at], _vector_of(kind))
        set_operands(every, [found])
        nothing = Emitter(some).constant(0, _vector_of(kind))
        operands = [memory, *indices, at, mask, nothing]
        set_operands(some, [Emitter(some).value("vector.maskedload", operands, _vector_of(kind))])
        return both.results[0]

    def _mask(self, strip: Strip) -> tuple[ir.Value, ir.Value]:
        """Return whether all work-items of a strip are in the chunk, and a mask of those that are."""
        if strip.column not in self._masks:
            emit, lane = self._before, ir.IntegerType.get_signless(32)
            width = emit.binary("arith.subi", self._chunk.width, emit.constant(strip.column))
            is_full = emit.compare(Compare.SGE, width, emit.constant(LANES))
            numbers = [ir.IntegerAttr.get(lane, number) for number in range(LANES)]
            attributes = {"value": ir.DenseElementsAttr.get(numbers, _vector_of(lane))}
            lanes = emit.value("arith.constant", [], _vector_of(lane), attributes)
            count = emit.value("arith.index_cast", [width], lane)
            count = emit.value("vector.broadcast", [count], _vector_of(lane))
            self._masks[strip.column] = is_full, emit.compare(Compare.SLT, lanes, count)
        return self._masks[strip.column]

    def _scalar(self, value: ir.Value, strip: Strip) -> ir.Value:
        """Return a value for the first work-item of a strip."""
        if (value, strip) not in self._values:
            found = self._compute(value, self._before, column=strip.column, row=strip.row)
            self._values[value, strip] = found
        return self._values[value, strip]

    def _vector(self, value: ir.Value, strip: Strip, emit: Emitter) -> ir.Value:
        """Return a value for all work-items of a strip."""
        if not self._is_scalar(value):
            if (value, strip) not in self._values:
                at = self._place(strip, self._before)
                found = self._load(value.type, self.arrays[value], at, self._before)
                self._values[value, strip] = found
            return self._values[value, strip]
        kind = _vector_of(value.type)
        vector = emit.value("vector.broadcast", [self._scalar(value, strip)], kind)
        slope = self._interchange.slope(value, "x")
        if not slope:
            return vector
        steps = [ir.IntegerAttr.get(value.type, slope * lane) for lane in range(LANES)]
        attributes = {"value": ir.DenseElementsAttr.get(steps, kind)}
        return emit.binary("arith.addi", vector, emit.value("arith.constant", [], kind, attributes))

    @staticmethod
    def _load(kind: ir.Type, array: ir.Value, at: ir.Value, emit: Emitter) -> ir.Value:
        stored = ir.MemRefType(array.type).element_type
        found = emit.value("vector.load", [array, at], _vector_of(stored))
        return found if stored == kind else emit.value("arith.trunci", [found], _vector_of(kind))


def _vector_of(kind: ir.Type) -> ir.Type:
    return ir.VectorType.get([LANES], kind)


def _transposed(rows: Sequence[ir.Value], emit: Emitter) -> list[ir.Value]:
    """Return the columns of a square of ``LANES`` rows.

    Shuffles exchange ever larger parts of two rows; in those of four lanes, each is one instruction of SSE.
    """
    rows = list(rows)
    lanes = range(LANES)
    for size in (1, 2, 4, 8):
        for number in [n for n in lanes if not n & size]:
            low, high = rows[number], rows[number + size]
            if size == 1:
                pair = [
                    [lane // 4 * 4 + part + lane % 4 // 2 + lane % 2 * LANES for lane in lanes]
                    for part in (0, 2)
                ]
            else:
                pair = [
                    [(lane & ~size) + part + (LANES if lane & size else 0) for lane in lanes]
                    for part in (0, size)
                ]
            rows[number], rows[number + size] = (
                emit.value("vector.shuffle", [low, high], low.type, {"mask": ir.DenseI64ArrayAttr.get(mask)})
                for mask in pair
            )
        if size == 2:
            for number in range(1, LANES, 4):
                rows[number], rows[number + 1] = rows[number + 1], rows[number]
    return rows
