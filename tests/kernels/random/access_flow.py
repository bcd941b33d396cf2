"""Control flow of the random kernels about memory: loops that count in several types, and branches."""

from __future__ import annotations

from kernels.random.arrays import FLOATS


class AccessFlow:
    """Mixed into AccessKernel."""

    def _neighbour_statement(self, scope) -> None:
        """An element beside one's own, if it is there."""
        arrays = [a for a in self.arrays if a.role == "in" and a.shape[-1] == "x"]
        if not arrays:
            return
        array = self._pick(arrays)
        last = len(array.shape) - 1
        by = self._let(f"arith.constant {self._pick([-2, -1, 1, 2, 5])} : index", "index", scope)
        place = self._let(f"arith.addi %g, {by} : index", "index", scope)
        low = self._let(f"arith.cmpi sge, {place}, %c0 : index", "i1", scope)
        high = self._let(f"arith.cmpi slt, {place}, {array.extent(last)} : index", "i1", scope)
        inside = self._let(f"arith.andi {low}, {high} : i1", "i1", scope)
        other, out = self._value(array.kind, scope), self._name()
        gives = self.random.random() < 0.5
        self._emit(f"{out} = scf.if {inside} -> {array.kind} {{" if gives else f"scf.if {inside} {{")
        inner = scope.inner()
        indices = self._any(array, inner)
        indices[last] = place
        value = self._load(array, indices, inner)
        if gives:
            self._emit(
                f"scf.yield {value} : {array.kind}", "} else {", f"scf.yield {other} : {array.kind}", "}"
            )
            scope.values.append((out, array.kind))
        else:
            self._statements(inner, self.random.randint(1, 2))
            self._emit("}")

    def _if_statement(self, scope) -> None:
        uniform = scope.together and self.random.random() < 0.5
        if uniform or self.random.random() < 0.3:
            test, number = self._pick(["slt", "eq", "ne", "ugt", "ule"]), self._pick([1, 2, 3])
            condition = self._let(
                f"arith.cmpi {test}, {self._pick(scope.same)}, %c{number} : index", "i1", scope
            )
        else:
            left, right = self._value("i32", scope), self._value("i32", scope)
            condition = self._let(f"arith.cmpi slt, {left}, {right} : i32", "i1", scope)
        kinds = [self._pick(["f32", "f64", "i32", "index"]) for _ in range(self._pick([0, 1, 1, 2]))]
        out, types = self._name(), ", ".join(kinds)
        self._emit(
            f"{out}:{len(kinds)} = scf.if {condition} -> ({types}) {{" if kinds else f"scf.if {condition} {{"
        )
        for number in range(2 if kinds or self.random.random() < 0.4 else 1):
            if number:
                self._emit("} else {")
            inner = scope.inner(together=uniform)
            self._statements(inner, self.random.randint(1 - number, 3))
            if kinds:
                self._emit(f"scf.yield {', '.join(self._value(kind, inner) for kind in kinds)} : {types}")
        self._emit("}")
        scope.values += [(f"{out}#{number}", kind) for number, kind in enumerate(kinds)]

    def _bounds(self, scope, *, uniform: bool) -> tuple[str, str, str]:
        """First, end and step of a loop."""
        array = self._pick(self.arrays)
        lower, step = (
            self._pick(["%c0"] * 4 + ["%c1", "%c2"]),
            self._pick(["%c1"] * 5 + ["%c2", "%c3", "%c7"]),
        )
        if not uniform and self.random.random() < 0.3:
            lower = self._pick(["%g", "%gy", *(name for name, _ in scope.values if name in ("%x", "%t"))])
            if self.random.random() < 0.3:
                lower = self._let(f"arith.addi {lower}, %n0 : index", "index", scope)
            if lower == "%x" and self.random.random() < 0.5:
                step = "%nx"
        inner = [array.extent(axis) for axis, letter in enumerate(array.shape) if letter not in "xy"]
        upper = (
            self._pick(inner * 2 or ["%n0"])
            if self.random.random() < 0.7
            else self._pick(["%n0", "%c8", "%c3"])
        )
        if self.random.random() < 0.1:
            upper, step = "%ex", "%c7"
        elif not uniform and self.random.random() < 0.15:
            upper = self._below("%c5", scope)
        return lower, upper, step

    def _for_statement(self, scope) -> None:
        uniform = scope.together and self.waits and self.random.random() < 0.7
        lower, upper, step = self._bounds(scope, uniform=uniform)
        counts, bounds = self._pick(["index"] * 6 + ["i32", "i64"]), [lower, upper, step]
        if counts != "index":
            bounds = [
                self._let(f"arith.index_cast {bound} : index to {counts}", counts, scope) for bound in bounds
            ]
        kinds = [
            self._pick(["f32", "f32", "f64", "i32", "i8", "index"]) for _ in range(self.random.randint(0, 3))
        ]
        carried = [(self._name(), kind) for kind in kinds]
        out, at, types = self._name(), self._name(), ", ".join(kinds)
        head = f"scf.for {at} = {bounds[0]} to {bounds[1]} step {bounds[2]} "
        if kinds:
            pairs = ", ".join(f"{name} = {self._value(kind, scope)}" for name, kind in carried)
            head = f"{out}:{len(kinds)} = {head}iter_args({pairs}) -> ({types}) "
        self._emit(head + (f": {counts} {{" if counts != "index" else "{"))
        inner = scope.inner(*carried, (at, counts), together=uniform)
        counter = (
            at
            if counts == "index"
            else self._let(f"arith.index_cast {at} : {counts} to index", "index", inner)
        )
        inner.values.append((counter, "index"))
        inner.limits[counter] = upper
        if uniform:
            inner.same.append(counter)
        self._statements(inner, self.random.randint(1, 4))
        following = []
        for name, kind in carried:
            value = self._value(kind, inner)
            if self.random.random() < 0.6:
                op = "addf" if kind in FLOATS else "addi"
                value = self._let(f"arith.{op} {name}, {value} : {kind}", kind, inner)
            following.append(value)
        if kinds:
            self._emit(f"scf.yield {', '.join(following)} : {types}")
        self._emit("}")
        scope.values += [(f"{out}#{number}", kind) for number, kind in enumerate(kinds)]

    def _while_statement(self, scope) -> None:
        uniform = scope.together and self.waits and self.random.random() < 0.5
        start = self._pick(scope.same) if uniform else self._value("index", scope)
        limit = self._let(f"arith.remui {start}, %c{self._pick([3, 5, 7])} : index", "index", scope)
        kind = self._pick(["f32", "i32"])
        out, before, kept, go, at, value = (self._name() for _ in range(6))
        types, initial = f"index, {kind}", self._value(kind, scope)
        self._emit(
            f"{out}:2 = scf.while ({before} = %c0, {kept} = {initial}) : ({types}) -> ({types}) {{",
            f"{go} = arith.cmpi slt, {before}, {limit} : index",
            f"scf.condition({go}) {before}, {kept} : {types}",
            "} do {",
            f"^bb0({at}: index, {value}: {kind}):",
        )
        inner = scope.inner((at, "index"), (value, kind), together=uniform)
        self._statements(inner, self.random.randint(1, 3))
        following = self._value(kind, inner)
        more = self._let(f"arith.addi {at}, %c1 : index", "index", inner)
        self._emit(f"scf.yield {more}, {following} : {types}", "}")
        scope.values += [(f"{out}#0", "index"), (f"{out}#1", kind)]
