"""Reduction: what a ``gpu.all_reduce`` does with two values."""

from __future__ import annotations

import math

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import operations, terminator
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.backends.cpu.reductions.vector_sums import VECTOR_ELEMENTS
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import scalar_bits

FLOAT = {
    "add": "arith.addf",
    "mul": "arith.mulf",
    "minnumf": "arith.minnumf",
    "maxnumf": "arith.maxnumf",
    "minimumf": "arith.minimumf",
    "maximumf": "arith.maximumf",
}
INTEGER = {
    "add": "arith.addi",
    "mul": "arith.muli",
    "minsi": "arith.minsi",
    "maxsi": "arith.maxsi",
    "minui": "arith.minui",
    "maxui": "arith.maxui",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
}
# What changes no value: -0.0 is still there after it met -0.0, and what ignores NaN ignores this one.
_FLOAT_IDENTITY = {
    "add": -0.0,
    "mul": 1.0,
    "minnumf": math.nan,
    "maxnumf": math.nan,
    "minimumf": math.inf,
    "maximumf": -math.inf,
}


class Reduction:
    """Of one ``gpu.all_reduce``: an operation by name, or a region of its own."""

    def __init__(self, op: ir.Operation) -> None:
        self.op = op
        self.kind: ir.Type = op.results[0].type
        self._word = (
            str(op.attributes["op"]).rpartition(" ")[2].rstrip(">") if "op" in op.attributes else None
        )

    @property
    def in_vectors(self) -> bool:
        """Whether :meth:`combine` takes vectors, too."""
        return self._word is not None and str(self.kind) in VECTOR_ELEMENTS

    def combine(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        """One value of two. Raises ``CannotFissionError`` for what MLIR has no operation for."""
        if self._word is None:
            return self._inline(low, high, emit)
        floats = not isinstance(self.kind, ir.IndexType | ir.IntegerType)
        name = (FLOAT if floats else INTEGER).get(self._word)
        if name is None:
            raise CannotFissionError(f"gpu.all_reduce {self._word} of {low.type}")
        return emit.binary(name, low, high)

    def identity(self) -> ir.Attribute:
        """The value of type ``kind`` that changes no other one; only for what is :attr:`in_vectors`."""
        if isinstance(self.kind, ir.FloatType):
            return ir.FloatAttr.get(self.kind, _FLOAT_IDENTITY[self._word or ""])
        most = (1 << scalar_bits(self.kind) - 1) - 1
        whole = {"mul": 1, "minsi": most, "maxsi": -most - 1, "minui": -1, "and": -1}
        return ir.IntegerAttr.get(self.kind, whole.get(self._word or "", 0))

    def _inline(self, low: ir.Value, high: ir.Value, emit: Emitter) -> ir.Value:
        """Copy the operation's own region, which must not use values from outside it."""
        blocks = self.op.regions[0].blocks
        if len(blocks) != 1:
            raise CannotFissionError("gpu.all_reduce with branches")
        known: dict[ir.Value, ir.Value] = dict(zip(blocks[0].arguments, (low, high), strict=True))
        end = terminator(blocks[0])
        for inner in operations(blocks[0]):
            if len(inner.regions) or any(value not in known for value in inner.operands):
                raise CannotFissionError("gpu.all_reduce that uses values from outside its region")
            if inner == end:
                break
            new = emit.copy(inner)
            for index, value in enumerate(list(inner.operands)):
                new.operands[index] = known[value]
            known.update(zip(inner.results, new.results, strict=True))
        return known[end.operands[0]]
