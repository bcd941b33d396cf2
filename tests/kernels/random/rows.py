"""Statements of random kernels that fission makes other loops of: bounds checks, and loops along rows."""

from __future__ import annotations

import numpy as np
from kernels.random.loops import Bounds
from kernels.random.scope import Group, Scope, Value

_CHECKS = {
    "eq": np.equal, "slt": np.less, "sle": np.less_equal, "sgt": np.greater, "sge": np.greater_equal,
    "ult": np.less, "ule": np.less_equal, "ugt": np.greater, "uge": np.greater_equal,
}  # fmt: skip
_BOUNDS = ["%c0", "%c1", "%c3", "%c4", "%c32", "%ub", "%nx"]


class Rows:
    """Mixed into RandomKernel."""

    def _check_statement(self, scope: Scope) -> None:
        """Something that is done by work-items below, above or at a bound; nothing comes out."""
        bits = [self._check(scope) for _ in range(self._pick([1, 1, 2]))]
        condition = bits[0]
        if len(bits) > 1:
            condition = Value(self._name(), "i1")
            self._emit(f"{condition.name} = arith.andi {bits[0].name}, {bits[1].name} : i1")
        self._emit(f"scf.if {condition.name} {{")
        inner = scope.inner([], [], False, False)
        self._own_statement(inner)
        self._statements(inner, self.random.randint(1, 2))
        self._own_statement(inner)
        self._emit("}")

        def step(g: Group, mask: np.ndarray) -> None:
            active = mask & np.logical_and.reduce([g.values[bit.name] for bit in bits])
            if active.any():
                for inner_step in inner.steps:
                    inner_step(g, active)

        scope.steps.append(step)

    def _check(self, scope: Scope) -> Value:
        predicate = self._pick(sorted(_CHECKS))
        place, bound = self._pick(["%x", "%x", "%t", "%g"]), self._pick(_BOUNDS)
        if self.random.random() < 0.5:
            left, right, kind = place, bound, "index"
        else:
            left, right, kind = self._moved(place, scope), self._pick(scope.same).name, "i32"
            if self.random.random() < 0.3:
                wide = [self._name(), self._name()]
                way = self._pick(["extsi", "extui"])
                self._emit(
                    *(f"{w} = arith.{way} {v} : i32 to i64" for w, v in zip(wide, (left, right), strict=True))
                )
                self.wide.update({w: (v, way) for w, v in zip(wide, (left, right), strict=True)})
                left, right, kind = *wide, "i64"
        swapped = self.random.random() < 0.2
        text = f"{right}, {left}" if swapped else f"{left}, {right}"

        def compute(g: Group) -> np.ndarray:
            a, b = self._number(g, left), self._number(g, right)
            if predicate.startswith("u"):
                a, b = (n.view(np.dtype(f"u{n.dtype.name}")) for n in (a, b))
            return _CHECKS[predicate](b, a) if swapped else _CHECKS[predicate](a, b)

        return self._new(scope, "i1", f"arith.cmpi {predicate}, {text} : {kind}", compute)

    def _moved(self, place: str, scope: Scope) -> str:
        """A work-item's place as an i32, by way of a byte now and then, plus a number that all share."""
        steps = self._pick([["i32"], ["i32"], ["i8", "i32"]])
        value, before = place, "index"
        for kind in steps:
            op = "index_cast" if before == "index" else "extui"
            name = self._name()
            self._emit(f"{name} = arith.{op} {value} : {before} to {kind}")
            value, before = name, kind
        other, moved = self._pick(scope.same), self._name()
        self._emit(f"{moved} = arith.addi {value}, {other.name} : i32")
        mask = 0xFF if len(steps) > 1 else -1
        scope.steps.append(lambda g, _: g.values.update({
            moved: (self._number(g, place) & mask).astype(np.int32) + g.values[other.name]}))  # fmt: skip
        return moved

    def _number(self, g: Group, name: str) -> np.ndarray:
        if name in self.wide:
            narrow, way = self.wide[name]
            value = self._number(g, narrow)
            return (value if way == "extsi" else value.view(np.uint32)).astype(np.int64)
        t = np.arange(g.items)
        known = {
            "%x": g.x,
            "%t": t,
            "%g": t + g.block * g.items,
            "%ub": t * 0 + g.block + 2,
            "%nx": t * 0 + g.nx,
        }
        if name in g.values:
            return g.values[name]
        return known[name] if name in known else t * 0 + int(name[2:])

    def _rows_statement(self, scope: Scope) -> None:
        """A loop without barriers, the same for all or from the work-item's x on, over neighbours' memory."""
        strided = self.random.random() < 0.5 and not self.shares
        lower, upper, by = ("%x", "%n", "%nx") if strided else (self._pick(["%c0", "%c1"]), "%ub", "%c1")
        if strided and self.random.random() < 0.5:
            lower = self._name()
            self._emit(f"{lower} = arith.addi %x, %ub : index")
        loop = self._loop(self._carried(scope))
        self._emit(*loop.opening(lower, upper, by))
        inner = scope.inner([*loop.carried, loop.number], [], False, False)
        number = loop.number.name
        if strided:
            place = self._name()
            self._emit(f"{place} = arith.addi %base, {loop.counter} : index")
            loaded = self._new(inner, "i32", f"memref.load %A[{place}] : memref<?xi32>",
                               lambda g: g.a[np.minimum(g.values[number], g.items - 1)])  # fmt: skip
        else:
            loaded = self._new(inner, "i32", "memref.load %A[%g] : memref<?xi32>", lambda g: g.a)
        self._binary("addi", loop.carried[0], loaded, inner)
        self._statements(inner, self.random.randint(0, 2))
        follow = self._following(loop.carried, inner)
        self._emit(*loop.closing(follow))

        def bounds(g: Group) -> Bounds:
            t = np.arange(g.items)
            start = (
                t * 0 + int(lower[2:]) if lower.startswith("%c") else g.x + (lower != "%x") * (g.block + 2)
            )
            return (start, g.items, g.nx) if strided else (start, g.block + 2, 1)

        scope.steps.append(loop.step(inner.steps, follow, bounds))
        scope.values.extend(loop.results)
