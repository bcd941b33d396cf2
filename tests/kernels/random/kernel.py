"""Random kernels over everything a kernel may hold, and what they should compute.

A kernel is written as MLIR text and, beside it, as steps on NumPy arrays that hold a value for each
work-item of a workgroup (a row for vectors). ``mask`` tells which work-items take a step. Kernels are
free of races, and collective operations are reached by all work-items together, so that all can take
each step at once. Floats are exact, sums of whole numbers and halves in any order, but for one sum
at the end of some kernels, whose rounding has a bound.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

import numpy as np
from kernels.random.flow import ControlFlow
from kernels.random.loops import Loops
from kernels.random.memory import Memory
from kernels.random.rows import Rows
from kernels.random.scope import CELLS, DTYPES, FLOATS, INTS, REAL_CELLS, SUBGROUP, Group, Scope, Value, where
from kernels.random.text import ALIASES, ARGUMENTS, HELPERS, beginning
from kernels.random.together import Together, rounded_sum
from kernels.random.vectors import SHAPES as VECTORS
from kernels.random.vectors import Vectors
from kernels.random.writer import KernelWriter

_BINARY = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "xori": np.bitwise_xor,
    "andi": np.bitwise_and, "ori": np.bitwise_or, "minsi": np.minimum, "maxsi": np.maximum,
}  # fmt: skip
_UNSIGNED = {"maxui": np.maximum, "minui": np.minimum}
_COMPARE = {"slt": np.less, "eq": np.equal, "sge": np.greater_equal, "ne": np.not_equal}
_REAL_COMPARE = {"olt": np.less, "oeq": np.equal, "uge": np.greater_equal, "une": np.not_equal}
_MATH = {"math.absi": ("i32", np.abs), "math.absf": ("f32", np.abs), "math.floor": ("f64", np.floor),
         "math.ceil": ("f32", np.ceil), "arith.negf": ("f64", np.negative)}  # fmt: skip
_OWN_PLACE = re.compile(r"%[gtx]\b")
_KNOWN = [(64,), (33,), (8, 4, 2), (48,), (7, 5), (1,), (256,)]


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What a launch leaves in its arguments, by their names; and how far values of ``R`` may be from it."""

    arrays: dict[str, np.ndarray]
    bound: np.ndarray

    def wrong(self, name: str, found: np.ndarray) -> np.ndarray:
        """Indices of elements that are not what they should be."""
        wanted = self.arrays[name]
        if name == "R":
            return np.flatnonzero(~(np.abs(found.astype(np.float64) - wanted) <= self.bound))
        return np.flatnonzero(found != wanted)


class RandomKernel(ControlFlow, Loops, Rows, Together, Memory, Vectors, KernelWriter):
    """Kernel ``@name`` with the parameters of ``ARGUMENTS``. ``seed`` decides what it may hold:

    ``subgroups``   work-items of a subgroup exchange values; where ``whole``, workgroups of whole ones only
    ``calls``       calls of functions that wait
    ``private``     an array of its own for each work-item: none, allocated, or belonging to the kernel
    ``rows``        more bounds checks, and loops along rows, between barriers
    ``shares``      gets one array as ``%A`` and ``%D``: nobody looks at another work-item's element
    ``flat``        trees in workgroup memory; workgroups of one dimension only
    ``known``       the only form of workgroups, which the kernel tells
    ``rounds``      one sum, in the end, that no float holds exactly

    A subgroup has ``lanes`` work-items.
    """

    def __init__(self, seed: int, name: str, *, size: int = 3, lanes: int = SUBGROUP) -> None:
        super().__init__(seed)
        self.places = random.Random(seed)
        self.lanes = lanes
        self.subgroups, self.whole = seed % 8 == 3, seed % 32 != 11
        self.calls = seed % 8 == 5
        self.private = seed % 4 % 3
        self.private_kind = ["i32", "f32", "i64", "i1", "i16"][seed // 4 % 5]
        self.rows = seed % 8 == 6
        self.shares = seed % 16 in (2, 6)
        self.flat = seed % 8 == 4
        self.known = _KNOWN[seed // 16 % len(_KNOWN)] if seed % 16 in (8, 9) else ()
        self.rounds = seed % 32 == 1
        waits = seed % 8 not in (0, 7)  # those that do not are loops, whatever they hold
        self.wide: dict[str, tuple[str, str]] = {}  # an i64 → the i32 it was made of, and how
        self.variables: dict[str, str] = {}  # of the workgroup, and their types
        count, kind = self._pick(VECTORS)
        self.exchanged = ["i32", self._pick([*INTS, *FLOATS, "i1"]), Value("", kind, count).text]
        first = [Value("%ti", "i32"), Value("%a0", "i32"), Value("%bi", "i32"), Value("%t", "index"),
                 Value("%fa", "f32"), Value("%a64", "i64")]  # fmt: skip
        if self.rows:  # what is not computed from ids keeps checks where they are
            first, size = [v for v in first if "a" not in v.name], 2 * size
        scope = Scope(first, [Value("%bi", "i32"), Value("%i5", "i32")], [], 0, waits, self.subgroups)
        self._statements(scope, self.random.randint(1, size))
        self.result = self._fold(scope)
        if not scope.of(*FLOATS):
            self._as(Value("%ti", "i32"), "f32", scope)
        self.real = self._as(self._pick(scope.of(*FLOATS)), "f64", scope)
        if self.rounds:
            self._emit("%sum = gpu.all_reduce add %rounded uniform {} : (f32) -> (f32)",
                       "memref.store %sum, %R[%g] : memref<?xf32>")  # fmt: skip
        self._emit(f"memref.store {self.result.name}, %C[%g] : memref<?xi64>",
                   f"memref.store {self.real.name}, %F[%g] : memref<?xf64>", "gpu.return")  # fmt: skip
        self.steps = scope.steps
        self.text = self._function(name)

    def _function(self, name: str) -> str:
        start, body = [], "\n".join(self.lines)
        if "%own" in body:
            start.append("memref.store %i0, %own[%t] : !shared")
        if "%priv" in body:
            start += self._private_start()
        body = "\n".join([*(f"    {line}" for line in start), body])
        memory = {n: "!shared" for n in ("%s", "%own") if f"{n}[" in body} | self.variables
        head = f"gpu.func @{name}({ARGUMENTS})"
        if memory:
            head += f" workgroup({', '.join(f'{n} : {kind}' for n, kind in memory.items())})"
        if "%priv" in body and self.private == 2:
            head += f" private(%priv : memref<4x{self.private_kind}, #gpu.address_space<private>>)"
        head += " kernel"
        if self.known:
            sizes = ", ".join(map(str, (*self.known, 1, 1)[:3]))
            head += f" attributes {{known_block_size = array<i32: {sizes}>}}"
        start = beginning(body).replace("%csub = arith.constant 32", f"%csub = arith.constant {self.lanes}")
        return f"  {head} {{\n{start}\n{body}\n  }}\n"

    # ---- what it should compute ----

    def evaluate(self, a: np.ndarray, grid: int, shape: tuple[int, ...]) -> Outputs:
        """What it leaves; ``a`` is changed where ``%D`` is the same array."""
        items = int(np.prod(shape))
        own = a if self.shares else np.zeros_like(a)
        out, real = np.zeros(a.size, np.int64), np.zeros(a.size)
        sums, bound = np.zeros(a.size), np.zeros(a.size)
        cells, real_cells = np.zeros(len(CELLS), np.int32), np.zeros(len(REAL_CELLS))
        for block in range(grid):
            part = slice(block * items, (block + 1) * items)
            group = Group(block=block, shape=shape, a=a[part], d=own[part], cells=cells,
                          real_cells=real_cells, private_kind=self.private_kind,
                          subgroup=self.lanes)  # fmt: skip
            if self.rounds:
                rounded = group.a.astype(np.float32) * np.float32(0.7)
                sums[part], bound[part] = rounded_sum(rounded)
            group.values.update({
                "%ti": group.t.astype(np.int32), "%t": group.t, "%a0": group.a.copy(),
                "%bi": np.full(items, block, np.int32), "%fa": (group.a & 63).astype(np.float32),
                "%a64": group.a.astype(np.int64) << 20, "%sgi": (group.t // self.lanes).astype(np.int32),
            })  # fmt: skip
            for number in (1, 3, 5, 63, 100):
                group.values[f"%i{number}"] = np.full(items, number, np.int32)
            with np.errstate(all="ignore"):
                for step in self.steps:
                    step(group, np.ones(items, bool))
            out[part], real[part] = group.values[self.result.name], group.values[self.real.name]
        arrays = {"C": out, "F": real, "K": cells, "L": real_cells, "D": own, "R": sums}
        return Outputs(arrays=arrays, bound=bound)

    # ---- writing it ----

    def _emit(self, *lines: str) -> None:
        """Write ``lines``, and before some of them the place of the work-item again, by ids read there."""
        for line in lines:
            text, used = line, _OWN_PLACE.search(line)
            if used and self.places.random() < 0.2:
                self.count += 1
                again = beginning(used[0]).strip()
                super()._emit(re.sub(r"%\w+", rf"\g<0>_{self.count}", again))
                text = re.sub(rf"{used[0]}\b", f"{used[0]}_{self.count}", line)
            super()._emit(text)

    def _new(self, scope: Scope, kind: str, text: str, compute, lanes: int = 0) -> Value:
        """``compute`` gives the value of all work-items from the group."""
        value = Value(self._name(), kind, lanes)
        self._emit(f"{value.name} = {text}")
        dtype = DTYPES[kind]

        def step(group: Group, mask: np.ndarray) -> None:
            group.values[value.name] = np.asarray(compute(group)).astype(dtype)

        scope.steps.append(step)
        scope.values.append(value)
        return value

    def _as(self, value: Value, kind: str, scope: Scope) -> Value:
        """A scalar in another type."""
        if value.kind == kind:
            return value
        name, before = value.name, value.kind
        if before == "index" or kind == "index":
            if before not in ("index", "i64") and kind == "index":
                return self._new(scope, kind, f"arith.index_cast {name} : {before} to index",
                                 lambda g: g.values[name].astype(np.int64))  # fmt: skip
            return self._new(scope, kind, f"arith.index_cast {name} : {before} to {kind}",
                             lambda g: g.values[name])  # fmt: skip
        if before in FLOATS:
            op = "extf" if DTYPES[kind](0).itemsize > DTYPES[before](0).itemsize else "truncf"
        elif kind in FLOATS:
            op = "uitofp" if before == "i1" else "sitofp"
        elif before == "i1":
            op = "extui"
        else:
            op = "extsi" if DTYPES[kind](0).itemsize > DTYPES[before](0).itemsize else "trunci"
        return self._new(scope, kind, f"arith.{op} {name} : {before} to {kind}", lambda g: g.values[name])

    def _fold(self, scope: Scope) -> Value:
        """The newest values in one i64, such that none is lost."""
        picked = [v for v in scope.values[::-1] if v.kind not in FLOATS and not v.lanes][:4]
        total = self._as(picked[0], "i64", scope)
        for value in picked[1:]:
            wide = self._as(value, "i64", scope)
            total = self._binary("muli", total, Value("%i31", "i64"), scope)
            total = self._binary("xori", total, wide, scope)
        return total

    def _binary(self, op: str, left: Value, right: Value, scope: Scope) -> Value:
        def compute(g: Group) -> np.ndarray:
            a, b = (np.full(g.items, 31) if v.name == "%i31" else g.values[v.name] for v in (left, right))
            if op in _UNSIGNED:
                unsigned = np.dtype(f"u{a.dtype.name}")
                return _UNSIGNED[op](a.view(unsigned), b.view(unsigned)).view(a.dtype)
            return _BINARY[op](a, b)

        return self._new(
            scope, left.kind, f"arith.{op} {left.name}, {right.name} : {left.text}", compute, left.lanes
        )

    def _statements(self, scope: Scope, count: int) -> None:
        kinds = ["int", "int", "cast", "same", "float", "bit", "select", "own", "own", "load", "atomic",
                 "vector", "vector", "shift", "divide", "call", "mine", "mine", "math", "bits"]  # fmt: skip
        kinds += ["private"] * 2 if self.private else []
        if scope.depth < 3:
            kinds += ["for", "if", "if", "while", "parallel", "switch", "check", "check", "rows", "rows"]
        if self.rows and scope.depth < 2:
            kinds += ["check"] * 6 + ["rows"] * 6 + ["for"] * 3 + ["float"] * 4
            kinds += ["barrier"] * 6 if scope.together else []
        if scope.together:
            kinds += ["exchange"] * 3 + ["barrier", "reduce", "view", "histogram"]
            kinds += ["waiting_call"] * 6 if self.calls else []
            kinds += ["tree"] * 3 if self.flat else []
        kinds += ["shuffle", "subgroup", "lane"] * 5 if scope.lanes else []
        for _ in range(count):
            getattr(self, f"_{self.random.choice(kinds)}_statement")(scope)

    def _int_statement(self, scope: Scope) -> None:
        kind = self._pick([*INTS, "i32", "i32"])
        left = self._pick(scope.of(kind) or [self._as(self._pick(scope.of("i32")), kind, scope)])
        right = self._as(self._pick(scope.of("i32", kind)), kind, scope)
        self._binary(self._pick(sorted({**_BINARY, **_UNSIGNED})), left, right, scope)

    def _cast_statement(self, scope: Scope) -> None:
        value = self._pick(scope.of(*INTS))
        kinds = [k for k in INTS if k != value.kind]
        self._as(value, self._pick(kinds), scope)

    def _shift_statement(self, scope: Scope) -> None:
        value = self._pick(scope.of("i32"))
        op = self._pick(["shli", "shrsi", "shrui"])

        def compute(g: Group) -> np.ndarray:
            bits = g.values[value.name]
            if op == "shrui":
                return (bits.view(np.uint32) >> np.uint32(5)).view(np.int32)
            return bits << 5 if op == "shli" else bits >> 5

        self._new(scope, "i32", f"arith.{op} {value.name}, %i5 : i32", compute)

    def _divide_statement(self, scope: Scope) -> None:
        value = self._pick(scope.of("i32"))
        op = self._pick(["divsi", "remsi", "divui", "remui", "floordivsi"])

        def compute(g: Group) -> np.ndarray:
            number = g.values[value.name].astype(np.int64)
            if op.endswith("ui"):
                number = number & 0xFFFFFFFF
                return number // 5 if op == "divui" else number % 5
            quotient = number // 5 if op == "floordivsi" else (np.abs(number) // 5) * np.sign(number)
            return number - 5 * quotient if op == "remsi" else quotient

        self._new(scope, "i32", f"arith.{op} {value.name}, %i5 : i32", compute)

    def _same_statement(self, scope: Scope) -> None:
        op = self._pick(sorted(_BINARY))
        scope.same.append(self._binary(op, self._pick(scope.same), self._pick(scope.same), scope))

    def _float_statement(self, scope: Scope) -> None:
        kind = "f32" if self.rows else self._pick([*FLOATS])
        small = self._binary("andi", self._pick(scope.of("i32")), Value("%i5", "i32"), scope)
        real = self._as(small, kind, scope)
        left = self._pick(scope.of(kind) or [real])
        op, function = self._pick([("addf", np.add), ("subf", np.subtract), ("maximumf", np.maximum),
                                   ("minnumf", np.fmin)])  # fmt: skip
        self._new(scope, kind, f"arith.{op} {left.name}, {real.name} : {kind}",
                  lambda g: function(g.values[left.name], g.values[real.name]))  # fmt: skip

    def _bit_statement(self, scope: Scope) -> Value:
        left = self._pick(scope.of(*INTS, *FLOATS))
        right = self._pick(scope.of(left.kind))
        compare, name = (_REAL_COMPARE, "cmpf") if left.kind in FLOATS else (_COMPARE, "cmpi")
        op = self._pick(sorted(compare))
        return self._new(scope, "i1", f"arith.{name} {op}, {left.name}, {right.name} : {left.kind}",
                  lambda g: compare[op](g.values[left.name], g.values[right.name]))  # fmt: skip

    def _math_statement(self, scope: Scope) -> None:
        op = self._pick([op for op, (kind, _) in _MATH.items() if scope.of(kind)])
        kind, function = _MATH[op]
        value = self._pick(scope.of(kind))
        self._new(scope, kind, f"{op} {value.name} : {kind}", lambda g: function(g.values[value.name]))

    def _bits_statement(self, scope: Scope) -> None:
        """A float's bits as an integer."""
        value = self._pick(scope.of(*FLOATS) or [self._as(Value("%ti", "i32"), "f32", scope)])
        kind = f"i{value.kind[1:]}"
        self._new(scope, kind, f"arith.bitcast {value.name} : {value.kind} to {kind}",
                  lambda g: g.values[value.name].view(DTYPES[kind]))  # fmt: skip

    def _select_statement(self, scope: Scope) -> None:
        if not scope.of("i1"):
            self._bit_statement(scope)
        bit, left = self._pick(scope.of("i1")), self._pick([v for v in scope.values if v.kind != "i1"])
        right = self._pick([v for v in scope.values if v.text == left.text])

        def compute(g: Group) -> np.ndarray:
            chosen = g.values[bit.name]
            return where(chosen, g.values[left.name], g.values[right.name])

        text = f"arith.select {bit.name}, {left.name}, {right.name} : {left.text}"
        self._new(scope, left.kind, text, compute, left.lanes)


def module_text(kernels: list[RandomKernel]) -> str:
    """One gpu.module of them all."""
    return f"{ALIASES}gpu.module @k {{{HELPERS}" + "".join(k.text for k in kernels) + "}\n"
