"""Random kernels whose loops load and compute: sums and extrema of what work-items load beside each other."""

from __future__ import annotations

import random

import numpy as np
from kernels.random.arrays import DTYPES, FLOATS

BLOCKS = [(16, 4), (32, 8), (64, 1), (80, 2), (16, 16), (20, 3), (7, 4), (48, 5), (128, 1), (64, 4)]
_KINDS = ["f32", "f32", "f32", "f64", "f16", "i32", "i64", "i8"]
_SMALL, _MIDDLE, _LARGE = 24, 96, 512  # extents of dimensions
# Arrays that are read: their kinds, extents and types.
_READ = [
    ("f32", (_MIDDLE, _LARGE), "memref<?x?xf32>"),
    ("f32", (_SMALL, _SMALL, _LARGE), "memref<24x24x512xf32>"),
    ("f64", (_LARGE,), "memref<?xf64>"),
    ("f16", (_MIDDLE, _LARGE), "memref<?x?xf16, strided<[?, 1], offset: ?>>"),
    ("i32", (_SMALL, _LARGE), "memref<?x?xi32>"),
    ("i8", (_LARGE,), "memref<512xi8>"),
    ("i64", (_MIDDLE, _SMALL), "memref<?x?xi64, strided<[?, ?], offset: ?>>"),
    # Of these, work-items read rows.
    ("f32", (_LARGE, _MIDDLE), "memref<?x?xf32>"),
    ("f64", (_LARGE, _MIDDLE), "memref<?x?xf64, strided<[?, 1], offset: ?>>"),
    ("i8", (_LARGE, _MIDDLE), "memref<512x96xi8>"),
]
_ROWS = 3
_POSITION = (
    "%x = gpu.global_id x",
    "%y = gpu.global_id y",
    "%inx = arith.cmpi ult, %x, %width : index",
    "%iny = arith.cmpi ult, %y, %rows : index",
    "%in = arith.andi %inx, %iny : i1",
)


class SumKernel:
    """A kernel for one or two dimensions, of which all work-items run the same iterations."""

    def __init__(self, seed: int) -> None:
        self.name = f"k{seed}"
        self.random = random.Random(seed)
        self.block = self.random.choice(BLOCKS)
        self.grid = (self.random.choice([1, 2]), self.random.choice([1, 3]))
        self.extents = tuple(
            size * count - self.random.choice([0, 0, 1, size // 2])
            for size, count in zip(self.block, self.grid, strict=True)
        )
        self.divided = self.random.random() < 0.3  # row and column are found by division of one id
        if self.divided:
            self.block = (self.random.choice([64, 80, 200]), 1)
            self.grid = (-(-self.extents[0] * self.extents[1] // self.block[0]), 1)
        self._lines: list[str] = []
        self._made = 0
        self._counter = ""  # of the innermost loop
        self._values: list[tuple[str, str]] = []  # names and kinds
        large = ["%x", "%x", "%y", "%half"]
        self._indices = {_SMALL: ["%c0", "%c3", "%n"], _MIDDLE: ["%y", "%c3"], _LARGE: large}
        self.kinds = [self.random.choice(_KINDS) for _ in range(self.random.randint(1, 3))]
        self.text = self._kernel()

    @property
    def arguments(self) -> list[object]:
        """Arrays to read, arrays for results, and numbers."""
        numbers = np.random.default_rng(int(self.name[1:]))
        read = []
        for kind, sizes, layout in _READ:
            whole = numbers.integers(-50, 50, sizes).astype(DTYPES[kind])
            if kind in FLOATS:
                whole /= 8
            read.append(np.asfortranarray(whole) if "[?, ?]" in layout else whole)
        width, rows = self.extents
        results = [np.zeros((rows, width), DTYPES[kind]) for kind in self.kinds]
        return [*read, *results, 2, 11 + 24 * (int(self.name[1:]) % 2), width, rows]

    # ---- text ----

    def _kernel(self) -> str:
        results = ", ".join(f"%o{n}: memref<?x?x{kind}>" for n, kind in enumerate(self.kinds))
        read = ", ".join(f"%p{n}: {text}" for n, (_, _, text) in enumerate(_READ))
        known = f"attributes {{known_block_size = array<i32: {self.block[0]}, {self.block[1]}, 1>}} "
        constants = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 5, 15, 40)]
        self._emit(*constants, *(self._divided() if self.divided else _POSITION))
        self._emit("%half = arith.shrui %x, %c1 : index")
        waits = self.random.random() < 0.3
        for kind in ("f32", "i32", "f64"):
            self._values.append(
                (self._let(f"arith.constant {'3' if kind == 'i32' else '1.5'} : {kind}"), kind)
            )
        if waits:  # what is loaded before it is needed behind it
            self._before()
            self._emit("gpu.barrier")
        self._emit("scf.if %in {")
        if not waits:
            self._before()
        self.depth = self.random.choice([1, 1, 2, 3])
        names = self._loop(self.kinds, self.depth)
        for number, (name, kind) in enumerate(zip(names, self.kinds, strict=True)):
            self._emit(f"memref.store {name}, %o{number}[%y, %x] : memref<?x?x{kind}>")
        self._emit("}", "gpu.return")
        return (
            f"gpu.func @{self.name}({read}, {results}, %n: index, %count: index, %width: index, "
            f"%rows: index) kernel {known if self.random.random() < 0.5 else ''}{{\n"
            + "\n".join(self._lines)
            + "\n}\n"
        )

    def _divided(self) -> list[str]:
        """The place of the work-item from its number."""
        lines = ["%id = gpu.global_id x", "%all = arith.muli %width, %rows : index"]
        lines += ["%in = arith.cmpi ult, %id, %all : index"]
        sign, is_narrow = self.random.choice("us"), self.random.random() < 0.5
        if is_narrow:
            lines += ["%id32 = arith.index_cast %id : index to i32"]
            lines += ["%width32 = arith.index_cast %width : index to i32"]
        for name, op in (("%y", "div"), ("%x", "rem")):
            if is_narrow:
                lines += [f"{name}32 = arith.{op}{sign}i %id32, %width32 : i32"]
                lines += [f"{name} = arith.index_cast {name}32 : i32 to index"]
            else:
                lines += [f"{name} = arith.{op}{sign}i %id, %width : index"]
        return lines

    def _before(self) -> None:
        """Statements in front of the loop, whose values it uses."""
        for _ in range(self.random.randint(0, 3)):
            self._statement()

    def _loop(self, kinds: list[str], depth: int) -> list[str]:
        """A loop that carries values of ``kinds``; the names of its results."""
        out, counter = self._name(), self._name()
        short = [] if depth == self.depth else ["%c1", "%c2", "%c3", "%c5"]
        upper = self.random.choice(["%c40", "%count", *short])
        step = self.random.choice(["%c1", "%c1", "%c1", "%c2", "%c3"])
        arguments = [(self._name(), kind) for kind in kinds]
        initial, types = [self._of(kind) for kind in kinds], ", ".join(kinds)
        is_while = self.random.random() < 0.3
        if is_while:
            opening = self._while(out, counter, arguments, upper, initial)
        else:
            pairs = ", ".join(
                f"{name} = {value}" for (name, _), value in zip(arguments, initial, strict=True)
            )
            opening = [f"{out}:{len(kinds)} = scf.for {counter} = %c0 to {upper} step {step} "]
            opening[0] += f"iter_args({pairs}) -> ({types}) {{"
        self._emit(*opening)
        outer = list(self._values), {size: list(names) for size, names in self._indices.items()}
        self._values += arguments
        around, self._counter = self._counter, counter
        small = counter
        if upper in ("%c40", "%count"):
            small = self._let(f"arith.remui {counter}, %c5 : index")
        self._indices[_SMALL] += [small] * 3
        for size in (_MIDDLE, _LARGE):
            self._indices[size] += [counter, counter]
        follow: list[str] = []
        for _ in range(self.random.randint(1, 4)):
            self._statement()
        if depth > 1:
            inner = self._loop(kinds, depth - 1)
            self._values += zip(inner, kinds, strict=True)
        for name, kind in arguments:
            value = self._of(kind)
            op = self.random.choice(["addf", "maximumf"] if kind in FLOATS else ["addi", "minsi"])
            follow.append(self._let(f"arith.{op} {name}, {value} : {kind}"))
        if is_while:
            follow.insert(0, self._let(f"arith.addi {counter}, {step} : index"))
            types = f"index, {types}"
        self._emit(f"scf.yield {', '.join(follow)} : {types}", "}")
        self._values, self._indices = outer
        self._counter = around
        return [f"{out}#{number + is_while}" for number in range(len(kinds))]

    def _while(
        self, out: str, counter: str, arguments: list[tuple[str, str]], upper: str, initial: list[str]
    ) -> list[str]:
        """The same loop as one that compares its counter first."""
        tested = [self._name() for _ in range(1 + len(initial))]
        pairs = ", ".join(f"{name} = {value}" for name, value in zip(tested, ["%c0", *initial], strict=True))
        types = ", ".join(["index", *(kind for _, kind in arguments)])
        given = ", ".join(f"{name}: {kind}" for name, kind in [(counter, "index"), *arguments])
        more = self._name()
        return [
            f"{out}:{len(tested)} = scf.while ({pairs}) : ({types}) -> ({types}) {{",
            f"{more} = arith.cmpi slt, {tested[0]}, {upper} : index",
            f"scf.condition({more}) {', '.join(tested)} : {types}",
            "} do {",
            f"^bb0({given}):",
        ]

    def _statement(self) -> None:
        makes = [self._load, self._load, self._load, self._compute, self._index, self._convert, self._select]
        if self._counter:
            makes += [self._row, self._row]
        self.random.choice(makes)()

    def _load(self) -> None:
        number = self.random.randrange(len(_READ))
        kind, sizes, text = _READ[number]
        indices = ", ".join(self.random.choice(self._indices[size]) for size in sizes)
        self._values.append((self._let(f"memref.load %p{number}[{indices}] : {text}"), kind))

    def _row(self) -> None:
        """Load an element of a row of the work-item, the next one in each iteration."""
        number = self.random.randrange(len(_READ) - _ROWS, len(_READ))
        kind, _, text = _READ[number]
        row, at = self.random.choice(["%x", "%x", "%half", "%y"]), self._counter
        if self.random.random() < 0.4:
            at = self._sum(at, self.random.choice(["%y", "%c3", "%n"]))
        self._values.append((self._let(f"memref.load %p{number}[{row}, {at}] : {text}"), kind))

    def _compute(self) -> None:
        kind = self.random.choice(_KINDS)
        left, right = self._of(kind), self._of(kind)
        floats, integers = ["addf", "subf", "mulf", "maximumf"], ["addi", "subi", "muli", "andi", "maxui"]
        op = self.random.choice(floats if kind in FLOATS else integers)
        text = f"arith.{op} {left}, {right} : {kind}"
        if kind in ("f32", "f64") and self.random.random() < 0.2:
            text = f"math.fma {left}, {right}, {left} : {kind}"
        self._values.append((self._let(text), kind))

    def _index(self) -> None:
        """A sum of indices, one that was loaded, or the id of the work-item, read here."""
        if self.random.random() < 0.1:
            self._indices[_LARGE].append("%x" if self.divided else self._let("gpu.global_id x"))
            return
        if self.random.random() < 0.3:
            number = self._let(f"arith.index_cast {self._of('i32')} : i32 to index")
            self._indices[_SMALL].append(self._let(f"arith.andi {number}, %c15 : index"))
            return
        of = self.random.choice([_MIDDLE, _LARGE])
        small, other = self.random.choice(self._indices[_SMALL]), self.random.choice(["%x", "%y", "%c40"])
        if of == _MIDDLE and other == "%x":
            other = "%y"
        self._indices[of].append(self._sum(small, other))

    def _sum(self, left: str, right: str) -> str:
        """A sum of indices, often in fewer bits, as C and CUDA have it."""
        kind = self.random.choice(["index", "i16", "i32", "i32"])
        if kind == "index":
            return self._let(f"arith.addi {left}, {right} : index")
        narrow = [self._let(f"arith.index_cast {value} : index to {kind}") for value in (left, right)]
        total = self._let(f"arith.addi {', '.join(narrow)} : {kind}")
        if self.random.random() < 0.5:
            total, kind = self._let(f"arith.extsi {total} : {kind} to i64"), "i64"
        return self._let(f"arith.index_cast {total} : {kind} to index")

    def _convert(self) -> None:
        if self.random.random() < 0.5:
            index = self.random.choice(self._indices[_LARGE])
            self._values.append((self._let(f"arith.index_cast {index} : index to i32"), "i32"))
            return
        name, kind = self.random.choice([value for value in self._values if value[1] in FLOATS])
        wide = {"f16": "f32", "f32": "f64", "f64": "f32"}[kind]
        op = "truncf" if kind == "f64" else "extf"
        self._values.append((self._let(f"arith.{op} {name} : {kind} to {wide}"), wide))

    def _select(self) -> None:
        left, right, kind = self._of("i32"), self._of("i32"), self.random.choice(_KINDS)
        bit = self._let(f"arith.cmpi slt, {left}, {right} : i32")
        self._values.append(
            (self._let(f"arith.select {bit}, {self._of(kind)}, {self._of(kind)} : {kind}"), kind)
        )

    def _of(self, kind: str) -> str:
        """A value of ``kind``, made if there is none."""
        found = [name for name, other in self._values if other == kind]
        if found and self.random.random() < 0.9:
            return self.random.choice(found[-4:])
        return self._let(f"arith.constant {'0.5' if kind in FLOATS else '1'} : {kind}")

    def _let(self, text: str) -> str:
        name = self._name()
        self._emit(f"{name} = {text}")
        return name

    def _name(self) -> str:
        self._made += 1
        return f"%v{self._made}"

    def _emit(self, *lines: str) -> None:
        self._lines += lines
