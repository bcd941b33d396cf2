"""Statements of random kernels: loops and conditions, in every form that MLIR has."""

from __future__ import annotations

import numpy as np
from kernels.random.scope import Group, Scope, Value, where


class ControlFlow:
    """Mixed into RandomKernel."""

    # ---- control flow ----

    def _carried(self, scope: Scope) -> list[Value]:
        reals = scope.of("f32") if self.rows else []
        others = reals or [v for v in scope.values if v.kind != "i1"]
        return [self._pick(scope.of("i32")), self._pick(others)]

    def _following(self, kinds: list[Value], inner: Scope) -> list[Value]:
        """Values to go on with, of the types of ``kinds``; rather new than old ones."""
        return [self._pick([v for v in inner.values if v.text == kind.text][-4:]) for kind in kinds]

    def _bounds(self, scope: Scope) -> tuple[str, str, bool, bool]:
        """Of a loop: first and last, and whether all of the workgroup, of a subgroup, run it together.

        All may begin at their own places and still have as many iterations.
        """
        together = scope.together and self.random.random() < 0.7
        if together and self.random.random() < 0.2:
            return "%t3", "%u3", True, scope.lanes
        if together and self.random.random() < 0.3:
            small = self._binary("andi", self._loaded(scope), Value("%i5", "i32"), scope)
            return "%c1", self._as(small, "index", scope).name, True, scope.lanes
        upper = self._pick(["%c0", "%c1", "%c3", "%ub"] if together else ["%t3", "%t3", "%ub", "%sg3"])
        together = scope.together and upper not in ("%t3", "%sg3")
        return self._pick(["%c0", "%c0", "%c1", "%c2"]), upper, together, scope.lanes and upper != "%t3"

    def _for_statement(self, scope: Scope) -> None:
        lower, upper, together, lanes = self._bounds(scope)
        by = self._pick(["%c1", "%c2"])
        loop = self._loop([*self._carried(scope), self._pick(scope.same)])
        self._emit(*loop.opening(lower, upper, by))
        shared = loop.carried[2]
        same = [shared] if lower == "%t3" else [loop.number, shared]
        inner = scope.inner([*loop.carried, loop.number], same, together, lanes)
        self._statements(inner, self.random.randint(1, 6 if self.rows and together else 3))
        follow = self._following(loop.carried[:2], inner)
        follow.append(self._binary("addi", shared, self._pick(inner.same), inner))
        self._emit(*loop.closing(follow))
        scope.steps.append(
            loop.step(inner.steps, follow, lambda g: (_bound(g, lower), _bound(g, upper), _bound(g, by)))
        )
        scope.values.extend(loop.results)
        if together:
            scope.same.append(loop.results[2])

    def _parallel_statement(self, scope: Scope) -> None:
        """Sums up one value of each iteration."""
        lower, upper, together, lanes = self._bounds(scope)
        value, counter, out = self._pick(scope.of("i32")), self._name(), Value(self._name(), "i32")
        number = Value(self._name(), "i32")
        self._emit(
            f"{out.name} = scf.parallel ({counter}) = ({lower}) to ({upper}) step (%c1) "
            f"init ({value.name}) -> i32 {{",
            f"{number.name} = arith.index_cast {counter} : index to i32",
        )
        inner = scope.inner([number], [] if lower == "%t3" else [number], together, lanes)
        self._statements(inner, self.random.randint(1, 2))
        part = self._pick(inner.of("i32")[-4:])
        left, right, total = self._name(), self._name(), self._name()
        self._emit(
            f"scf.reduce({part.name} : i32) {{ ^bb0({left}: i32, {right}: i32):",
            f"{total} = arith.addi {left}, {right} : i32", f"scf.reduce.return {total} : i32 }}", "}",
        )  # fmt: skip

        def step(g: Group, mask: np.ndarray) -> None:
            at, stop, state = _bound(g, lower), _bound(g, upper), g.values[value.name]
            while (active := mask & (at < stop)).any():
                g.values[number.name] = at.astype(np.int32)
                for inner_step in inner.steps:
                    inner_step(g, active)
                state = np.where(active, state + g.values[part.name], state)
                at = at + 1
            g.values[out.name] = state

        scope.steps.append(step)
        scope.values.append(out)

    def _while_statement(self, scope: Scope) -> None:
        """Runs while a counter, taken along, is below a bound; as branches in half of the cases."""
        uniform = scope.together and self.random.random() < 0.8
        if uniform:
            bound = self._loaded(scope) if self.random.random() < 0.5 else Value("%bi", "i32")
            lanes = scope.lanes
        else:
            lanes = scope.lanes and self.random.random() < 0.7
            bound = Value("%sgi", "i32") if lanes else self._pick(scope.of("i32"))
        limit = self._binary("andi", bound, Value("%i5", "i32"), scope)
        value = self._pick(scope.of("i32"))
        out, go, count = self._name(), self._name(), self._name()
        branches = self.random.random() < 0.5
        counter, inside = Value(self._name(), "i32"), Value(self._name(), "i32")
        before, kept = (counter.name, inside.name) if branches else (self._name(), self._name())
        test = f"{go} = arith.cmpi slt, {before}, {limit.name} : i32"
        if branches:
            self._emit(
                f"{out}:2 = scf.execute_region -> (i32, i32) {{",
                f"cf.br ^head(%i0, {value.name} : i32, i32)", f"^head({before}: i32, {kept}: i32):", test,
                f"cf.cond_br {go}, ^body, ^end", "^body:",
            )  # fmt: skip
        else:
            self._emit(
                f"{out}:2 = scf.while ({before} = %i0, {kept} = {value.name}) : (i32, i32) -> (i32, i32) {{",
                test, f"scf.condition({go}) {before}, {kept} : i32, i32", "} do {",
                f"^bb0({counter.name}: i32, {inside.name}: i32):",
            )  # fmt: skip
        inner = scope.inner([counter, inside], [counter] if uniform else [], uniform, lanes)
        self._statements(inner, self.random.randint(1, 2))
        follow = self._pick(inner.of("i32")[-4:])
        self._emit(f"{count} = arith.addi {counter.name}, %i1 : i32")
        if branches:
            self._emit(
                f"cf.br ^head({count}, {follow.name} : i32, i32)", "^end:",
                f"scf.yield {before}, {kept} : i32, i32", "}",
            )  # fmt: skip
        else:
            self._emit(f"scf.yield {count}, {follow.name} : i32, i32", "}")

        def step(g: Group, mask: np.ndarray) -> None:
            at, state = np.zeros(g.items, np.int32), g.values[value.name]
            stop = g.values[limit.name]
            while (active := mask & (at < stop)).any():
                g.values[counter.name], g.values[inside.name] = at, state
                for inner_step in inner.steps:
                    inner_step(g, active)
                state = np.where(active, g.values[follow.name], state)
                at = np.where(active, at + 1, at).astype(np.int32)
            g.values[f"{out}#0"], g.values[f"{out}#1"] = at, state

        scope.steps.append(step)
        scope.values.extend([Value(f"{out}#0", "i32"), Value(f"{out}#1", "i32")])

    def _switch_statement(self, scope: Scope) -> None:
        """By a number that all share, or by their own."""
        uniform = scope.together and self.random.random() < 0.6
        if uniform and self.random.random() < 0.5:
            small = self._binary("andi", self._loaded(scope), Value("%i3", "i32"), scope)
            number = self._as(small, "index", scope).name
        else:
            number = "%ub" if uniform else "%t3"
        out, branches = self._name(), []
        kind = self._pick([v for v in scope.values if v.kind != "i1"])
        self._emit(f"{out}:2 = scf.index_switch {number} -> i32, {kind.text}")
        for label in ("case 0", "case 2", "default"):
            self._emit(f"{label} {{")
            inner = scope.inner([], [], uniform, scope.lanes and uniform)
            self._statements(inner, self.random.randint(0, 2))
            follow = self._following([Value("", "i32"), kind], inner)
            branches.append((inner.steps, follow))
            self._emit(f"scf.yield {follow[0].name}, {follow[1].name} : i32, {kind.text}", "}")
        results = [Value(f"{out}#0", "i32"), Value(f"{out}#1", kind.kind, kind.lanes)]

        def step(g: Group, mask: np.ndarray) -> None:
            chosen = _bound(g, number)
            masks = [chosen == 0, chosen == 2, (chosen != 0) & (chosen != 2)]
            state = [np.zeros(g.items, np.int32), np.zeros_like(g.values[kind.name])]
            for (steps, follow), taken in zip(branches, masks, strict=True):
                if (active := mask & taken).any():
                    for inner_step in steps:
                        inner_step(g, active)
                    state = [where(active, g.values[v.name], s) for v, s in zip(follow, state, strict=True)]
            g.values.update({v.name: s for v, s in zip(results, state, strict=True)})

        scope.steps.append(step)
        scope.values.extend(results)

    def _if_statement(self, scope: Scope) -> None:
        uniform = scope.together and self.random.random() < 0.6
        lanes = scope.lanes and (uniform or self.random.random() < 0.7)
        if uniform and self.random.random() < 0.4:
            loaded = self._loaded(scope).name
            bit = self._new(
                scope, "i1", f"arith.cmpi slt, {loaded}, %i5 : i32", lambda g: g.values[loaded] < 5
            )
            condition = bit.name
        elif uniform:
            condition = "%first"
        else:
            condition = "%sgodd" if lanes else self._pick([*(v.name for v in scope.of("i1")), "%odd"])
        out, kinds = self._name(), [*self._carried(scope), self._pick(scope.same)]
        texts = ", ".join(v.text for v in kinds)
        self._emit(f"{out}:3 = scf.if {condition} -> ({texts}) {{")
        branches = []
        for number in range(2):
            inner = scope.inner([], [], uniform, lanes)
            self._statements(inner, self.random.randint(number == 0, 2))
            follow = [*self._following(kinds[:2], inner), self._pick(inner.same)]
            branches.append((inner.steps, follow))
            self._emit(
                f"scf.yield {', '.join(v.name for v in follow)} : {texts}", "}" if number else "} else {"
            )
        results = [Value(f"{out}#{i}", v.kind, v.lanes) for i, v in enumerate(kinds)]

        def step(g: Group, mask: np.ndarray) -> None:
            chosen = _condition(g, condition)
            state = [np.zeros_like(g.values[v.name]) for v in kinds]
            for (steps, follow), active in zip(branches, (mask & chosen, mask & ~chosen), strict=True):
                if active.any():
                    for inner_step in steps:
                        inner_step(g, active)
                    state = [where(active, g.values[v.name], s) for v, s in zip(follow, state, strict=True)]
            g.values.update({v.name: s for v, s in zip(results, state, strict=True)})

        scope.steps.append(step)
        scope.values.extend(results)
        if uniform:
            scope.same.append(results[2])


def _bound(group: Group, name: str) -> np.ndarray:
    t = np.arange(group.items)
    known = {"%ub": t * 0 + group.block + 2, "%t3": t % 3, "%u3": t % 3 + 3, "%sg3": t // group.subgroup % 3}
    if name in group.values:
        return group.values[name]
    return known[name] if name in known else t * 0 + int(name[2:])


def _condition(group: Group, name: str) -> np.ndarray:
    t = np.arange(group.items)
    known = {"%first": t * 0 + group.block == 1, "%odd": t % 3 == 1, "%sgodd": t // group.subgroup % 3 == 1}
    return known[name] if name in known else group.values[name]
