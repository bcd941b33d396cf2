"""Statements of random kernels: calls, and what work-items do together."""

from __future__ import annotations

import numpy as np
from kernels.random.scope import FLOATS, Group, Scope, Value

_REDUCE = {"add": np.add, "mul": np.multiply, "xor": np.bitwise_xor, "or": np.bitwise_or,
           "and": np.bitwise_and, "maxsi": np.maximum, "minsi": np.minimum, "maxui": np.maximum,
           "minui": np.minimum}  # fmt: skip
_REAL_REDUCE = {"add": np.add, "maximumf": np.maximum, "minimumf": np.minimum, "maxnumf": np.fmax,
                "minnumf": np.fmin}  # fmt: skip
_TREES = {"addi": np.add, "maxsi": np.maximum, "xori": np.bitwise_xor}
BINS = 4


class Together:
    """Mixed into RandomKernel."""

    # ---- calls ----

    def _call_statement(self, scope: Scope) -> None:
        vectors = [v for v in scope.values if v.text == "vector<4xi32>"]
        if vectors and scope.of("f32") and self.random.random() < 0.7:
            self._looking_call(scope, self._pick(vectors), self._pick(scope.of("f32")))
            return
        left, right = self._pick(scope.of("i32")), self._pick(scope.of("i32"))
        self._new(scope, "i32", f"func.call @mix({left.name}, {right.name}) : (i32, i32) -> i32",
                  lambda g: (g.values[left.name] * 3) ^ (g.values[right.name] >> 1))  # fmt: skip

    def _looking_call(self, scope: Scope, vector: Value, real: Value) -> None:
        """Of a function with a memref and a vector, and two results."""
        out = self._name()
        self._emit(f"{out}:2 = func.call @look(%A, %g, {vector.name}, {real.name}) : (memref<?xi32>, index, "
                   "vector<4xi32>, f32) -> (i32, f32)")  # fmt: skip

        def step(g: Group, mask: np.ndarray) -> None:
            low, f = g.a < 0, g.values[real.name]
            folded = np.bitwise_xor.reduce(g.values[vector.name], axis=1)
            g.values[f"{out}#0"] = np.where(low, folded, g.a + folded)
            g.values[f"{out}#1"] = np.where(low, f, f + np.float32(0.5))

        scope.steps.append(step)
        scope.values.extend([Value(f"{out}#0", "i32"), Value(f"{out}#1", "f32")])

    def _waiting_call_statement(self, scope: Scope) -> None:
        value = self._pick(scope.of("i32"))
        times = self._pick(["", "%c2", "%ub"])
        if not times:
            self._new(scope, "i32", f"func.call @next({value.name}) : (i32) -> i32",
                      lambda g: np.roll(g.values[value.name], -1))  # fmt: skip
            return

        def compute(g: Group) -> np.ndarray:
            moved = g.values[value.name]
            for turn in range(2 if times == "%c2" else g.block + 2):
                moved = np.roll(moved, -1) + np.int32(turn)
            return moved

        text = f"func.call @further({value.name}, {times}) : (i32, index) -> i32"
        self._new(scope, "i32", text, compute)

    # ---- all of a workgroup ----

    def _barrier_statement(self, scope: Scope) -> None:
        self._emit("gpu.barrier")

    def _reduce_statement(self, scope: Scope) -> None:
        if self.random.random() < 0.3:
            self._real_reduction(scope)
            return
        op, value = self._pick([*sorted(_REDUCE), "region"]), self._pick(scope.of("i8", "i16", "i32", "i64"))
        kind = value.kind
        if op == "region":
            left, right, both = (self._name() for _ in range(3))
            head = (
                f"gpu.all_reduce {value.name} uniform {{ ^bb({left}: {kind}, {right}: {kind}):\n"
                f"{both} = arith.addi {left}, {right} : {kind}\n gpu.yield {both} : {kind} }}"
            )
        else:
            head = f"gpu.all_reduce {op} {value.name} uniform {{}}"
        reduced = self._new(
            scope, kind, f"{head} : ({kind}) -> ({kind})",
            lambda g: np.full(g.items, _reduced("add" if op == "region" else op, g.values[value.name])),
        )  # fmt: skip
        if kind == "i32":
            scope.same.append(reduced)

    def _small(self, scope: Scope, kind: str) -> Value:
        """A whole number: so small that the sum of all work-items' is exact."""
        mask = Value("%i1" if kind == "f16" else "%i63", "i32")
        return self._as(self._binary("andi", self._pick(scope.of("i32")), mask, scope), kind, scope)

    def _real_reduction(self, scope: Scope) -> None:
        op, kind = self._pick(sorted(_REAL_REDUCE)), self._pick(sorted(FLOATS))
        value = self._small(scope, kind)
        self._new(scope, kind, f"gpu.all_reduce {op} {value.name} uniform {{}} : ({kind}) -> ({kind})",
                  lambda g: np.full(g.items, _REAL_REDUCE[op].reduce(g.values[value.name])))  # fmt: skip

    def _made(self, text: str, scope: Scope) -> Value:
        """A new value of the type ``text``."""
        if text.startswith("vector"):
            lanes, kind = text[7:-1].split("x")
            return self._vector(scope, int(lanes), kind)
        if text == "i1":
            return self._bit_statement(scope)
        return self._small(scope, text) if text in FLOATS else self._as(Value("%ti", "i32"), text, scope)

    def _exchange_statement(self, scope: Scope) -> None:
        """A value of a work-item a few places on."""
        text = self._pick(self.exchanged)
        value = self._pick([v for v in scope.values if v.text == text] or [self._made(text, scope)])
        way = self._pick(scope.of("i32"))
        memory, kind = self._shared(value)
        small, index, sum_, place = (self._name() for _ in range(4))
        self._emit(
            f"memref.store {value.name}, {memory}[%t] : {kind}",
            f"{small} = arith.andi {way.name}, %i5 : i32",
            f"{index} = arith.index_cast {small} : i32 to index", f"{sum_} = arith.addi %t, {index} : index",
            "gpu.barrier", f"{place} = arith.remui {sum_}, %n : index",
        )  # fmt: skip
        self._new(scope, value.kind, f"memref.load {memory}[{place}] : {kind}", lambda g: g.values[
            value.name][(g.t + (g.values[way.name] & 5)) % g.items], value.lanes)  # fmt: skip
        self._emit("gpu.barrier")

    def _histogram_statement(self, scope: Scope) -> None:
        """Work-items count in memory of the workgroup."""
        value, way = self._pick(scope.of("i32")), self._pick(scope.of("i32"))
        memory, kind = self._variable("%bins", BINS, "i32")
        bin_, wide, place, old = (self._name() for _ in range(4))
        self._emit(
            f"scf.for %k = %t to %c4 step %n {{ memref.store %i0, {memory}[%k] : {kind} }}",
            f"{bin_} = arith.andi {way.name}, %i3 : i32",
            f"{wide} = arith.index_cast {bin_} : i32 to index", "gpu.barrier",
            f"{old} = memref.atomic_rmw addi {value.name}, {memory}[{wide}] : (i32, {kind}) -> i32",
            "gpu.barrier", f"{place} = arith.andi %t, %c3 : index",
        )  # fmt: skip

        def compute(g: Group) -> np.ndarray:
            bins = np.zeros(BINS, np.int32)
            np.add.at(bins, g.values[way.name] & 3, g.values[value.name])
            return bins[g.t & 3]

        self._new(scope, "i32", f"memref.load {memory}[{place}] : {kind}", compute)
        self._emit("gpu.barrier")

    def _tree_statement(self, scope: Scope) -> None:
        """The reduction that kernels write themselves; only for workgroups of one dimension."""
        size, value = self._pick([4, 16, 64, 256, 1024]), self._pick(scope.of("i32"))
        op = self._pick(sorted(_TREES))
        memory, kind = self._variable(f"%tree{size}", size, "i32")
        fill, half, number, next_, most, first, turns = (self._name() for _ in range(7))
        test, other, low, high, sum_ = (self._name() for _ in range(5))
        rounds = self._pick([size.bit_length() - 1, 2])
        self._emit(
            f"{most} = arith.constant {size} : index", f"{first} = arith.constant {size // 2} : index",
            f"{turns} = arith.constant {rounds} : index",
            f"scf.for {fill} = %x to {most} step %nx {{",
            f"memref.store {value.name}, {memory}[{fill}] : {kind}", "}", "gpu.barrier",
            f"{half} = scf.for %k = %c0 to {turns} step %c1 iter_args({number} = {first}) -> index {{",
            f"{test} = arith.cmpi ult, %x, {number} : index", f"scf.if {test} {{",
            f"{other} = arith.addi %x, {number} : index", f"{low} = memref.load {memory}[%x] : {kind}",
            f"{high} = memref.load {memory}[{other}] : {kind}", f"{sum_} = arith.{op} {low}, {high} : i32",
            f"memref.store {sum_}, {memory}[%x] : {kind}", "}", "gpu.barrier",
            f"{next_} = arith.shrui {number}, %c1 : index", f"scf.yield {next_} : index", "}",
        )  # fmt: skip
        place = self._name()
        self._emit(f"{place} = arith.remui %x, {most} : index")

        def compute(g: Group) -> np.ndarray:
            tree = g.values[value.name][np.arange(size) % g.items]
            for turn in range(1, rounds + 1):
                there = np.arange(min(size >> turn, g.items))
                tree[there] = _TREES[op](tree[there], tree[there + (size >> turn)])
            return tree[g.x % size]

        self._new(scope, "i32", f"memref.load {memory}[{place}] : {kind}", compute)
        self._emit("gpu.barrier")

    # ---- all of a subgroup ----

    def _subgroup_statement(self, scope: Scope) -> None:
        kind = self._pick(["i8", "i16", "i32", "i64", "f32", "f16"])
        if kind in FLOATS:
            op, value = self._pick(sorted(_REAL_REDUCE)), self._small(scope, kind)
        else:
            op, value = self._pick(sorted(_REDUCE)), self._as(self._pick(scope.of("i32")), kind, scope)
        size, stride = self._pick([(0, 1), (0, 1), (2, 1), (4, 1), (8, 1), (16, 2), (4, 4), (4, 8), (32, 1)])
        cluster = f"cluster(size = {size}{f', stride = {stride}' if stride > 1 else ''})" if size else ""

        def compute(g: Group) -> np.ndarray:
            values, lane = g.values[value.name], g.t % g.subgroup
            # Lanes that reduce together have the same number of subgroup, span and place in a stride.
            span = lane // (size * stride) if size else lane * 0
            together = (g.t // g.subgroup, span, lane % stride)
            result = np.empty_like(values)
            for key in set(zip(*(part.tolist() for part in together), strict=True)):
                mine = np.logical_and.reduce([part == k for part, k in zip(together, key, strict=True)])
                result[mine] = _reduced(op, values[mine])
            return result

        self._new(
            scope, kind, f"gpu.subgroup_reduce {op} {value.name} {cluster} : ({kind}) -> ({kind})", compute
        )

    def _shuffle_statement(self, scope: Scope) -> None:
        value = self._pick(scope.of("i8", "i32", "i64", "f32", "f16"))
        mode = self._pick(["xor", "up", "down", "idx"])
        offset, width = self._pick([("%i5", "%i32"), ("%i1", "%i32"), ("%i1", "%i8"), ("%i5", "%i8")])
        by, wide = int(offset[2:]), int(width[2:])
        valid = self._name()
        source = {"xor": lambda i: i ^ by, "up": lambda i: i - by, "down": lambda i: i + by,
                  "idx": lambda i: i * 0 + by}[mode]  # fmt: skip

        def moved(g: Group) -> np.ndarray:
            lane = g.t % g.subgroup
            there = source(lane)
            there = np.where((there >= 0) & (there < wide) & (lane < wide), there, lane)
            place = g.t - lane + there
            return g.values[value.name][np.where(place < g.items, place, g.t)]

        raw = self._name()
        self._emit(f"{raw}, {valid} = gpu.shuffle {mode} {value.name}, {offset}, {width} : {value.kind}")
        self._new(scope, value.kind, f"arith.select {valid}, {raw}, {value.name} : {value.kind}", moved)

    def _lane_statement(self, scope: Scope) -> None:
        """A value of the first lane of its subgroup, or of the next one among eight."""
        value = self._pick(scope.of("i16", "i32", "f32", "f64"))
        if self.random.random() < 0.5:
            self._new(scope, value.kind,
                      f"gpu.subgroup_broadcast {value.name}, specific_lane %i0 : {value.kind}",
                      lambda g: g.by_subgroups(g.values[value.name], lambda v: v[0]))  # fmt: skip
            return
        raw, valid = self._name(), self._name()
        self._emit(f"{raw}, {valid} = gpu.rotate {value.name}, 1, 8 : {value.kind}")

        def turned(g: Group) -> np.ndarray:
            lane = g.t % g.subgroup
            place = g.t - lane + np.where(lane < 8, (lane + 1) % 8, lane)
            return g.values[value.name][np.where(place < g.items, place, g.t)]

        self._new(scope, value.kind, f"arith.select {valid}, {raw}, {value.name} : {value.kind}", turned)


def _reduced(op: str, values: np.ndarray) -> np.generic:
    if values.dtype.kind == "f":
        return _REAL_REDUCE[op].reduce(values)
    seen = values.view(f"u{values.itemsize}") if op.endswith("ui") else values
    return _REDUCE[op].reduce(seen, dtype=seen.dtype).view(values.dtype)


def rounded_sum(values: np.ndarray) -> tuple[float, float]:
    """Return the sum of the float32 ``values`` and the rounding error that docs/explanation/cpu.md allows."""
    exact = values.astype(np.float64)
    unit = float(np.finfo(np.float32).eps) / 2
    return float(exact.sum()), (values.size / 64 + 9) * unit * float(np.abs(exact).sum())
