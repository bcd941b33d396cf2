"""Build an interchanged loop in vectors, with what it carries in registers.

LLVM finds such vectors only sometimes: it unrolls loops over work-items before it looks for vectors, and what
a loop carries is in an array. Here a vector has the values of a strip: work-items next to each other in x.
The loop is built for all strips of a chunk at once, which share loads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from mlir import ir

from gpubuild.engine.backends.cpu.fission.item_code import copy_with
from gpubuild.engine.backends.cpu.fission.item_loops import for_loop, set_operands
from gpubuild.engine.backends.cpu.fission.loop_interchange import Interchange
from gpubuild.engine.backends.cpu.fission.uniformity import body_operations, nested, terminator
from gpubuild.engine.ir.builder import Emitter

LANES = 16  # work-items of a strip
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
    """A loop of ``interchange.vectors`` for some strips.

    ``arrays`` keep values from outside, see :meth:`needed`: an element for each work-item of the chunk.
    """

    def __init__(
        self, op: ir.Operation, strips: Sequence[Strip], interchange: Interchange, scalar: Scalar
    ) -> None:
        self.arrays: dict[ir.Value, ir.Value] = {}
        self._op = op
        self._strips = strips
        self._interchange = interchange
        self._compute = scalar
        self._values: dict[tuple[ir.Value, Strip], ir.Value] = {}  # of the first work-item, or of all
        self._before: Emitter

    def needed(self) -> list[ir.Value]:
        """Return values from outside the loop which differ between the work-items of a strip."""
        inside = nested(self._op)
        own = {value for op in inside for value in _defined(op)}
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
            self._load(argument.type, array, strip, emit)
            for argument, array in zip(arguments, carried, strict=True)
            for strip in self._strips
        ]
        self._loop(self._op, bounds, initial, emit)
        for result, array in zip(self._op.results, carried, strict=True):
            for strip in self._strips:
                at = emit.constant(strip.number)
                emit.op("vector.store", [self._values[result, strip], array, at], [])

    def _loop(
        self, op: ir.Operation, bounds: Sequence[ir.Value], initial: Sequence[ir.Value], emit: Emitter
    ) -> None:
        """Build a loop. ``initial`` are the vectors of its first argument, of the second, and so on."""
        lower, upper, step = bounds
        loop = for_loop(emit, lower, upper, step, initial)
        if op == self._op:
            self._before = Emitter(loop)
        old, new = op.regions[0].blocks[0], loop.regions[0].blocks[0]
        counter, *arguments = old.arguments
        new_counter, *new_arguments = new.arguments
        self._values.update(((counter, strip), new_counter) for strip in self._strips)
        self._values.update(zip(self._each(arguments), new_arguments, strict=True))
        end = terminator(new)
        for inner in body_operations(old):
            self._operation(inner, Emitter(end))
        following = [self._vector(v, s, Emitter(end)) for v, s in self._each(terminator(old).operands)]
        set_operands(end, following)
        self._values.update(zip(self._each(op.results), loop.results, strict=True))

    def _each(self, values: Sequence[ir.Value]) -> Iterator[tuple[ir.Value, Strip]]:
        return ((value, strip) for value in values for strip in self._strips)

    def _operation(self, op: ir.Operation, emit: Emitter) -> None:
        if op.name == _LOOP:
            bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
            vectors = [self._vector(v, s, emit) for v, s in self._each(initial)]
            self._loop(op, [self._scalar(value, self._strips[0]) for value in bounds], vectors, emit)
            return
        result = op.results[0]
        for strip in self._strips:
            if self._is_scalar(result):
                made = copy_with(op, [self._scalar(value, strip) for value in op.operands], emit)
            elif op.name == _LOAD:
                operands = [self._scalar(value, strip) for value in op.operands]
                made = emit.op("vector.load", operands, [_vector_of(result.type)])
            else:
                operands = [self._vector(value, strip, emit) for value in op.operands]
                attributes = {name: op.attributes[name] for name in op.attributes}
                made = emit.op(op.name, operands, [_vector_of(result.type)], attributes)
            self._values[result, strip] = made.results[0]

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
                found = self._load(value.type, self.arrays[value], strip, self._before)
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
    def _load(kind: ir.Type, array: ir.Value, strip: Strip, emit: Emitter) -> ir.Value:
        stored = ir.MemRefType(array.type).element_type
        found = emit.value("vector.load", [array, emit.constant(strip.number)], _vector_of(stored))
        return found if stored == kind else emit.value("arith.trunci", [found], _vector_of(kind))


def _defined(op: ir.Operation) -> list[ir.Value]:
    return [*op.results, *(a for region in op.regions for block in region.blocks for a in block.arguments)]


def _vector_of(kind: ir.Type) -> ir.Type:
    return ir.VectorType.get([LANES], kind)
