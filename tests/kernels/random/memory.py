"""Statements of random kernels that touch memory of one work-item, or count in memory of all."""

from __future__ import annotations

import numpy as np
from kernels.random.scope import CELLS, FLOATS, REAL_CELLS, Group, Scope, Value, put

_OWN = {"addi": np.add, "andi": np.bitwise_and, "maxs": np.maximum, "minu": np.minimum, "assign": None}


class Memory:
    """Mixed into RandomKernel."""

    def _shared(self, value: Value) -> tuple[str, str]:
        """Workgroup memory with an element for each work-item, of the type of ``value``: name, type."""
        if value.text == "i32":
            return "%s", "!shared"
        return self._variable(f"%s_{value.kind}_{value.lanes}", 1024, value.text)

    def _variable(self, name: str, size: int, element: str) -> tuple[str, str]:
        kind = f"memref<{size}x{element}, #gpu.address_space<workgroup>>"
        self.variables[name] = kind
        return name, kind

    def _loaded(self, scope: Scope) -> Value:
        """One of the values that are the same for all, by way of memory: nobody knows that any more."""
        value = self._pick(scope.same)
        self._emit(f"memref.store {value.name}, %s[%t] : !shared")
        return self._new(scope, "i32", "memref.load %s[%t] : !shared", lambda g: g.values[value.name])

    def _load_statement(self, scope: Scope) -> None:
        self._new(scope, "i32", "memref.load %A[%g] : memref<?xi32>", lambda g: g.a)

    def _own_statement(self, scope: Scope) -> None:
        """Only its work-item touches the element of workgroup memory."""
        value = self._pick(scope.of("i32"))
        way = self.random.random()
        if way < 0.4:
            self._emit(f"memref.store {value.name}, %own[%t] : !shared")
            scope.steps.append(lambda g, mask: put(g.own, mask, g.values[value.name]))
        elif way < 0.85:
            self._new(scope, "i32", "memref.load %own[%t] : !shared", lambda g: g.own)
        else:
            self._own_atomic(scope, value, "%own[%t] : (i32, !shared) -> i32", lambda g: g.own)

    def _mine_statement(self, scope: Scope) -> None:
        """Only its work-item touches the element of global memory, which %A may share."""
        value = self._pick(scope.of("i32"))
        way = self.random.random()
        if way < 0.4:
            self._emit(f"memref.store {value.name}, %D[%g] : memref<?xi32>")
            scope.steps.append(lambda g, mask: put(g.d, mask, g.values[value.name]))
        elif way < 0.8:
            self._new(scope, "i32", "memref.load %D[%g] : memref<?xi32>", lambda g: g.d)
        elif way < 0.9:
            self._own_atomic(scope, value, "%D[%g] : (i32, memref<?xi32>) -> i32", lambda g: g.d)
        else:
            self._own_region(scope, value)

    def _own_atomic(self, scope: Scope, value: Value, where: str, memory) -> None:
        """What was there before is known, as nobody else comes."""
        op = self._pick(sorted(_OWN))
        old = self._new(scope, "i32", f"memref.atomic_rmw {op} {value.name}, {where}", memory)

        def step(g: Group, mask: np.ndarray) -> None:
            left, right = g.values[old.name], g.values[value.name]
            if op == "minu":
                left, right = left.view(np.uint32), right.view(np.uint32)
            put(memory(g), mask, right if op == "assign" else _OWN[op](left, right).view(np.int32))

        scope.steps.append(step)

    def _own_region(self, scope: Scope, value: Value) -> None:
        now, three, mixed = self._name(), self._name(), self._name()
        old = self._new(
            scope, "i32",
            f"memref.generic_atomic_rmw %D[%g] : memref<?xi32> {{ ^bb0({now}: i32): "
            f"{three} = arith.muli {now}, %i3 : i32\n {mixed} = arith.xori {three}, {value.name} : i32\n "
            f"memref.atomic_yield {mixed} : i32 }}", lambda g: g.d,
        )  # fmt: skip
        scope.steps.append(lambda g, mask: put(g.d, mask, (g.values[old.name] * 3) ^ g.values[value.name]))

    def _private_statement(self, scope: Scope) -> None:
        """An element of the private array, chosen by a number."""
        kind = f"memref<4x{self.private_kind}, #gpu.address_space<private>>"
        where = self._as(self._pick(scope.of("i32")), "index", scope)
        place = self._name()
        self._emit(f"{place} = arith.andi {where.name}, %c3 : index")
        fitting = scope.of(self.private_kind)
        if fitting and self.random.random() < 0.5:
            value = self._pick(fitting)
            self._emit(f"memref.store {value.name}, %priv[{place}] : {kind}")

            def step(g: Group, mask: np.ndarray) -> None:
                at = np.arange(g.items)[mask], (g.values[where.name] & 3)[mask]
                g.private[at] = g.values[value.name][mask]

            scope.steps.append(step)
        else:
            self._new(scope, self.private_kind, f"memref.load %priv[{place}] : {kind}",
                      lambda g: g.private[np.arange(g.items), g.values[where.name] & 3])  # fmt: skip

    def _atomic_statement(self, scope: Scope) -> None:
        if self.random.random() < 0.3:
            self._real_atomic(scope)
            return
        cell = self.random.randrange(len(CELLS))
        op, value = list(CELLS)[cell], self._pick(scope.of("i32"))
        self._emit(f"{self._name()} = memref.atomic_rmw {op} {value.name}, %K[%c{cell}] "
                   ": (i32, memref<5xi32>) -> i32")  # fmt: skip

        def step(g: Group, mask: np.ndarray) -> None:
            values = np.concatenate([g.cells[cell : cell + 1], g.values[value.name][mask]])
            g.cells[cell] = CELLS[op].reduce(values, dtype=np.int32)

        scope.steps.append(step)

    def _real_atomic(self, scope: Scope) -> None:
        """Whole numbers, whose sums have no order."""
        cell = self.random.randrange(len(REAL_CELLS))
        op = list(REAL_CELLS)[cell]
        small = self._binary("andi", self._pick(scope.of("i32")), Value("%i63", "i32"), scope)
        value = self._as(small, "f64", scope)
        self._emit(f"{self._name()} = memref.atomic_rmw {op} {value.name}, %L[%c{cell}] "
                   ": (f64, memref<3xf64>) -> f64")  # fmt: skip

        def step(g: Group, mask: np.ndarray) -> None:
            values = np.concatenate([g.real_cells[cell : cell + 1], g.values[value.name][mask]])
            g.real_cells[cell] = REAL_CELLS[op].reduce(values)

        scope.steps.append(step)

    def _view_statement(self, scope: Scope) -> None:
        """A memref that outlives a barrier."""
        if self.private and self.random.random() < 0.6 and scope.of(self.private_kind):
            self._private_view(scope)
            return
        view, kind = self._name(), "memref<1xi32, strided<[1], offset: ?>>"
        self._emit(f"{view} = memref.subview %A[%g] [1] [1] : memref<?xi32> to {kind}", "gpu.barrier")
        self._new(scope, "i32", f"memref.load {view}[%c0] : {kind}", lambda g: g.a)

    def _private_view(self, scope: Scope) -> None:
        """Of every other element of private memory, on both sides of a barrier."""
        element = self.private_kind
        view, value, at = self._name(), self._pick(scope.of(element)), self._pick([0, 1])
        space = "#gpu.address_space<private>"
        kind = f"memref<2x{element}, strided<[2], offset: 1>, {space}>"
        self._emit(
            f"{view} = memref.subview %priv[1] [2] [2] : memref<4x{element}, {space}> to {kind}",
            f"memref.store {value.name}, {view}[%c{at}] : {kind}", "gpu.barrier",
        )  # fmt: skip

        def step(g: Group, mask: np.ndarray) -> None:
            g.private[mask, 1 + 2 * at] = g.values[value.name][mask]

        scope.steps.append(step)
        self._new(
            scope, element, f"memref.load {view}[%c{1 - at}] : {kind}", lambda g: g.private[:, 3 - 2 * at]
        )

    def _private_start(self) -> list[str]:
        """Zeros in the private array, which :attr:`private` says how to come by."""
        kind = f"memref<4x{self.private_kind}, #gpu.address_space<private>>"
        zero = "0.0" if self.private_kind in FLOATS else "0"
        lines = [f"%priv = memref.alloca() : {kind}"] if self.private == 1 else []
        return [
            *lines, f"%pzero = arith.constant {zero} : {self.private_kind}",
            f"scf.for %k = %c0 to %c4 step %c1 {{ memref.store %pzero, %priv[%k] : {kind} }}",
        ]  # fmt: skip
