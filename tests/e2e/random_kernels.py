"""Random kernels over everything a kernel may hold, and what they should compute.

A kernel is written as MLIR text and, beside it, as steps on NumPy arrays that hold a value for each
work-item of a workgroup (a row for vectors). ``mask`` tells which work-items take a step. Kernels are
free of races, and collective operations are reached by all work-items together, so that all can take
each step at once. Floats are exact: only sums of whole numbers and halves, in any order.
"""

from __future__ import annotations

import numpy as np
from e2e.kernel_writer import KernelWriter
from e2e.random_flow import ControlFlow
from e2e.random_scope import CELLS, DTYPES, FLOATS, INTS, Group, Scope, Value
from e2e.random_text import ALIASES, ARGUMENTS, BODY, HELPERS, PRIVATE, TAIL
from e2e.random_together import Together

_BINARY = {
    "addi": np.add, "subi": np.subtract, "muli": np.multiply, "xori": np.bitwise_xor,
    "andi": np.bitwise_and, "ori": np.bitwise_or, "minsi": np.minimum, "maxsi": np.maximum,
}  # fmt: skip
_UNSIGNED = {"maxui": np.maximum, "minui": np.minimum}
_COMPARE = {"slt": np.less, "eq": np.equal, "sge": np.greater_equal, "ne": np.not_equal}
_VECTOR = {2: "i16", 3: "i32", 4: "i32", 8: "i8"}


class RandomKernel(ControlFlow, Together, KernelWriter):
    """Kernel ``@name`` with the parameters of ``ARGUMENTS``.

    With ``whole_subgroups`` it also exchanges values within them, and needs workgroups of a multiple
    of 32 work-items. With ``calls`` it calls functions that wait.
    """

    def __init__(self, seed: int, name: str, *, size: int = 4) -> None:
        super().__init__(seed)
        self.whole_subgroups = seed % 8 == 3
        self.calls = seed % 8 == 5
        self.private = seed % 4 % 3
        first = [Value("%ti", "i32"), Value("%a0", "i32"), Value("%bi", "i32"), Value("%t", "index"),
                 Value("%fa", "f32"), Value("%a64", "i64")]  # fmt: skip
        scope = Scope(first, [Value("%bi", "i32"), Value("%i5", "i32")], [], 0, True, self.whole_subgroups)
        self._statements(scope, self.random.randint(2, size))
        self.result = self._fold(scope)
        self.real = self._as(self.random.choice(scope.of(*FLOATS)), "f64", scope)
        self.steps = scope.steps
        self.text = (
            f"  gpu.func @{name}({ARGUMENTS}) "
            + BODY.format(private=PRIVATE[self.private][0], start=PRIVATE[self.private][1])
            + "\n".join(self.lines)
            + TAIL.format(result=self.result.name, real=self.real.name)
        )

    # ---- what it should compute ----

    def evaluate(self, a: np.ndarray, grid: int, items: int) -> tuple[np.ndarray, ...]:
        """What the three outputs hold afterwards."""
        out, real = np.zeros(grid * items, np.int64), np.zeros(grid * items, np.float64)
        cells = np.zeros(len(CELLS), np.int32)
        for block in range(grid):
            part = slice(block * items, (block + 1) * items)
            group = Group(block=block, items=items, a=a[part], cells=cells)
            t = np.arange(items)
            group.values.update({
                "%ti": t.astype(np.int32), "%t": t, "%a0": group.a, "%bi": np.full(items, block, np.int32),
                "%i5": np.full(items, 5, np.int32), "%fa": (group.a & 63).astype(np.float32),
                "%a64": group.a.astype(np.int64) << 20, "%sgi": (t // 32).astype(np.int32),
            })  # fmt: skip
            with np.errstate(all="ignore"):
                for step in self.steps:
                    step(group, np.ones(items, bool))
            out[part], real[part] = group.values[self.result.name], group.values[self.real.name]
        return out, real, cells

    # ---- writing it ----

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
        picked = [v for v in scope.values[::-1] if v.kind not in FLOATS and not v.lanes][:6]
        total = self._as(picked[0], "i64", scope)
        for value in picked[1:]:
            wide = self._as(value, "i64", scope)
            total = self._binary("muli", total, Value("%i31", "i64"), scope)
            total = self._binary("xori", total, wide, scope)
        return total

    def _binary(self, op: str, left: Value, right: Value, scope: Scope) -> Value:
        def operand(g: Group, value: Value) -> np.ndarray:
            return np.full(g.items, 31) if value.name == "%i31" else g.values[value.name]

        def compute(g: Group) -> np.ndarray:
            a, b = operand(g, left), operand(g, right)
            if op in _UNSIGNED:
                unsigned = np.dtype(f"u{a.dtype.name}")
                return _UNSIGNED[op](a.view(unsigned), b.view(unsigned)).view(a.dtype)
            return _BINARY[op](a, b)

        return self._new(
            scope, left.kind, f"arith.{op} {left.name}, {right.name} : {left.text}", compute, left.lanes
        )

    def _statements(self, scope: Scope, count: int) -> None:
        kinds = ["int", "int", "cast", "same", "float", "bit", "select", "own", "own", "load", "atomic",
                 "vector", "vector", "shift", "divide", "call"]  # fmt: skip
        kinds += ["private"] * 2 if self.private else []
        kinds += ["for", "if", "if"] if scope.depth < 3 else []
        kinds += ["while", "parallel"] if scope.depth < 3 else []
        if scope.together:
            kinds += ["exchange", "exchange", "barrier", "reduce", "view"]
            kinds += ["waiting_call"] * 2 if self.calls else []
        kinds += ["shuffle", "subgroup"] * 2 if scope.lanes else []
        for _ in range(count):
            getattr(self, f"_{self.random.choice(kinds)}_statement")(scope)

    def _int_statement(self, scope: Scope) -> None:
        left = self._pick(scope.of(*INTS))
        right = self._pick(scope.of(left.kind))
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
        kind = self._pick([*FLOATS])
        small = self._binary("andi", self._pick(scope.of("i32")), Value("%i5", "i32"), scope)
        real = self._as(small, kind, scope)
        left = self._pick(scope.of(kind) or [self._as(Value("%fa", "f32"), kind, scope)])
        op, function = self._pick([("addf", np.add), ("subf", np.subtract), ("maximumf", np.maximum),
                                   ("minnumf", np.fmin)])  # fmt: skip
        self._new(scope, kind, f"arith.{op} {left.name}, {real.name} : {kind}",
                  lambda g: function(g.values[left.name], g.values[real.name]))  # fmt: skip

    def _bit_statement(self, scope: Scope) -> None:
        left = self._pick(scope.of(*INTS))
        right, op = self._pick(scope.of(left.kind)), self._pick(sorted(_COMPARE))
        self._new(scope, "i1", f"arith.cmpi {op}, {left.name}, {right.name} : {left.kind}",
                  lambda g: _COMPARE[op](g.values[left.name], g.values[right.name]))  # fmt: skip

    def _select_statement(self, scope: Scope) -> None:
        if not scope.of("i1"):
            self._bit_statement(scope)
        bit, left = self._pick(scope.of("i1")), self._pick([v for v in scope.values if v.kind != "i1"])
        right = self._pick([v for v in scope.values if v.text == left.text])

        def compute(g: Group) -> np.ndarray:
            chosen = g.values[bit.name]
            return np.where(
                chosen[:, None] if left.lanes else chosen, g.values[left.name], g.values[right.name]
            )

        text = f"arith.select {bit.name}, {left.name}, {right.name} : {left.text}"
        self._new(scope, left.kind, text, compute, left.lanes)

    def _vector_statement(self, scope: Scope) -> None:
        lanes = self._pick(sorted(_VECTOR))
        kind = _VECTOR[lanes]
        whole = Value("", kind, lanes).text
        value = self._as(self._pick(scope.of("i32")), kind, scope)
        vector = self._new(scope, kind, f"vector.broadcast {value.name} : {kind} to {whole}",
                           lambda g: np.repeat(g.values[value.name][:, None], lanes, 1), lanes)  # fmt: skip
        place, other = self._pick(range(lanes)), self._as(self._pick(scope.of("i32")), kind, scope)

        def inserted(g: Group) -> np.ndarray:
            result = g.values[vector.name].copy()
            result[:, place] = g.values[other.name]
            return result

        mixed = self._new(scope, kind, f"vector.insert {other.name}, {vector.name} [{place}] : {kind} into "
                          f"{whole}", inserted, lanes)  # fmt: skip
        older = self._pick([v for v in scope.values if v.text == mixed.text])
        mixed = self._binary(self._pick(sorted(_BINARY)), mixed, older, scope)
        older = self._pick([v for v in scope.values if v.text == mixed.text])
        if self.random.random() < 0.5:
            self._new(scope, kind, f"vector.extract {older.name}[{lanes - 1}] : {kind} from {whole}",
                      lambda g: g.values[older.name][:, lanes - 1])  # fmt: skip
        else:
            self._new(scope, kind, f"vector.reduction <xor>, {older.name} : {whole} into {kind}",
                      lambda g: np.bitwise_xor.reduce(g.values[older.name], axis=1))  # fmt: skip

    # ---- memory ----

    def _loaded(self, scope: Scope) -> Value:
        """One of the values that are the same for all, by way of memory: nobody knows that any more."""
        value = self._pick(scope.same)
        self._emit(f"memref.store {value.name}, %s[%t] : !shared")
        return self._new(scope, "i32", "memref.load %s[%t] : !shared", lambda g: g.values[value.name])

    def _load_statement(self, scope: Scope) -> None:
        self._new(scope, "i32", "memref.load %A[%g] : memref<?xi32>", lambda g: g.a)

    def _own_statement(self, scope: Scope) -> None:
        """Only its work-item touches the element of workgroup memory."""
        if self.random.random() < 0.5:
            value = self._pick(scope.of("i32"))
            self._emit(f"memref.store {value.name}, %own[%t] : !shared")
            scope.steps.append(lambda g, mask: _put(g.own, mask, g.values[value.name]))
        else:
            self._new(scope, "i32", "memref.load %own[%t] : !shared", lambda g: g.own)

    def _private_statement(self, scope: Scope) -> None:
        where = self._as(self._pick(scope.of("i32")), "index", scope)
        place = self._name()
        self._emit(f"{place} = arith.andi {where.name}, %c3 : index")
        if self.random.random() < 0.5:
            value = self._pick(scope.of("i32"))
            self._emit(f"memref.store {value.name}, %priv[{place}] : !private")

            def step(g: Group, mask: np.ndarray) -> None:
                at = np.arange(g.items)[mask], (g.values[where.name] & 3)[mask]
                g.private[at] = g.values[value.name][mask]

            scope.steps.append(step)
        else:
            self._new(scope, "i32", f"memref.load %priv[{place}] : !private",
                      lambda g: g.private[np.arange(g.items), g.values[where.name] & 3])  # fmt: skip

    def _atomic_statement(self, scope: Scope) -> None:
        cell = self.random.randrange(len(CELLS))
        op, value = list(CELLS)[cell], self._pick(scope.of("i32"))
        self._emit(f"{self._name()} = memref.atomic_rmw {op} {value.name}, %K[%c{cell}] "
                   ": (i32, memref<5xi32>) -> i32")  # fmt: skip

        def step(g: Group, mask: np.ndarray) -> None:
            values = np.concatenate([g.cells[cell : cell + 1], g.values[value.name][mask]])
            g.cells[cell] = CELLS[op].reduce(values, dtype=np.int32)

        scope.steps.append(step)

    def _view_statement(self, scope: Scope) -> None:
        """A memref that outlives a barrier."""
        view, kind = self._name(), "memref<1xi32, strided<[1], offset: ?>>"
        self._emit(f"{view} = memref.subview %A[%g] [1] [1] : memref<?xi32> to {kind}", "gpu.barrier")
        self._new(scope, "i32", f"memref.load {view}[%c0] : {kind}", lambda g: g.a)


def module_text(kernels: list[RandomKernel]) -> str:
    """One gpu.module of them all."""
    return f"{ALIASES}gpu.module @k {{{HELPERS}" + "".join(k.text for k in kernels) + "}\n"


def _put(array: np.ndarray, mask: np.ndarray, values: np.ndarray) -> None:
    array[mask] = values[mask]
