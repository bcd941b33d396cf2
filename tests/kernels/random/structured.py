"""Random kernels with barriers in structured control flow, and what they should compute.

A kernel is written as MLIR text and, beside it, as steps on NumPy arrays that hold a value for each
work-item of a workgroup. Kernels are free of races and barriers are reached by all work-items, so
that all work-items can take each step together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from kernels.place import PLACE_IN_GRID
from kernels.random.writer import KernelWriter

SHARED = "memref<1024xi32, #gpu.address_space<workgroup>>"
DYNAMIC = "memref<?xi32, #gpu.address_space<workgroup>>"
CELLS = 3  # counters: addi, maxs, ori
OUTPUTS = 2

_INT = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "xori": np.bitwise_xor,
    "andi": np.bitwise_and,
    "minsi": np.minimum,
    "maxui": lambda a, b: np.maximum(a.view(np.uint32), b.view(np.uint32)).view(np.int32),
}
_FLOAT = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply}
_COMPARE = {"slt": np.less, "eq": np.equal, "sge": np.greater_equal}
_REDUCE = {"add": np.add, "xor": np.bitwise_xor, "or": np.bitwise_or, "and": np.bitwise_and,
           "maxsi": np.maximum, "minsi": np.minimum, "mul": np.multiply}  # fmt: skip
_ATOMIC = {"addi": np.add, "maxs": np.maximum, "ori": np.bitwise_or}


@dataclass
class Group:
    """One workgroup while it is evaluated."""

    block: int
    items: int
    a: np.ndarray
    cells: np.ndarray
    values: dict[str, np.ndarray] = field(default_factory=dict)
    shared: np.ndarray = field(default_factory=lambda: np.zeros(1024, np.int32))
    dynamic: np.ndarray = field(default_factory=lambda: np.zeros(1024, np.int32))


Step = Callable[[Group, np.ndarray], None]


class StructuredKernel(KernelWriter):
    """Kernel ``@name(%A: memref<?xi32>, %C: memref<2x?xi32>, %F: memref<?xf32>, %K: memref<3xi32>)``."""

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed)
        self.bits: list[str] = []
        self.floats = ["%fa"]
        ints = ["%ti", "%a0", "%bi", "%i5"]
        self.steps: list[Step] = []
        ints = self._statements(ints, ["%bi", "%i5"], self.random.randint(4, 12), 0, True, self.steps)
        folded = ints[0]
        for value in ints[-8:]:
            folded = self._int("xori", self._int("muli", folded, "%i5", self.steps), value, self.steps)
        self.result, self.last = folded, ints[-1]
        self.text = (
            _HEAD.format(name=name)
            + "\n".join(self.lines)
            + _TAIL.format(result=self.result, last=self.last, real=self.floats[-1])
        )

    # ---- what it should compute ----

    def evaluate(self, a, grid: int, items: int):
        """What @C, @F and @K hold afterwards."""
        out = np.zeros((OUTPUTS, grid * items), np.int32)
        real, cells = np.zeros(grid * items, np.float32), np.zeros(CELLS, np.int32)
        everyone = np.ones(items, bool)
        for block in range(grid):
            part = slice(block * items, (block + 1) * items)
            group = Group(block=block, items=items, a=a[part], cells=cells)
            t = np.arange(items, dtype=np.int32)
            group.values.update(
                {
                    "%ti": t,
                    "%a0": group.a,
                    "%bi": np.full(items, block, np.int32),
                    "%i5": np.full(items, 5, np.int32),
                    "%fa": group.a.astype(np.float32),
                }
            )
            with np.errstate(all="ignore"):
                for step in self.steps:
                    step(group, everyone)
            out[0, part], out[1, part] = group.values[self.result], group.values[self.last]
            real[part] = group.values[self.floats[-1]]
        return out, real, cells

    # ---- writing it ----

    def _value(self, text: str, steps: list[Step], compute) -> str:
        name = self._name()
        self._emit(f"{name} = {text}")
        steps.append(lambda group, mask: group.values.__setitem__(name, compute(group)))
        return name

    def _int(self, op: str, left: str, right: str, steps: list[Step]) -> str:
        def compute(g):
            return _INT[op](g.values[left], g.values[right]).astype(np.int32)

        return self._value(f"arith.{op} {left}, {right} : i32", steps, compute)

    def _statements(self, ints, same, count, depth, together, steps) -> list[str]:
        """``count`` statements; ``same`` are uniform integers. Scopes end with the list given back."""
        ints, same = list(ints), list(same)
        floats, bits = len(self.floats), len(self.bits)
        for _ in range(count):
            kinds = ["int", "int", "same", "float", "bit", "select", "own", "load", "atomic"]
            kinds += ["for", "for", "if", "if"] if depth < 3 else []
            kinds += ["exchange", "exchange", "dynamic", "barrier", "reduce"] if together else []
            getattr(self, "_" + self.random.choice(kinds) + "_statement")(ints, same, depth, together, steps)
        if depth:
            del self.floats[floats:], self.bits[bits:]
        return ints

    def _int_statement(self, ints, same, depth, together, steps):
        pick = self.random.choice
        ints.append(self._int(pick(sorted(_INT)), pick(ints), pick(ints), steps))

    def _same_statement(self, ints, same, depth, together, steps):
        pick = self.random.choice
        same.append(self._int(pick(sorted(_INT)), pick(same), pick(same), steps))
        ints.append(same[-1])

    def _float_statement(self, ints, same, depth, together, steps):
        pick = self.random.choice
        value = pick(ints)
        real = self._value(f"arith.sitofp {value} : i32 to f32", steps,
                           lambda g: g.values[value].astype(np.float32))  # fmt: skip
        op, other = pick(sorted(_FLOAT)), pick(self.floats)
        self.floats.append(self._value(f"arith.{op} {other}, {real} : f32", steps,
                                       lambda g: _FLOAT[op](g.values[other], g.values[real])))  # fmt: skip

    def _bit_statement(self, ints, same, depth, together, steps):
        pick = self.random.choice
        op, left, right = pick(sorted(_COMPARE)), pick(ints), pick(ints)
        self.bits.append(self._value(f"arith.cmpi {op}, {left}, {right} : i32", steps,
                                     lambda g: _COMPARE[op](g.values[left], g.values[right])))  # fmt: skip

    def _select_statement(self, ints, same, depth, together, steps):
        if self.bits:
            bit, left, right = (
                self.random.choice(self.bits),
                self.random.choice(ints),
                self.random.choice(ints),
            )
            ints.append(
                self._value(
                    f"arith.select {bit}, {left}, {right} : i32",
                    steps,
                    lambda g: np.where(g.values[bit], g.values[left], g.values[right]),
                )
            )

    def _own_statement(self, ints, same, depth, together, steps):
        """Only its work-item touches the element, until an exchange, which begins with a barrier."""
        value = self.random.choice(ints)
        if self.random.random() < 0.5:
            self._emit(f"memref.store {value}, %own[%t] : {SHARED}")
            steps.append(lambda g, mask: _store(g, mask, value))
        else:
            ints.append(self._value(f"memref.load %own[%t] : {SHARED}", steps, lambda g: _own(g).copy()))

    def _load_statement(self, ints, same, depth, together, steps):
        ints.append(self._value("memref.load %A[%g] : memref<?xi32>", steps, lambda g: g.a))

    def _atomic_statement(self, ints, same, depth, together, steps):
        cell = self.random.randrange(CELLS)
        op, value, name = sorted(_ATOMIC)[cell], self.random.choice(ints), self._name()
        self._emit(f"{name} = memref.atomic_rmw {op} {value}, %K[%c{cell}] : (i32, memref<3xi32>) -> i32")

        def step(g, mask):
            old = g.cells[cell : cell + 1]
            g.cells[cell] = _ATOMIC[op].reduce(np.concatenate([old, g.values[value][mask]]), dtype=np.int32)

        steps.append(step)

    def _barrier_statement(self, ints, same, depth, together, steps):
        self._emit("gpu.barrier")

    def _reduce_statement(self, ints, same, depth, together, steps):
        op, value = self.random.choice(sorted(_REDUCE)), self.random.choice(ints)

        def compute(g):
            return np.full(g.items, _REDUCE[op].reduce(g.values[value], dtype=np.int32), np.int32)

        ints.append(self._value(f"gpu.all_reduce {op} {value} uniform {{}} : (i32) -> (i32)", steps, compute))
        same.append(ints[-1])

    def _dynamic_statement(self, ints, same, depth, together, steps):
        self._exchange_statement(ints, same, depth, together, steps, ("%dyn", DYNAMIC))

    def _exchange_statement(self, ints, same, depth, together, steps, memory=("%s", SHARED)):
        value, way, name = self.random.choice(ints), self.random.choice([*ints, "%i5"]), self._name()
        small, index, sum_ = self._name(), self._name(), self._name()
        place = self._name()
        variable, kind = memory
        self._emit(
            f"memref.store {value}, {variable}[%t] : {kind}", f"{small} = arith.andi {way}, %i5 : i32",
            f"{index} = arith.index_cast {small} : i32 to index", f"{sum_} = arith.addi %t, {index} : index",
            "gpu.barrier", f"{place} = arith.remui {sum_}, %n : index",
            f"{name} = memref.load {variable}[{place}] : {kind}", "gpu.barrier",
        )  # fmt: skip

        def step(g, mask):
            places = (np.arange(g.items) + (g.values[way] & 5)) % g.items
            g.values[name] = g.values[value][places]

        steps.append(step)
        ints.append(name)

    def _for_statement(self, ints, same, depth, together, steps):
        pick = self.random.choice
        bounds = ["%c0", "%c1", "%c3", "%ub"] + ([] if together and self.random.random() < 0.6 else ["%t3"])
        upper, lower, by = pick(bounds), pick(["%c0", "%c0", "%c1", "%c2"]), pick(["%c1", "%c2"])
        together = together and upper != "%t3"
        out, counter, first, second, third, number = (self._name() for _ in range(6))
        initial = [pick(ints), pick(ints), pick(same)]
        self._emit(
            f"{out}:3 = scf.for {counter} = {lower} to {upper} step {by} iter_args({first} = {initial[0]}, "
            f"{second} = {initial[1]}, {third} = {initial[2]}) -> (i32, i32, i32) {{",
            f"{number} = arith.index_cast {counter} : index to i32",
        )
        body: list[Step] = []
        inner_same = [*same, number, third]
        inner = self._statements([*ints, first, second, third, number], inner_same, self.random.randint(1, 4),
                                 depth + 1, together, body)  # fmt: skip
        follow = [second, inner[-1]] if self.random.random() < 0.5 else [pick(inner), pick(inner)]
        follow.append(self._int("addi", third, pick(inner_same), body))
        self._emit(f"scf.yield {', '.join(follow)} : i32, i32, i32", "}")
        carried, results = [first, second, third], [f"{out}#{i}" for i in range(3)]

        def step(g, mask):
            start, stop, stride = (_bound(g, b) for b in (lower, upper, by))
            state = [g.values[v] for v in initial]
            at = start
            while (active := mask & (at < stop)).any():
                g.values.update(zip(carried, state, strict=True))
                g.values[number] = at.astype(np.int32)
                for inner_step in body:
                    inner_step(g, active)
                state = [np.where(active, g.values[v], old) for v, old in zip(follow, state, strict=True)]
                at = at + stride
            g.values.update(zip(results, state, strict=True))

        steps.append(step)
        ints.extend(results)
        if together:
            same.append(results[2])

    def _if_statement(self, ints, same, depth, together, steps):
        pick = self.random.choice
        uniform = together and self.random.random() < 0.6
        condition = "%first" if uniform else pick([*self.bits, "%odd"])
        out = self._name()
        self._emit(f"{out}:2 = scf.if {condition} -> (i32, i32) {{")
        branches = []
        for number in range(2):
            body: list[Step] = []
            count = self.random.randint(number == 0, 3)
            inner = self._statements(ints, same, count, depth + 1, uniform, body)
            branches.append((body, [pick(inner), pick(same)]))
            self._emit(f"scf.yield {', '.join(branches[-1][1])} : i32, i32", "}" if number else "} else {")

        def step(g, mask):
            chosen = _condition(g, condition)
            state = [np.zeros(g.items, np.int32)] * 2
            for (body, yielded), active in zip(branches, (mask & chosen, mask & ~chosen), strict=True):
                if active.any():
                    for inner_step in body:
                        inner_step(g, active)
                    state = [
                        np.where(active, g.values[v], old) for v, old in zip(yielded, state, strict=True)
                    ]
            g.values.update({f"{out}#0": state[0], f"{out}#1": state[1]})

        steps.append(step)
        ints.extend([f"{out}#0", f"{out}#1"])
        if uniform:
            same.append(f"{out}#1")


def _own(group: Group) -> np.ndarray:
    return group.shared[: group.items]


def _store(group: Group, mask, value: str) -> None:
    _own(group)[mask] = group.values[value][mask]


def _bound(group: Group, name: str) -> np.ndarray:
    t = np.arange(group.items)
    known = {"%ub": t * 0 + group.block + 2, "%t3": t % 3}
    return known[name] if name in known else t * 0 + int(name[2:])


def _condition(group: Group, name: str) -> np.ndarray:
    if name == "%first":
        return np.full(group.items, group.block == 1)
    return np.arange(group.items) % 3 == 1 if name == "%odd" else group.values[name]


_HEAD = f"""  gpu.func @{{name}}(%A: memref<?xi32>, %C: memref<2x?xi32>, %F: memref<?xf32>, %K: memref<3xi32>)
      workgroup(%s : {SHARED}, %own : {SHARED}) kernel {{{{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %i0 = arith.constant 0 : i32
    %i5 = arith.constant 5 : i32
    %d = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>{PLACE_IN_GRID}
    %dyn = memref.view %d[%c0][%n] : memref<?xi8, #gpu.address_space<workgroup>> to {DYNAMIC}
    %ub = arith.addi %bx, %c2 : index
    %t3 = arith.remui %t, %c3 : index
    %odd = arith.cmpi eq, %t3, %c1 : index
    %first = arith.cmpi eq, %bx, %c1 : index
    %ti = arith.index_cast %t : index to i32
    %bi = arith.index_cast %bx : index to i32
    %a0 = memref.load %A[%g] : memref<?xi32>
    %fa = arith.sitofp %a0 : i32 to f32
    memref.store %i0, %own[%t] : {SHARED}
"""
_TAIL = """
    memref.store {result}, %C[%c0, %g] : memref<2x?xi32>
    memref.store {last}, %C[%c1, %g] : memref<2x?xi32>
    memref.store {real}, %F[%g] : memref<?xf32>
    gpu.return
  }}
"""
