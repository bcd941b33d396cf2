"""Random `linalg.generic`: elements of some tensors, in any order of dimensions, reduced or not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np
from kernels.random.tensor_values import DTYPES, FILLED, LARGEST, Arrays, Tensor, TensorValues

COMBINE: dict[str, np.ufunc] = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "maxsi": np.maximum, "minsi": np.minimum,
    "xori": np.bitwise_xor, "andi": np.bitwise_and, "ori": np.bitwise_or,
}  # fmt: skip
REDUCE = [name for name in COMBINE if name != "subi"]
Term = tuple[str, Callable[[Arrays], np.ndarray]]  # a scalar of a body, and its values for all iterations


class GenericOperations(TensorValues):
    """Operations with a body, which reads what fits into its loops."""

    def _combined(self, kind: str, terms: list[Term], count: int) -> Term:
        """All terms, and some of them again, in one expression."""
        total = terms[0]
        for other in [*terms[1:], *self.random.choices(terms, k=count)]:
            total = self._pair(kind, total, other)
        return total

    def _pair(self, kind: str, left: Term, right: Term) -> Term:
        (x, f), (y, g) = left, right
        if self.random.random() < 0.12:
            less = self._let(f"arith.cmpi slt, {x}, {y} : {kind}")
            name = self._let(f"arith.select {less}, {x}, {y} : {kind}")
            return name, lambda arrays: np.minimum(f(arrays), g(arrays))
        op = self.random.choice(list(COMBINE))
        return self._let(f"arith.{op} {x}, {y} : {kind}"), lambda arrays: COMBINE[op](f(arrays), g(arrays))

    def _converted(self, name: str, source: str, kind: str) -> str:
        if source == kind:
            return name
        wider = int(kind[1:]) > int(source[1:])
        return self._let(f"arith.{'extsi' if wider else 'trunci'} {name} : {source} to {kind}")

    def _fitting(self, value: Tensor, sizes: list[int]) -> list[int] | None:
        """A dimension of the iterations for each of a value; none if it does not fit."""
        free = list(range(len(sizes)))
        if self.random.random() < 0.4:
            self.random.shuffle(free)
        chosen: list[int] = []
        for n in value.sizes:
            chosen += [d for d in free if sizes[d] == n and d not in chosen][:1]
        return chosen if len(chosen) == value.rank else None

    @staticmethod
    def _spread(value: Tensor, chosen: list[int], rank: int, kind: str) -> Callable[[Arrays], np.ndarray]:
        """Lay a value over the iterations."""
        order = sorted(range(value.rank), key=lambda n: chosen[n])
        shape = [1] * rank
        for n in order:
            shape[chosen[n]] = value.sizes[n]
        return lambda arrays: arrays[value.name].transpose(order).reshape(shape).astype(DTYPES[kind])

    def _generic(self) -> bool:
        """Compute from elements of some tensors, with or without a reduction, one or two results."""
        first = self._pick()
        if first is None:
            return False
        # Upstream drops what a reduction of no elements begins with, if the body does not need it.
        reduces = first.rank > 0 and all(first.sizes) and self.random.random() < 0.4
        sizes, inputs = self._iterations(first, may_add=not reduces)
        rank, kind = len(sizes), self.random.choice(self._kinds)
        covered = sorted({d for _, chosen in inputs for d in chosen})
        reduced = self.random.sample(covered, self.random.randint(1, min(2, len(covered)))) if reduces else []
        layouts = [[d for d in range(rank) if d not in reduced]]
        layouts *= 1 if reduces else self.random.choice([1, 1, 2])
        layouts = [self._shuffled(layout) for layout in layouts]
        if prod(sizes) > 4 * LARGEST or prod(sizes[d] for d in layouts[0]) > LARGEST:
            return False
        begins = [self._begin([sizes[d] for d in layout], kind, reduces) for layout in layouts]
        results = [result for result, _, _ in begins]
        body = len(self._lines)
        names = [self._name() for _ in (*inputs, *results)]
        terms: list[Term] = [
            (self._converted(name, value.kind, kind), self._spread(value, chosen, rank, kind))
            for name, (value, chosen) in zip(names, inputs, strict=False)
        ]
        for name, layout, (_, out, init) in zip(names[len(inputs) :], layouts, begins, strict=True):
            if init and not reduces and self.random.random() < 0.6:
                terms.append((name, self._spread(replace(init, name=out), layout, rank, kind)))
        terms += self._more_terms(kind, sizes)
        yields = [
            self._combined(kind, terms[:: 1 - 2 * n], self.random.choice([0, 0, 1, 2]))
            for n in range(len(results))
        ]
        combine = self.random.choice(REDUCE)
        inside = [name for name, _ in yields]
        if reduces:
            inside = [self._let(f"arith.{combine} {names[-1]}, {inside[0]} : {kind}")]
        kinds = ", ".join('"reduction"' if d in reduced else '"parallel"' for d in range(rank))
        maps = [", ".join(f"d{d}" for d in chosen) for chosen in (*(c for _, c in inputs), *layouts)]
        all_dimensions = ", ".join(f"d{d}" for d in range(rank))
        of_maps = ", ".join(f"affine_map<({all_dimensions}) -> ({one})>" for one in maps)
        types = ", ".join(v.type for v in results)
        group = self._name()
        scalars = zip(names, [*(v.kind for v, _ in inputs), *[kind] * len(results)], strict=True)
        self._lines[body:] = [
            f"{group}:{len(results)} = linalg.generic",
            f"  {{indexing_maps = [{of_maps}], iterator_types = [{kinds}]}}",
            f"  ins({', '.join(v.name for v, _ in inputs)} : {', '.join(v.type for v, _ in inputs)})",
            f"  outs({', '.join(out for _, out, _ in begins)} : {types}) {{",
            f"^bb0({', '.join(f'{name}: {of}' for name, of in scalars)}):",
            *self._lines[body:],
            f"  linalg.yield {', '.join(inside)} : {', '.join([kind] * len(results))}",
            f"}} -> ({types})",
        ]
        results = [replace(v, name=f"{group}#{n}") for n, v in enumerate(results)]
        self._values += results

        def step(arrays: Arrays) -> None:
            dtype = DTYPES[kind]
            for result, layout, (_, run), (_, out, init) in zip(
                results, layouts, yields, begins, strict=True
            ):
                array = np.broadcast_to(run(arrays), sizes).astype(dtype)
                if reduces:
                    begin = _neutral(combine, dtype)
                    array = COMBINE[combine].reduce(array, axis=tuple(reduced), dtype=dtype, initial=begin)
                rest = sorted(layout)
                array = array.transpose([rest.index(d) for d in layout])
                if reduces:
                    array = COMBINE[combine](arrays[out] if init else dtype(FILLED), array)
                arrays[result.name] = np.array(array, dtype)

        self._steps.append(step)
        return True

    def _iterations(
        self, first: Tensor, *, may_add: bool
    ) -> tuple[list[int], list[tuple[Tensor, list[int]]]]:
        """Sizes of loops over ``first``, and what they read: tensors, and a loop for each dimension."""
        order = self._shuffled(list(range(first.rank)))
        sizes = [first.sizes[order.index(d)] for d in range(first.rank)]
        if may_add and len(sizes) < 4 and self.random.random() < 0.25:
            sizes.append(self.random.choice(self._sizes))
        inputs = [(first, order)]
        for _ in range(self.random.choice([0, 0, 1, 1, 2])):
            other = self._pick(lambda v: v.rank <= len(sizes))
            chosen = self._fitting(other, sizes) if other else None
            if other and chosen is not None:
                inputs.append((other, chosen))
        return sizes, inputs

    def _begin(self, sizes: list[int], kind: str, reduces: bool) -> tuple[Tensor, str, Tensor | None]:
        """A result, the name of what it is written to, and the tensor of this name, if it has a value."""
        init = self._pick(lambda v: v.sizes == tuple(sizes) and v.kind == kind)
        if init and self.random.random() < 0.5:
            return self._tensor(sizes, kind, init.known), init.name, init
        result = self._tensor(sizes, kind)
        is_filled = reduces or self.random.random() < 0.1
        return result, self._filled(result, FILLED) if is_filled else self._empty(result), None

    def _shuffled(self, dimensions: list[int]) -> list[int]:
        return self.random.sample(dimensions, len(dimensions)) if self.random.random() < 0.3 else dimensions

    def _more_terms(self, kind: str, sizes: list[int]) -> list[Term]:
        """An index, an element of a tensor at some index, a constant."""
        rng, terms, dtype = self.random, list[Term](), DTYPES[kind]
        d = rng.randrange(len(sizes)) if sizes else 0
        shape = [1] * len(sizes)
        if sizes:
            shape[d] = sizes[d]
        numbers = np.arange(shape[d] if sizes else 1)
        if sizes and rng.random() < 0.2:
            cast = self._let(f"arith.index_cast {self._let(f'linalg.index {d} : index')} : index to {kind}")
            terms.append((cast, lambda _: numbers.reshape(shape).astype(dtype)))
        row = self._pick(lambda v: v.rank == 1 and v.sizes[0] > 0 and v.kind == kind)
        if sizes and row and rng.random() < 0.08:
            times, length = self._constant(7), self._constant(row.sizes[0])
            moved = self._let(f"arith.muli {self._let(f'linalg.index {d} : index')}, {times} : index")
            at = self._let(f"arith.remui {moved}, {length} : index")
            where = (numbers * 7 % row.sizes[0]).reshape(shape)
            one = self._let(f"tensor.extract {row.name}[{at}] : {row.type}")
            terms.append((one, lambda arrays: arrays[row.name][where]))
        if rng.random() < 0.3:
            number = rng.randint(-5, 5)
            terms.append((self._constant(number, kind), lambda _: np.full(shape, number, dtype)))
        return terms


def _neutral(combine: str, dtype: type[np.signedinteger]) -> int:
    extremes = np.iinfo(dtype)
    return {"muli": 1, "andi": -1, "maxsi": int(extremes.min), "minsi": int(extremes.max)}.get(combine, 0)
