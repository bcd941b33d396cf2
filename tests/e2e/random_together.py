"""Statements of random kernels: calls, and what work-items do together."""

from __future__ import annotations

import numpy as np
from e2e.random_scope import DTYPES, Group, Scope

_REDUCE = {"add": np.add, "xor": np.bitwise_xor, "or": np.bitwise_or, "and": np.bitwise_and,
           "maxsi": np.maximum, "minsi": np.minimum}  # fmt: skip


class Together:
    """Mixed into RandomKernel."""

    # ---- calls and what work-items do together ----

    def _call_statement(self, scope: Scope) -> None:
        left, right = self._pick(scope.of("i32")), self._pick(scope.of("i32"))
        self._new(scope, "i32", f"func.call @mix({left.name}, {right.name}) : (i32, i32) -> i32",
                  lambda g: (g.values[left.name] * 3) ^ (g.values[right.name] >> 1))  # fmt: skip

    def _waiting_call_statement(self, scope: Scope) -> None:
        value = self._pick(scope.of("i32"))
        self._new(scope, "i32", f"func.call @next({value.name}) : (i32) -> i32",
                  lambda g: np.roll(g.values[value.name], -1))  # fmt: skip

    def _barrier_statement(self, scope: Scope) -> None:
        self._emit("gpu.barrier")

    def _reduce_statement(self, scope: Scope) -> None:
        op, value = self._pick(sorted(_REDUCE)), self._pick(scope.of("i8", "i16", "i32", "i64"))

        def compute(g: Group) -> np.ndarray:
            total = _REDUCE[op].reduce(g.values[value.name], dtype=DTYPES[value.kind])
            return np.full(g.items, total)

        kind = value.kind
        text = f"gpu.all_reduce {op} {value.name} uniform {{}} : ({kind}) -> ({kind})"
        reduced = self._new(scope, kind, text, compute)
        if kind == "i32":
            scope.same.append(reduced)

    def _subgroup_statement(self, scope: Scope) -> None:
        op, value = self._pick(sorted(_REDUCE)), self._pick(scope.of("i16", "i32", "i64"))

        def compute(g: Group) -> np.ndarray:
            rows = g.values[value.name].reshape(-1, 32)
            return np.repeat(_REDUCE[op].reduce(rows, axis=1, dtype=DTYPES[value.kind]), 32)

        text = f"gpu.subgroup_reduce {op} {value.name} : ({value.kind}) -> ({value.kind})"
        self._new(scope, value.kind, text, compute)

    def _shuffle_statement(self, scope: Scope) -> None:
        value = self._pick(scope.of("i32", "i64", "f32"))
        mode, offset = self._pick([("xor", "%i5"), ("up", "%i5"), ("down", "%i5"), ("idx", "%i5")])
        valid = self._name()
        source = {"xor": lambda i: i ^ 5, "up": lambda i: i - 5, "down": lambda i: i + 5,
                  "idx": lambda i: i * 0 + 5}[mode]  # fmt: skip

        def moved(g: Group) -> np.ndarray:
            lane = np.arange(g.items) % 32
            there = source(lane)
            good = (there >= 0) & (there < 32)
            there = np.where(good, there, lane)
            return g.values[value.name][np.arange(g.items) - lane + there]

        raw = self._name()
        self._emit(f"{raw}, {valid} = gpu.shuffle {mode} {value.name}, {offset}, %i32 : {value.kind}")
        self._new(scope, value.kind, f"arith.select {valid}, {raw}, {value.name} : {value.kind}", moved)

    def _exchange_statement(self, scope: Scope) -> None:
        value, way = self._pick(scope.of("i32")), self._pick(scope.of("i32"))
        small, index, sum_, place = (self._name() for _ in range(4))
        self._emit(
            f"memref.store {value.name}, %s[%t] : !shared", f"{small} = arith.andi {way.name}, %i5 : i32",
            f"{index} = arith.index_cast {small} : i32 to index", f"{sum_} = arith.addi %t, {index} : index",
            "gpu.barrier", f"{place} = arith.remui {sum_}, %n : index",
        )  # fmt: skip
        self._new(scope, "i32", f"memref.load %s[{place}] : !shared", lambda g: g.values[value.name][
            (np.arange(g.items) + (g.values[way.name] & 5)) % g.items])  # fmt: skip
        self._emit("gpu.barrier")
