"""Random functions on tensors of integers, for `pipeline: linalg`, and what NumPy computes.

Types give some sizes and leave others open. Operations use results of others again, as their inputs and as
what they change, so that much depends on which tensors share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from kernels.random.tensor_generic import COMBINE, GenericOperations
from kernels.random.tensor_values import DTYPES, FILLED, LARGEST, Arrays, Step, Tensor

NAMED = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


class TensorFunction(GenericOperations):
    """A function with `llvm.emit_c_interface`, and its operations as steps on arrays."""

    def __init__(self, seed: int) -> None:
        self.name = f"f{seed}"
        super().__init__(seed)
        self._depth = 0
        self._arguments = self._values[:]
        self._flags = {f"%p{n}": self.random.random() < 0.5 for n in range(2)}
        self._block(self.random.randint(2, 9))
        results = self.random.choices(self._values[-6:], k=self.random.choice([0, 0, 1, 2]))
        self._results = [self._values[-1], *results]
        self.text = self._function()

    def _function(self) -> str:
        arguments = [f"{v.name}: {v.type}" for v in self._arguments]
        arguments += [f"{flag}: i1" for flag in self._flags]
        arguments += [f"{name}: index" for name in self._indices.values()]
        names = ", ".join(v.name for v in self._results)
        types = ", ".join(v.type for v in self._results)
        head = f"func.func @{self.name}({', '.join(arguments)}) -> ({types})"
        head += " attributes {llvm.emit_c_interface} {"
        return "\n".join([head, *self._lines, f"return {names} : {types}", "}", ""])

    def difference(self, call: Callable[..., object]) -> str:
        """Call the function; return what is not as NumPy has it, or nothing."""
        numbers = np.random.default_rng(int(self.name[1:]))
        given = [numbers.integers(-50, 50, v.sizes).astype(DTYPES[v.kind]) for v in self._arguments]
        arrays = {v.name: array.copy() for v, array in zip(self._arguments, given, strict=True)}
        kept = list(arrays.values())
        with np.errstate(all="ignore"):
            for step in self._steps:
                step(arrays)
        wanted = [arrays[v.name] for v in self._results]
        found = [np.full(array.shape, 77, array.dtype) for array in wanted]
        call(*given, *self._flags.values(), *self._indices, *found)
        for what, arrays_found, right in (("result", found, wanted), ("argument", given, kept)):
            for number, (array, expected) in enumerate(zip(arrays_found, right, strict=True)):
                if not np.array_equal(array, expected):
                    wrong = np.sum(array != expected)
                    return f"{what} {number}: {wrong} of {array.size} elements are wrong\n{self.text}"
        return ""

    def _block(self, count: int) -> None:
        while count:
            before = len(self._lines)
            if self.random.choice(OPERATIONS)(self):
                count -= 1
            else:
                del self._lines[before:]

    # ---- linalg ----

    def _product(self) -> bool:
        a = self._pick(lambda v: v.rank in (2, 3))
        b = a and self._pick(lambda v: (v.kind, v.rank, v.sizes[:-2]) == (a.kind, a.rank, a.sizes[:-2])
                             and v.sizes[-2] == a.sizes[-1])  # fmt: skip
        if a is None or b is None or prod(a.sizes) * b.sizes[-1] > 1_000_000:
            return False
        result = self._tensor((*a.sizes[:-1], b.sizes[-1]), a.kind)
        if prod(result.sizes) > LARGEST:
            return False
        init = self._pick(lambda v: (v.type, v.sizes) == (result.type, result.sizes))
        out = init.name if init else self._filled(result, FILLED)
        name = "matmul" if a.rank == 2 else "batch_matmul"
        ins = f"ins({a.name}, {b.name} : {a.type}, {b.type})"
        text = f"linalg.{name} {ins} outs({out} : {result.type}) -> {result.type}"
        return self._add(result, text, lambda arrays: (
            (arrays[init.name] if init else FILLED) + arrays[a.name] @ arrays[b.name]
        ))  # fmt: skip

    def _convolution(self) -> bool:
        a = self._pick(lambda v: v.rank in (1, 2) and all(v.sizes))
        if a is None:
            return False
        window = tuple(self.random.randint(1, min(3, n)) for n in a.sizes)
        weights = self._numbers(window, a.kind)
        known = (True,) * a.rank
        w = Tensor(self._name(), a.kind, window, known)
        self._lines.append(f"{w.name} = arith.constant dense<{weights.tolist()}> : {w.type}")
        result = self._tensor([n - k + 1 for n, k in zip(a.sizes, window, strict=True)], a.kind)
        out = self._filled(result, FILLED)
        ins = f"ins({a.name}, {w.name} : {a.type}, {w.type})"
        text = f"linalg.conv_{a.rank}d {ins} outs({out} : {result.type}) -> {result.type}"

        def compute(arrays: Arrays) -> np.ndarray:
            windows = np.lib.stride_tricks.sliding_window_view(arrays[a.name], window)
            return FILLED + np.sum(
                windows * weights, axis=tuple(range(a.rank, 2 * a.rank)), dtype=weights.dtype
            )

        return self._add(result, text, compute)

    def _elementwise(self) -> bool:
        """A named operation, or `arith` on whole tensors."""
        a = self._pick()
        b = a and self._pick(lambda v: (v.type, v.sizes) == (a.type, a.sizes))
        if a is None or b is None:
            return False
        result = self._tensor(a.sizes, a.kind, a.known)
        if self.random.random() < 0.5:
            name = self.random.choice(list(NAMED))
            ins, out = f"ins({a.name}, {b.name} : {a.type}, {b.type})", self._empty(result)
            text, run = f"linalg.{name} {ins} outs({out} : {a.type}) -> {a.type}", NAMED[name]
        else:
            name = self.random.choice(list(COMBINE)[:5])  # upstream crashes at x ^ x of an unknown shape
            text, run = f"arith.{name} {a.name}, {b.name} : {a.type}", COMBINE[name]
        return self._add(result, text, lambda arrays: run(arrays[a.name], arrays[b.name]))

    def _transpose(self) -> bool:
        a = self._pick(lambda v: v.rank >= 2)
        if a is None:
            return False
        order = self.random.sample(range(a.rank), a.rank)
        result = self._tensor([a.sizes[d] for d in order], a.kind, [a.known[d] for d in order])
        ins, out = f"ins({a.name} : {a.type})", f"outs({self._empty(result)} : {result.type})"
        text = f"linalg.transpose {ins} {out} permutation = {order}"
        return self._add(result, text, lambda arrays: arrays[a.name].transpose(order).copy())

    def _broadcast(self) -> bool:
        a = self._pick(lambda v: v.rank <= 2)
        n = self.random.choice(self._sizes)
        if a is None or prod(a.sizes) * n > LARGEST:
            return False
        d = self.random.randint(0, a.rank)
        known = (*a.known[:d], self.random.random() < 0.5, *a.known[d:])
        result = self._tensor((*a.sizes[:d], n, *a.sizes[d:]), a.kind, known)
        ins, out = f"ins({a.name} : {a.type})", f"outs({self._empty(result)} : {result.type})"
        text = f"linalg.broadcast {ins} {out} dimensions = [{d}]"
        return self._add(result, text, lambda arrays: np.repeat(np.expand_dims(arrays[a.name], d), n, d))

    # ---- parts and shapes ----

    def _part(self, sizes: Sequence[int]) -> tuple[str, tuple[slice, ...], list[int], list[bool]]:
        """Offsets, sizes and strides inside of ``sizes``, as text and as slices; which sizes are known."""
        rng, texts, slices, known = (
            self.random,
            [list[str](), list[str](), list[str]()],
            list[slice](),
            list[bool](),
        )
        for n in sizes:
            stride = rng.choice([1, 1, 1, 2, 3])
            extent = rng.randint(1, (n - 1) // stride + 1)
            if rng.random() < 0.3:
                extent, stride = n, 1
            end = (extent - 1) * stride + 1
            offset = rng.randint(0, n - end)
            slices.append(slice(offset, offset + end, stride))
            known.append(rng.random() < 0.6)
            texts[0].append(str(offset) if rng.random() < 0.6 else self._index(offset))
            texts[1].append(str(extent) if known[-1] else self._index(extent))
            texts[2].append(str(stride))
        extents = [len(range(n)[part]) for n, part in zip(sizes, slices, strict=True)]
        return "".join(f"[{', '.join(text)}]" for text in texts), tuple(slices), extents, known

    def _extract_slice(self) -> bool:
        a = self._pick(lambda v: bool(v.rank) and all(v.sizes))
        if a is None:
            return False
        text, slices, sizes, known = self._part(a.sizes)
        result = self._tensor(sizes, a.kind, known)
        text = f"tensor.extract_slice {a.name}{text} : {a.type} to {result.type}"
        return self._add(result, text, lambda arrays: arrays[a.name][slices].copy())

    def _insert_slice(self) -> bool:
        into = self._pick(lambda v: bool(v.rank) and all(v.sizes))
        if into is None:
            return False
        text, slices, sizes, known = self._part(into.sizes)
        a = self._pick(lambda v: v.kind == into.kind and v.sizes == tuple(sizes))
        part = self._tensor(sizes, into.kind, known)
        cast = a and f"tensor.cast {a.name} : {a.type} to {part.type}"
        name = self._let(cast) if cast else self._filled(part, 6)
        result = self._tensor(into.sizes, into.kind, into.known)

        def compute(arrays: Arrays) -> np.ndarray:
            whole = arrays[into.name].copy()
            whole[slices] = arrays[a.name] if a else 6
            return whole

        return self._add(
            result,
            f"tensor.insert_slice {name} into {into.name}{text} : {part.type} into {into.type}",
            compute,
        )

    def _pad(self) -> bool:
        a = self._pick(lambda v: v.rank in (1, 2, 3) and all(v.sizes))
        if a is None:
            return False
        low, high = ([self.random.choice([0, 0, 1, 2, 5]) for _ in a.sizes] for _ in range(2))
        widths = list(zip(low, high, strict=True))
        result = self._tensor([n + sum(w) for n, w in zip(a.sizes, widths, strict=True)], a.kind, a.known)
        if prod(result.sizes) > LARGEST:
            return False
        edge = self._constant(9, a.kind)
        indices = ", ".join(f"{self._name()}: index" for _ in a.sizes)
        text = f"tensor.pad {a.name} low{low} high{high} {{\n^bb0({indices}):\n"
        text += f"  tensor.yield {edge} : {a.kind}\n}} : {a.type} to {result.type}"
        return self._add(result, text, lambda arrays: np.pad(arrays[a.name], widths, constant_values=9))

    def _concat(self) -> bool:
        a = self._pick(lambda v: bool(v.rank) and all(v.sizes))
        d = self.random.randrange(a.rank) if a else 0
        rest = lambda v: (v.kind, v.rank, v.sizes[:d], v.sizes[d + 1 :])  # noqa: E731
        b = a and self._pick(lambda v: rest(v) == rest(a) and all(v.sizes))
        if a is None or b is None or prod(a.sizes) + prod(b.sizes) > LARGEST:
            return False
        known = [x or y for x, y in zip(a.known, b.known, strict=True)]
        known[d] = a.known[d] and b.known[d]
        result = self._tensor((*a.sizes[:d], a.sizes[d] + b.sizes[d], *a.sizes[d + 1 :]), a.kind, known)
        text = f"tensor.concat dim({d}) {a.name}, {b.name} : ({a.type}, {b.type}) -> {result.type}"
        return self._add(result, text, lambda arrays: np.concatenate([arrays[a.name], arrays[b.name]], d))

    def _collapse(self) -> bool:
        a = self._pick(lambda v: v.rank >= 2 and all(v.sizes))
        if a is None:
            return False
        d = self.random.randrange(a.rank - 1)
        groups = [[n] for n in range(d)] + [[d, d + 1]] + [[n] for n in range(d + 2, a.rank)]
        sizes = [prod(a.sizes[n] for n in group) for group in groups]
        result = self._tensor(sizes, a.kind, [all(a.known[n] for n in group) for group in groups])
        text = f"tensor.collapse_shape {a.name} {groups} : {a.type} into {result.type}"
        return self._add(result, text, lambda arrays: arrays[a.name].reshape(sizes))

    def _expand(self) -> bool:
        a = self._pick(lambda v: 1 <= v.rank <= 3)
        if a is None:
            return False
        d = self.random.randrange(a.rank)
        outer = self.random.choice([n for n in range(1, a.sizes[d] + 1) if a.sizes[d] % n == 0] or [1])
        sizes = [*a.sizes[:d], outer, a.sizes[d] // outer, *a.sizes[d + 1 :]]
        groups = [[n] for n in range(d)] + [[d, d + 1]] + [[n + 1] for n in range(d + 1, a.rank)]
        both = [(True, True)] if a.known[d] else [(False, True), (True, False), (False, False)]
        known = (*a.known[:d], *self.random.choice(both), *a.known[d + 1 :])
        result = self._tensor(sizes, a.kind, known)
        shape = [str(n) if is_known else self._index(n) for n, is_known in zip(sizes, known, strict=True)]
        text = f"tensor.expand_shape {a.name} {groups} output_shape [{', '.join(shape)}]"
        text += f" : {a.type} into {result.type}"
        return self._add(result, text, lambda arrays: arrays[a.name].reshape(sizes))

    def _cast(self) -> bool:
        a = self._pick(lambda v: v.rank >= 1)
        if a is None:
            return False
        result = self._tensor(a.sizes, a.kind, [self.random.random() < 0.5 for _ in a.sizes])
        return self._add(
            result, f"tensor.cast {a.name} : {a.type} to {result.type}", lambda arrays: arrays[a.name]
        )

    def _generate(self) -> bool:
        result = self._tensor(self._some_sizes(2))
        if not result.rank:
            return False
        sizes = [self._index(n) for n, known in zip(result.sizes, result.known, strict=True) if not known]
        indices = [self._name() for _ in result.sizes]
        cast, arguments = self._name(), ", ".join(f"{name}: index" for name in indices)
        text = f"tensor.generate {', '.join(sizes)} {{\n^bb0({arguments}):\n"
        text += f"  {cast} = arith.index_cast {indices[-1]} : index to {result.kind}\n"
        text += f"  tensor.yield {cast} : {result.kind}\n}} : {result.type}"
        numbers = np.arange(result.sizes[-1]).astype(DTYPES[result.kind])
        return self._add(result, text, lambda _: np.broadcast_to(numbers, result.sizes).copy())

    def _constants(self) -> bool:
        sizes = self._some_sizes(self.random.choice([1, 2]))
        if not 0 < prod(sizes) <= 500:
            return False
        result = self._tensor(sizes, known=(True,) * len(sizes))
        numbers = self._numbers(sizes, result.kind)
        return self._add(
            result, f"arith.constant dense<{numbers.tolist()}> : {result.type}", lambda _: numbers
        )

    def _element(self) -> bool:
        """Move one element, on the host."""
        a = self._pick(lambda v: bool(v.rank) and all(v.sizes))
        b = a and self._pick(lambda v: v.kind == a.kind and bool(v.rank) and all(v.sizes))
        if a is None or b is None:
            return False
        places = [tuple(self.random.randrange(n) for n in v.sizes) for v in (a, b)]
        at, to = (", ".join(map(self._index, place)) for place in places)
        one = self._let(f"tensor.extract {a.name}[{at}] : {a.type}")
        result = self._tensor(b.sizes, b.kind, b.known)

        def compute(arrays: Arrays) -> np.ndarray:
            whole = arrays[b.name].copy()
            whole[places[1]] = arrays[a.name][places[0]]
            return whole

        return self._add(result, f"tensor.insert {one} into {b.name}[{to}] : {b.type}", compute)

    # ---- control flow ----

    def _region(
        self, count: int, wanted: list[Tensor], carried: list[Tensor]
    ) -> tuple[list[Step], list[str]]:
        """Operations in a region, and what it yields for each wanted tensor."""
        outer, steps = self._values, self._steps
        self._values, self._steps = [*outer, *carried], []
        self._depth += 1
        self._block(count)
        self._depth -= 1
        yields = []
        for value in wanted:
            same = [v for v in self._values if v.kind == value.kind and v.sizes == value.sizes]
            new = [v for v in same if v not in outer and v not in carried]
            found = self.random.choice(new if new and self.random.random() < 0.8 else same)
            yields.append(Tensor(self._name(), value.kind, value.sizes, value.known))
            self._add(yields[-1], f"tensor.cast {found.name} : {found.type} to {value.type}",
                      lambda arrays, found=found: arrays[found.name])  # fmt: skip
        inner, self._values, self._steps = self._steps, outer, steps
        return inner, [v.name for v in yields]

    def _loop(self) -> bool:
        """`scf.for` or `scf.while` that carries tensors."""
        starts = [v for v in (self._pick() for _ in range(self.random.choice([1, 1, 2]))) if v]
        if self._depth >= 2 or not starts:
            return False
        trips = self.random.choice([0, 1, 2, 3, 5])
        low, high, one = self._constant(0), self._index(trips), self._constant(1)
        carried, results, seen = ([self._tensor(v.sizes, v.kind, v.known) for v in starts] for _ in range(3))
        types = ", ".join(v.type for v in results)
        after, before = (", ".join(v.name for v in values) for values in (results, seen))
        counter, next_counter, go = self._name(), self._name(), self._name()
        counts = self.random.random() < 0.7
        if counts:
            given = ", ".join(f"{c.name} = {s.name}" for c, s in zip(carried, starts, strict=True))
            self._lines.append(
                f"{after} = scf.for {counter} = {low} to {high} step {one} iter_args({given}) -> ({types}) {{"
            )
        else:
            given = ", ".join(f"{c.name} = {s.name}" for c, s in zip(seen, starts, strict=True))
            arguments = ", ".join(f"{v.name}: {v.type}" for v in carried)
            self._lines += [
                f"{self._name()}, {after} = scf.while ({next_counter}i = {low}, {given})",
                f"  : (index, {types}) -> (index, {types}) {{",
                f"{go} = arith.cmpi ult, {next_counter}i, {high} : index",
                f"scf.condition({go}) {next_counter}i, {before} : index, {types}",
                f"}} do {{\n^bb0({counter}: index, {arguments}):",
            ]
        inner, yields = self._region(self.random.randint(1, 3), carried, carried)
        if not counts:
            self._lines.append(f"{next_counter} = arith.addi {counter}, {one} : index")
        head, kinds = ("", "") if counts else (f"{next_counter}, ", "index, ")
        self._lines += [f"scf.yield {head}{', '.join(yields)} : {kinds}{types}", "}"]

        def step(arrays: Arrays) -> None:
            arrays |= {c.name: arrays[s.name] for c, s in zip(carried, starts, strict=True)}
            for _ in range(trips):
                for run in inner:
                    run(arrays)
                arrays |= {c.name: arrays[new] for c, new in zip(carried, yields, strict=True)}
            arrays |= {r.name: arrays[c.name] for r, c in zip(results, carried, strict=True)}

        self._steps.append(step)
        self._values += results
        return True

    def _branch(self) -> bool:
        model = self._pick()
        if self._depth >= 2 or model is None:
            return False
        flag = self.random.choice(list(self._flags))
        result = self._tensor(model.sizes, model.kind, model.known)
        self._lines.append(f"{result.name} = scf.if {flag} -> ({result.type}) {{")
        sides = []
        for end in ("} else {", "}"):
            inner, names = self._region(self.random.randint(0, 2), [model], [])
            self._lines += [f"scf.yield {names[0]} : {result.type}", end]
            sides.append((inner, names[0]))
        inner, name = sides[0 if self._flags[flag] else 1]

        def step(arrays: Arrays) -> None:
            for run in inner:
                run(arrays)
            arrays[result.name] = arrays[name]

        self._steps.append(step)
        self._values.append(result)
        return True


_F = TensorFunction
OPERATIONS = [
    *[_F._generic] * 10, _F._product, _F._product, _F._convolution, _F._elementwise, _F._elementwise,
    _F._transpose, _F._broadcast, *[_F._extract_slice] * 2, *[_F._insert_slice] * 2, _F._pad, _F._concat,
    _F._collapse, _F._expand, _F._cast, _F._generate, _F._constants, _F._element, *[_F._loop] * 2, _F._branch,
]  # fmt: skip
