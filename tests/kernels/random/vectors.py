"""Statements of random kernels on vectors."""

from __future__ import annotations

import numpy as np
from kernels.random.scope import FLOATS, Group, Scope, Value

WHOLE = {
    "addi": np.add,
    "subi": np.subtract,
    "xori": np.bitwise_xor,
    "minsi": np.minimum,
    "muli": np.multiply,
}
REAL = {"addf": np.add, "subf": np.subtract, "maximumf": np.maximum, "minnumf": np.fmin}
SHAPES = [(2, "i16"), (3, "i32"), (4, "i32"), (4, "i32"), (8, "i8"), (3, "i64"), (4, "f32"), (2, "f64"),
          (2, "f16"), (3, "f32")]  # fmt: skip


class Vectors:
    """Mixed into RandomKernel."""

    def _vector_statement(self, scope: Scope) -> None:
        """Make one, mix it with an older one, and take something out."""
        lanes, kind = self._pick(SHAPES)
        whole, real = Value("", kind, lanes).text, kind in FLOATS
        mixed = self._vector(scope, lanes, kind)
        first = self._pick([v for v in scope.values if v.text == whole])
        functions = REAL if real else WHOLE
        op = self._pick(sorted(functions))
        mixed = self._new(scope, kind, f"arith.{op} {mixed.name}, {first.name} : {whole}", lambda g, m=mixed:
                          functions[op](g.values[m.name], g.values[first.name]), lanes)  # fmt: skip
        older = self._pick([v for v in scope.values if v.text == whole])
        if self.random.random() < 0.3:
            order = [self.random.randrange(2 * lanes) for _ in range(lanes)]
            older = self._shuffled(scope, mixed, older, order)
        if self.random.random() < 0.5:
            self._new(scope, kind, f"vector.extract {older.name}[{lanes - 1}] : {kind} from {whole}",
                      lambda g: g.values[older.name][:, lanes - 1])  # fmt: skip
        else:
            name, function = ("maximumf", np.maximum) if real else ("xor", np.bitwise_xor)
            self._new(scope, kind, f"vector.reduction <{name}>, {older.name} : {whole} into {kind}",
                      lambda g: function.reduce(g.values[older.name], axis=1))  # fmt: skip

    def _vector(self, scope: Scope, lanes: int, kind: str) -> Value:
        """Two numbers, one of them in one place only."""
        whole = Value("", kind, lanes).text
        if kind in FLOATS:
            value, other = (self._small(scope, kind) for _ in range(2))
        else:
            value, other = (self._as(self._pick(scope.of("i32")), kind, scope) for _ in range(2))
        vector = self._new(scope, kind, f"vector.broadcast {value.name} : {kind} to {whole}",
                           lambda g: np.repeat(g.values[value.name][:, None], lanes, 1), lanes)  # fmt: skip
        place = self._pick(range(lanes))

        def inserted(g: Group) -> np.ndarray:
            result = g.values[vector.name].copy()
            result[:, place] = g.values[other.name]
            return result

        return self._new(scope, kind, f"vector.insert {other.name}, {vector.name} [{place}] : {kind} into "
                         f"{whole}", inserted, lanes)  # fmt: skip

    def _shuffled(self, scope: Scope, left: Value, right: Value, order: list[int]) -> Value:
        text = f"vector.shuffle {left.name}, {right.name} {order} : {left.text}, {right.text}"
        return self._new(scope, left.kind, text, lambda g: np.concatenate(
            [g.values[left.name], g.values[right.name]], axis=1)[:, order], left.lanes)  # fmt: skip
