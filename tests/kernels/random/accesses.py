"""Random kernels about memory: who reads and writes what, through which layouts, in which order of loops.

Beside ``kernel.py``, whose arrays have one dimension and are apart: here arrays have up to three, any
strides, and may be the same memory; their sizes do not fit the grid, so that work-items check bounds, in many
ways; loops go along rows, columns and from places of their own, count in several types and carry several
values. Nobody writes what another one reads. What they compute is compared between tiers, not evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from kernels.cpu import WG
from kernels.place import PLACE
from kernels.random.access_flow import AccessFlow
from kernels.random.arrays import FLOATS, INTS, Array, contents, random_arrays
from kernels.random.writer import KernelWriter

_SHAPES = {
    1: [(1,), (7,), (16,), (32,), (33,), (64,), (100,), (128,), (200,), (256,)],
    2: [(8, 4), (16, 16), (33, 2), (5, 3), (64, 4), (4, 8), (32, 8), (1, 1), (16, 4)],
}
_GRIDS = {1: [(1,), (2,), (4,), (5,), (8,)], 2: [(3, 2), (2, 2), (4, 1), (1, 3)]}
_NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16)
_FLOAT_OPS = ["addf", "addf", "subf", "mulf", "divf", "maximumf", "minimumf", "maxnumf", "minnumf"]
_INT_OPS = ["addi", "subi", "muli", "andi", "ori", "xori", "maxsi", "minsi", "maxui", "minui"]
_BY_CONSTANT = ["divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi", "shli", "shrsi", "shrui"]
_SCALARS = [("%n0", "index"), ("%n1", "i32"), ("%n2", "i64")]
_COUNTERS = "memref<2xi32>"
_PLACES = {"x": "%g", "y": "%gy"}


@dataclass
class _Scope:
    """What statements may use; ``within`` are the axes on which a check of bounds has been passed."""

    values: list[tuple[str, str]]
    same: list[str] = field(default_factory=list)  # indices that all of a workgroup share
    together: bool = True
    depth: int = 0
    within: bool = False
    limits: dict[str, str] = field(default_factory=dict)  # a counter → the size that it stays below

    def inner(self, *more: tuple[str, str], together: bool = False) -> _Scope:
        return _Scope([*self.values, *more], list(self.same), self.together and together, self.depth + 1,
                      self.within, dict(self.limits))  # fmt: skip


class AccessKernel(AccessFlow, KernelWriter):
    """Kernel ``@name`` for workgroups of one size and a grid; ``seed`` decides everything."""

    def __init__(self, seed: int, name: str) -> None:
        super().__init__(seed)
        self.seed = seed
        axes = 2 if self.random.random() < 0.4 else 1
        self.waits = self.random.random() < 0.45
        self.block, self.grid = self._pick(_SHAPES[axes]), self._pick(_GRIDS[axes])
        slack = {"x": [0, 0, 0, 1, 3, -2, -7], "y": [0, 0, 1, -1]}
        self.extents = {
            axis: max(1, groups * items + self._pick(slack[axis]))
            for axis, groups, items in zip("xy", self.grid, self.block, strict=False)
        }
        self.arrays = random_arrays(self.random, self.extents)
        self.scalars = [np.int64(self.random.randint(0, 9)), np.int32(self.random.randint(0, 70)),
                        np.int64(self.random.randint(-3, 40))]  # fmt: skip
        self.tile_kind = self._pick(["f32", "i32", "f16", "i8", "f64"])
        shape = [self.block[1], self.block[0] + self._pick([0, 1])] if axes == 2 else [self.block[0]]
        self.tile = f"memref<{'x'.join(map(str, shape))}x{self.tile_kind}, {WG}>"
        self.own_memory = self._pick(["", "", "", "f32", "i32"])
        scope = self._beginning()
        self.given = len(scope.values)
        for _ in range(self.random.randint(1, 2)):
            if self.waits or self.random.random() < 0.5:
                self._statements(scope, self.random.randint(2, 5))
            else:
                self._checked(scope, self.random.randint(2, 6))
        self._checked(scope, 0, last=True)
        self.text = self._function(name)

    @property
    def arguments(self) -> list[object]:
        """Of a launch; arrays are made anew each time."""
        extents = [np.int64(self.extents.get(axis, 1)) for axis in "xy"]
        return [*contents(self.arrays, self.seed), np.zeros(2, np.int32), *self.scalars, *extents]

    def _function(self, name: str) -> str:
        scalars = [*_SCALARS, ("%ex", "index"), ("%ey", "index")]
        parameters = [*((a.name, a.type) for a in self.arrays), ("%K", _COUNTERS), *scalars]
        head = f"gpu.func @{name}({', '.join(f'{n}: {kind}' for n, kind in parameters)})"
        head += f" workgroup(%S : {self.tile})" if self.waits else ""
        sizes = ", ".join(map(str, (*self.block, 1, 1)[:3]))
        known = f" attributes {{known_block_size = array<i32: {sizes}>}}" if self.seed % 4 == 1 else ""
        return f"  {head} kernel{known} {{\n" + "\n".join(self.lines) + "\n    gpu.return\n  }\n"

    def _beginning(self) -> _Scope:
        self._emit(*(f"%c{number} = arith.constant {number} : index" for number in _NUMBERS))
        tells = self.waits or self.random.random() < 0.5  # others may be joined
        if tells or self.random.random() < 0.5:
            self.lines.append(PLACE.strip("\n"))
            self._emit("%bx = gpu.block_id x", "%before = arith.muli %bx, %nx : index",
                       "%g = arith.addi %before, %x : index")  # fmt: skip
        else:
            self._emit("%g = gpu.global_id x")
        self._emit("%gy = gpu.global_id y", "%f0 = arith.constant 1.5 : f32", "%i0 = arith.constant -5 : i32")
        scope = _Scope(
            [("%g", "index"), ("%gy", "index"), ("%f0", "f32"), ("%i0", "i32"), *_SCALARS], ["%n0"]
        )
        if tells:
            scope.values += [("%x", "index"), ("%t", "index"), ("%bx", "index")]
            scope.same += ["%bx", "%nx"]
        for array in self.arrays:
            for axis in range(len(array.sizes)):
                self._emit(f"{array.extent(axis)} = memref.dim {array.name}, %c{axis} : {array.type}")
        if kind := self.own_memory:
            value = "%f0" if kind == "f32" else "%i0"
            self._emit(f"%priv = memref.alloca() : memref<8x{kind}>")
            for number in range(8):
                self._emit(f"%p{number} = arith.constant {number} : index",
                           f"memref.store {value}, %priv[%p{number}] : memref<8x{kind}>")  # fmt: skip
        return scope

    # ---- values ----

    def _let(self, text: str, kind: str, scope: _Scope) -> str:
        name = self._name()
        self._emit(f"{name} = {text}")
        scope.values.append((name, kind))
        return name

    def _value(self, kind: str, scope: _Scope) -> str:
        """One of that type, rather a new one; or a cast of any."""
        known = [name for name, its in scope.values if its == kind]
        if known:
            return self._pick(known[-6:] if self.random.random() < 0.7 else known)
        return self._cast(self._pick(scope.values), kind, scope)

    def _cast(self, value: tuple[str, str], kind: str, scope: _Scope) -> str:
        name, before = value
        sign = self._pick("su")
        if before == kind:
            return name
        if before == "i1":
            name, before = self._let(f"arith.extui {name} : i1 to i32", "i32", scope), "i32"
            return self._cast((name, before), kind, scope)
        if before in FLOATS and kind in FLOATS:
            op = "extf" if FLOATS[kind](0).itemsize > FLOATS[before](0).itemsize else "truncf"
        elif before in FLOATS:
            kept = self._let(
                f"arith.bitcast {name} : {before} to {_bits_of(before)}", _bits_of(before), scope
            )
            return self._cast((kept, _bits_of(before)), kind, scope)
        elif "index" in (before, kind):
            if kind in FLOATS:
                return self._cast((self._cast(value, "i32", scope), "i32"), kind, scope)
            op = "index_cast" if sign == "s" else "index_castui"
        elif kind in FLOATS:
            op = f"{sign}itofp"
        else:
            op = f"ext{sign}i" if INTS[kind](0).itemsize > INTS[before](0).itemsize else "trunci"
        return self._let(f"arith.{op} {name} : {before} to {kind}", kind, scope)

    def _below(self, limit: str, scope: _Scope) -> str:
        """An index that is less than ``limit``."""
        counters = [name for name, its in scope.limits.items() if its == limit]
        if counters and self.random.random() < 0.6:
            return self._pick(counters)
        value = self._value("index", scope)
        op, number = self._pick([("addi", 1), ("addi", 3), ("muli", 2), ("muli", 3), ("addi", 0)])
        moved = self._let(f"arith.{op} {value}, %c{number} : index", "index", scope)
        return self._let(f"arith.remui {moved}, {limit} : index", "index", scope)

    def _own(self, array: Array, scope: _Scope) -> list[str]:
        """Indices of an element that is the work-item's own."""
        return [_PLACES.get(a) or self._below(array.extent(i), scope) for i, a in enumerate(array.shape)]

    def _any(self, array: Array, scope: _Scope) -> list[str]:
        return [
            _PLACES[axis]
            if axis in _PLACES and scope.within and self.random.random() < 0.6
            else self._below(array.extent(number), scope)
            for number, axis in enumerate(array.shape)
        ]

    def _load(self, array: Array, indices: list[str], scope: _Scope) -> str:
        return self._let(f"memref.load {array.name}[{', '.join(indices)}] : {array.type}", array.kind, scope)

    def _store(self, array: Array, value: str, scope: _Scope) -> None:
        indices = ", ".join(self._own(array, scope))
        self._emit(f"memref.store {value}, {array.name}[{indices}] : {array.type}")

    # ---- statements ----

    def _statements(self, scope: _Scope, count: int) -> None:
        kinds = ["compute"] * 5 + ["load"] * 5 + ["store"] * 3 + ["choose", "count", "row", "vector"]
        kinds += ["private"] * 3 if self.own_memory else []
        if scope.depth < 3:
            kinds += ["for"] * 4 + ["if"] * 2 + ["check"] * 2 + ["neighbour", "while"]
        if scope.together and self.waits:
            kinds += ["tile"] * 3 + ["barrier", "reduce"]
        for _ in range(count):
            getattr(self, f"_{self._pick(kinds)}_statement")(scope)

    def _checked(self, scope: _Scope, count: int, *, last: bool = False) -> None:
        """Statements behind a check that the work-item is within the arrays; the last ones store results."""
        conditions = [self._within(_PLACES[axis], f"%e{axis}") for axis in self.extents]
        condition = conditions[0]
        for other in conditions[1:]:
            condition = self._name()
            self._emit(f"{condition} = arith.andi {conditions[0]}, {other} : i1")
        self._emit(f"scf.if {condition} {{")
        inner = scope.inner()
        inner.within = True
        self._statements(inner, count)
        computed, written = inner.values[self.given :], [array for array in self.arrays if array.role != "in"]
        for array in written if last else [self._pick(written)]:
            picked = self.random.sample(computed, min(len(computed), 12 if last else 3))
            self._store(array, self._mixed(picked, array.kind, inner), inner)
        self._emit("}")

    def _within(self, place: str, limit: str) -> str:
        result, left, right = self._name(), self._name(), self._name()
        form = self.random.randint(0, 4)
        if form < 2:
            self._emit(f"{result} = arith.cmpi {('ult', 'slt')[form]}, {place}, {limit} : index")
        elif form == 2:
            self._emit(f"{result} = arith.cmpi sgt, {limit}, {place} : index")
        elif form == 3:
            self._emit(f"{left} = arith.subi {limit}, %c1 : index",
                       f"{result} = arith.cmpi ule, {place}, {left} : index")  # fmt: skip
        else:
            self._emit(f"{left} = arith.index_cast {place} : index to i32",
                       f"{right} = arith.index_cast {limit} : index to i32",
                       f"{result} = arith.cmpi slt, {left}, {right} : i32")  # fmt: skip
        return result

    def _mixed(self, values: list[tuple[str, str]], kind: str, scope: _Scope) -> str:
        """All of them and the work-item's place in one, such that none is lost."""
        total = self._cast(("%g", "index"), "i64", scope)
        for name, its in values:
            factor = self._let("arith.constant 31 : i64", "i64", scope)
            more = self._let(f"arith.muli {total}, {factor} : i64", "i64", scope)
            known = name
            if its in FLOATS:  # of NaN, bits may differ
                zero = self._let(f"arith.constant 0.0 : {its}", its, scope)
                real = self._let(f"arith.cmpf ord, {name}, {name} : {its}", "i1", scope)
                known = self._let(f"arith.select {real}, {name}, {zero} : {its}", its, scope)
            total = self._let(
                f"arith.xori {more}, {self._cast((known, its), 'i64', scope)} : i64", "i64", scope
            )
        if kind in FLOATS:
            short = self._let(f"arith.trunci {total} : i64 to i16", "i16", scope)
            return self._let(f"arith.sitofp {short} : i16 to {kind}", kind, scope)
        return self._cast((total, "i64"), kind, scope)

    def _check_statement(self, scope: _Scope) -> None:
        self._checked(scope, self.random.randint(1, 3))

    def _compute_statement(self, scope: _Scope) -> None:
        kind = self._pick(["f32", "f32", "f64", "f16", "i32", "index", "i64", "i8", "i16"])
        left, right = self._value(kind, scope), self._value(kind, scope)
        op = self._pick(_FLOAT_OPS if kind in FLOATS else [*_INT_OPS, *_BY_CONSTANT[:4]])
        if kind in INTS and self.random.random() < 0.3:
            op = self._pick(_BY_CONSTANT)
        if op in _BY_CONSTANT:
            right = self._let(f"arith.constant {self._pick([2, 3, 5, 7])} : {kind}", kind, scope)
        self._let(f"arith.{op} {left}, {right} : {kind}", kind, scope)

    def _choose_statement(self, scope: _Scope) -> None:
        of, kind = self._pick(["f32", "f64", "i32", "index"]), self._pick(["f32", "i32", "index", "f16"])
        test = self._pick(
            ["f olt", "f ueq", "f une", "f uge"] if of in FLOATS else ["i slt", "i ult", "i eq", "i ne"]
        )
        left, right = self._value(of, scope), self._value(of, scope)
        bit = self._let(f"arith.cmp{test}, {left}, {right} : {of}", "i1", scope)
        yes, no = self._value(kind, scope), self._value(kind, scope)
        self._let(f"arith.select {bit}, {yes}, {no} : {kind}", kind, scope)

    def _load_statement(self, scope: _Scope) -> None:
        array = self._pick(self.arrays)
        if array.role == "in":
            self._load(array, self._any(array, scope), scope)
        elif array.role == "both" and scope.within:
            self._load(array, self._own(array, scope), scope)

    def _store_statement(self, scope: _Scope) -> None:
        array = self._pick([array for array in self.arrays if array.role != "in"])
        if scope.within:
            self._store(array, self._value(array.kind, scope), scope)

    def _private_statement(self, scope: _Scope) -> None:
        at, kind = self._below("%c8", scope), self.own_memory
        if self.random.random() < 0.5:
            self._emit(f"memref.store {self._value(kind, scope)}, %priv[{at}] : memref<8x{kind}>")
        else:
            self._let(f"memref.load %priv[{at}] : memref<8x{kind}>", kind, scope)

    def _count_statement(self, scope: _Scope) -> None:
        op, cell = self._pick([("addi", 0), ("maxs", 1)])
        value = self._value("i32", scope)
        self._emit(
            f"{self._name()} = memref.atomic_rmw {op} {value}, %K[%c{cell}] : (i32, {_COUNTERS}) -> i32"
        )

    def _row_statement(self, scope: _Scope) -> None:
        """Along a row of one's own, where what is stored is carried on."""
        arrays = [array for array in self.arrays if array.role != "in" and "*" in array.shape]
        if not arrays or not scope.within:
            return
        array = self._pick(arrays)
        axis, kind = array.shape.index("*"), array.kind
        at, carried, out = self._name(), self._name(), self._name()
        self._emit(f"{out} = scf.for {at} = %c0 to {array.extent(axis)} step %c1 "
                   f"iter_args({carried} = {self._value(kind, scope)}) -> ({kind}) {{")  # fmt: skip
        inner = scope.inner((at, "index"), (carried, kind))
        indices = self._own(array, inner)
        indices[axis] = at
        more = self._load(array, indices, inner) if array.role == "both" else self._value(kind, inner)
        self._statements(inner, self.random.randint(0, 2))
        op = "addf" if kind in FLOATS else "addi"
        total = self._let(f"arith.{op} {carried}, {more} : {kind}", kind, inner)
        self._emit(f"memref.store {total}, {array.name}[{', '.join(indices)}] : {array.type}",
                   f"scf.yield {total} : {kind}", "}")  # fmt: skip
        scope.values.append((out, kind))

    def _vector_statement(self, scope: _Scope) -> None:
        """Elements side by side on any axis, some of which may lie outside or be masked."""
        array, length = (
            self._pick([array for array in self.arrays if array.role == "in"]),
            self._pick([3, 4, 8]),
        )
        kind, names = array.kind, "abc"[: len(array.shape)]
        pad = self._let(f"arith.constant {'2.0' if kind in FLOATS else '2'} : {kind}", kind, scope)
        indices, mask = self._any(array, scope), ""
        if self.random.random() < 0.3:
            count = self._below("%c5", scope)
            mask = f", {self._name()}"
            self._emit(f"{mask[2:]} = vector.create_mask {count} : vector<{length}xi1>")
        axes = f"affine_map<({', '.join(names)}) -> ({self._pick(names)})>"
        rows = self._name()
        self._emit(f"{rows} = vector.transfer_read {array.name}[{', '.join(indices)}], {pad}{mask} "
                   f"{{permutation_map = {axes}}} : {array.type}, vector<{length}x{kind}>")  # fmt: skip
        if self.random.random() < 0.5:
            op = "maximumf" if kind in FLOATS else "add"
            self._let(f"vector.reduction <{op}>, {rows} : vector<{length}x{kind}> into {kind}", kind, scope)
        else:
            self._let(f"vector.extract {rows}[1] : {kind} from vector<{length}x{kind}>", kind, scope)

    def _barrier_statement(self, scope: _Scope) -> None:
        self._emit("gpu.barrier")

    def _reduce_statement(self, scope: _Scope) -> None:
        op, value = self._pick(["add", "maxsi", "xor"]), self._value("i32", scope)
        self._let(f"gpu.all_reduce {op} {value} uniform {{}} : (i32) -> (i32)", "i32", scope)

    def _tile_statement(self, scope: _Scope) -> None:
        """Each stores its element of workgroup memory, and all read any, some a row."""
        kind, flat = self.tile_kind, len(self.block) == 1
        own = "%t" if flat else "%y, %x"
        self._emit(f"memref.store {self._value(kind, scope)}, %S[{own}] : {self.tile}", "gpu.barrier")
        for _ in range(self.random.randint(1, 3)):
            at = (
                self._below("%n", scope)
                if flat
                else f"{self._below('%ny', scope)}, {self._below('%nx', scope)}"
            )
            self._let(f"memref.load %S[{at}] : {self.tile}", kind, scope)
        if scope.depth < 3 and self.random.random() < 0.5:
            at, total, out = self._name(), self._name(), self._name()
            self._emit(f"{out} = scf.for {at} = %c0 to %nx step %c1 "
                       f"iter_args({total} = {self._value(kind, scope)}) -> ({kind}) {{")  # fmt: skip
            inner = scope.inner((at, "index"), (total, kind))
            inner.limits[at] = "%nx"
            part = self._let(f"memref.load %S[{at if flat else f'%y, {at}'}] : {self.tile}", kind, inner)
            self._statements(inner, self.random.randint(0, 2))
            more = self._let(
                f"arith.{'addf' if kind in FLOATS else 'addi'} {total}, {part} : {kind}", kind, inner
            )
            self._emit(f"scf.yield {more} : {kind}", "}")
            scope.values.append((out, kind))
        self._emit("gpu.barrier")


def _bits_of(kind: str) -> str:
    return f"i{8 * FLOATS[kind](0).itemsize}"
