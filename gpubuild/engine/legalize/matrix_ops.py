"""Each ``gpu.subgroup_mma_*`` op as vector code of one lane, on its fragments of the matrices.

The dialect does not define which part of a ``!gpu.mma_matrix`` a work-item has. Without matrix units the
result of a multiplication is cut into equal tiles, one for each lane. A lane also has the rows of A and the
columns of B that it needs to compute its tile. So no lane needs a value of another.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.memrefs import metadata, reinterpreted
from gpubuild.engine.legalize.subgroup_shuffle import below, last_word
from gpubuild.support.frozen import frozen

_TYPE = re.compile(r'!gpu\.mma_matrix<(\d+)x(\d+)x(\w+), "(\w)Op">')


@frozen
class MatrixType:
    """A ``!gpu.mma_matrix``: ``role`` is A, B or C, ``element`` is text such as ``si8``."""

    rows: int
    columns: int
    element: str
    role: str

    @classmethod
    def of(cls, kind: ir.Type) -> MatrixType | None:
        """Return the matrix type that ``kind`` is; ``None`` for other types."""
        match = _TYPE.fullmatch(str(kind))
        if match is None:
            return None
        return cls(rows=int(match[1]), columns=int(match[2]), element=match[3], role=match[4])

    @property
    def scalar(self) -> ir.Type:
        """The element type of arithmetic, which has no sign."""
        return ir.Type.parse(self.element.lstrip("su"))

    @property
    def unsigned(self) -> bool:
        """Whether elements are unsigned integers."""
        return self.element.startswith("u")


@frozen
class Tiles:
    """A matrix cut into ``down`` x ``across`` tiles of ``rows`` x ``columns`` elements."""

    down: int
    across: int
    rows: int
    columns: int

    @classmethod
    def cut(cls, rows: int, columns: int, lanes: int) -> Tiles:
        """Return the smallest tiles for at most ``lanes`` lanes; wide rather than high."""
        choices = [
            (height * width, height, width)
            for height in _divisors(rows)
            for width in _divisors(columns)
            if (rows // height) * (columns // width) <= lanes
        ]
        _, height, width = min(choices)
        return cls(down=rows // height, across=columns // width, rows=height, columns=width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragment(ABC):
    """The part of a matrix that a lane has: a vector of ``rows`` x ``columns`` elements.

    They are ``row_step`` rows and ``column_step`` columns apart. Only the first ``lanes`` lanes have parts of
    their own; the others have copies.
    """

    matrix: MatrixType
    rows: int
    columns: int
    row_step: int = 1
    column_step: int = 1
    lanes: int

    @property
    def vector(self) -> ir.VectorType:
        """The type of the value that replaces the matrix in a lane."""
        return ir.VectorType.get([self.rows, self.columns], self.matrix.scalar)

    @abstractmethod
    def origin(self, emit: Emitter) -> tuple[ir.Value, ir.Value]:
        """Return the row and the column of the first element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileFragment(Fragment):
    """The rows and columns of a matrix that a lane needs for its tile of the result."""

    tiles: Tiles

    @classmethod
    def of(cls, matrix: MatrixType, tiles: Tiles) -> TileFragment:
        """Return the part of ``matrix`` that a lane needs for its tile: all rows of B, all columns of A."""
        return cls(
            tiles=tiles,
            lanes=tiles.down * tiles.across,
            rows=matrix.rows if matrix.role == "B" else tiles.rows,
            columns=matrix.columns if matrix.role == "A" else tiles.columns,
            matrix=matrix,
        )

    def origin(self, emit: Emitter) -> tuple[ir.Value, ir.Value]:
        """A lane without a tile of its own begins where another does."""
        tiles = self.tiles
        lane: ir.Value = emit.value("gpu.lane_id", [], ir.IndexType.get())
        tile = remainder(emit, lane, self.lanes)
        row = emit.constant(0)
        if self.matrix.role != "B":
            row = times(emit, quotient(emit, tile, tiles.across), self.rows)
        column = emit.constant(0)
        if self.matrix.role != "A":
            column = times(emit, remainder(emit, tile, tiles.across), self.columns)
        return row, column


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


_CONTRACT = "#arith.fastmath<contract>"
_FLOATS = {
    "addf": "arith.addf", "subf": "arith.subf", "mulf": "arith.mulf", "divf": "arith.divf",
    "maxf": "arith.maximumf", "minf": "arith.minimumf", "negatef": "arith.negf",
}  # fmt: skip
_INTEGERS = {
    "addi": "arith.addi", "subi": "arith.subi", "muli": "arith.muli",
    "divs": "arith.divsi", "divu": "arith.divui",
}  # fmt: skip
FUNCTIONS = frozenset({*_FLOATS, *_INTEGERS, "negates", "extf"})  # of gpu.subgroup_mma_elementwise


@frozen
class MatrixOp:
    """An op with the fragments of its matrix operands and results, in order; ``lanes`` in a subgroup."""

    lanes: int
    op: ir.Operation
    operands: tuple[Fragment, ...]
    results: tuple[Fragment, ...]


def load(work: MatrixOp) -> None:
    """Expand ``gpu.subgroup_mma_load_matrix``."""
    op, fragment = work.op, work.results[0]
    emit = Emitter(op)
    where = _Location.of(op, fragment, op.operands[0], list(op.operands)[1:], emit)
    row = ir.VectorType.get([where.width], fragment.matrix.scalar)
    whole = emit.constant(0, ir.VectorType.get([where.height, where.width], fragment.matrix.scalar))
    for number in range(where.height):
        if where.step == 1:
            value = emit.value("vector.load", [where.memory, where.row(number, emit)], row)
        else:
            elements = [
                emit.value("memref.load", [where.memory, index], row.element_type)
                for index in where.elements(number, emit)
            ]
            value = emit.value("vector.from_elements", elements, row)
        whole = emit.insert(value, whole, [number])
    emit.replace(transpose(emit, whole) if where.transposed else whole)


def store(work: MatrixOp) -> None:
    """Expand ``gpu.subgroup_mma_store_matrix``: lanes beyond the last tile have copies and do not store."""
    op, fragment = work.op, work.operands[0]
    emit = Emitter(op)
    value, memory, *indices = list(op.operands)
    if fragment.lanes < work.lanes:
        lane = emit.value("gpu.lane_id", [], ir.IndexType.get())
        branch = emit.op("scf.if", [below(emit, lane, emit.constant(fragment.lanes))], [], regions=2)
        block = branch.regions[0].blocks.append()
        ir.Operation.create("scf.yield", loc=op.location, ip=ir.InsertionPoint(block))
        emit = Emitter(block.operations[0].operation)
    where = _Location.of(op, fragment, memory, indices, emit)
    if where.transposed:
        value = transpose(emit, value)
    for number in range(where.height):
        if where.step == 1:
            part = emit.extract(value, [number])
            emit.op("vector.store", [part, where.memory, where.row(number, emit)], [])
            continue
        for column, index in enumerate(where.elements(number, emit)):
            emit.op("memref.store", [emit.extract(value, [number, column]), where.memory, index], [])
    op.erase()


def compute(work: MatrixOp) -> None:
    """Expand ``gpu.subgroup_mma_compute``: products are exact or rounded as sums are, in no given order."""
    op = work.op
    emit = Emitter(op)
    left, right, first = work.operands
    is_float = isinstance(first.matrix.scalar, ir.FloatType)
    wide = wider(first.matrix.scalar)
    a = widen(emit, op.operands[0], left, wide)
    b = widen(emit, op.operands[1], right, wide)
    c = widen(emit, op.operands[2], first, wide)
    row = ir.VectorType.get([first.columns], wide)
    b_rows = [emit.extract(b, [k]) for k in range(right.rows)]
    attributes = {"fastmath": ir.Attribute.parse(_CONTRACT)} if is_float else {}
    multiply, add = ("arith.mulf", "arith.addf") if is_float else ("arith.muli", "arith.addi")
    whole = c
    for number in range(first.rows):
        total = emit.extract(c, [number])
        for k, b_row in enumerate(b_rows):
            factor = _splat(emit, emit.extract(a, [number, k]), row)
            product = emit.value(multiply, [factor, b_row], row, attributes)
            total = emit.value(add, [total, product], row, attributes)
        whole = emit.insert(total, whole, [number])
    if wide != first.matrix.scalar:
        whole = emit.value("arith.truncf", [whole], first.vector)
    emit.replace(whole)


def constant(work: MatrixOp) -> None:
    """Expand ``gpu.subgroup_mma_constant_matrix``."""
    emit = Emitter(work.op)
    emit.replace(_splat(emit, work.op.operands[0], work.results[0].vector))


def elementwise(work: MatrixOp) -> None:
    """Expand ``gpu.subgroup_mma_elementwise``, for each of FUNCTIONS."""
    op = work.op
    name = last_word(op.attributes["opType"])
    emit = Emitter(op)
    values, kind = list(op.operands), work.results[0].vector
    if name == "negates":
        values, name = [emit.constant(0, kind), values[0]], "subi"
    if name == "extf":
        same = values[0].type == kind
        emit.replace(values[0] if same else emit.value("arith.extf", values, kind))
        return
    emit.replace(emit.value({**_FLOATS, **_INTEGERS}[name], values, kind))


def extract(work: MatrixOp) -> None:
    """Expand ``gpu.subgroup_mma_extract_thread_local``: elements of a lane count row by row."""
    op, fragment = work.op, work.operands[0]
    emit = Emitter(op)
    flat = _flat(emit, op.operands[0], fragment)
    emit.replace(emit.value("vector.extract", [flat, op.operands[1]], fragment.matrix.scalar, _dynamic()))


def insert(work: MatrixOp) -> None:
    """Expand ``gpu.subgroup_mma_insert_thread_local``."""
    op, fragment = work.op, work.results[0]
    emit = Emitter(op)
    value, matrix, index = list(op.operands)
    flat = _flat(emit, matrix, fragment)
    changed = emit.value("vector.insert", [value, flat, index], flat.type, _dynamic())
    emit.replace(emit.value("vector.shape_cast", [changed], fragment.vector))


EXPANSIONS: dict[str, Callable[[MatrixOp], None]] = {
    "gpu.subgroup_mma_load_matrix": load,
    "gpu.subgroup_mma_store_matrix": store,
    "gpu.subgroup_mma_compute": compute,
    "gpu.subgroup_mma_constant_matrix": constant,
    "gpu.subgroup_mma_elementwise": elementwise,
    "gpu.subgroup_mma_extract_thread_local": extract,
    "gpu.subgroup_mma_insert_thread_local": insert,
}


@frozen
class _Location:
    """A fragment in memory: ``height`` runs of ``width`` elements, each in a row of memory."""

    memory: ir.Value
    first: ir.Value  # index of the first element
    lead: int  # elements from one run to the next
    step: int  # elements from one element of a run to the next
    height: int
    width: int
    transposed: bool

    @classmethod
    def of(
        cls,
        op: ir.Operation,
        fragment: Fragment,
        memory: ir.Value,
        indices: Sequence[ir.Value],
        emit: Emitter,
    ) -> _Location:
        transposed = "transpose" in op.attributes
        lead = op.attributes["leadDimension"].value
        extents = (fragment.matrix.rows, fragment.matrix.columns)
        sizes = (fragment.rows, fragment.columns)
        steps = (fragment.row_step, fragment.column_step)
        outer, inner = fragment.origin(emit)
        if transposed:
            extents, sizes, steps, outer, inner = extents[::-1], sizes[::-1], steps[::-1], inner, outer
        return cls(
            memory=_view(emit, memory, indices, (extents[0] - 1) * lead + extents[1]),
            first=emit.binary("arith.addi", times(emit, outer, lead), inner),
            lead=steps[0] * lead,
            step=steps[1] if sizes[1] > 1 else 1,
            height=sizes[0],
            width=sizes[1],
            transposed=transposed,
        )

    def row(self, number: int, emit: Emitter) -> ir.Value:
        """Return the index of the first element of a run."""
        return emit.binary("arith.addi", self.first, emit.constant(number * self.lead))

    def elements(self, number: int, emit: Emitter) -> list[ir.Value]:
        """Return the indices of the elements of a run."""
        row = self.row(number, emit)
        return [
            emit.binary("arith.addi", row, emit.constant(column * self.step)) for column in range(self.width)
        ]


def _view(emit: Emitter, memory: ir.Value, indices: Sequence[ir.Value], extent: int) -> ir.Value:
    """Return ``extent`` consecutive elements of ``memory`` from ``indices`` on, as a vector of memory."""
    kind = memory.type
    base, at, _, strides = metadata(emit, memory)
    for value, stride in zip(indices, strides, strict=True):
        at = emit.binary("arith.addi", at, emit.binary("arith.muli", value, stride))
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    layout = ir.StridedLayoutAttr.get(dynamic, [1])
    new = ir.MemRefType.get([extent], kind.element_type, layout, kind.memory_space)
    return reinterpreted(emit, base, new, offset=[at], sizes=(), strides=())


def quotient(emit: Emitter, value: ir.Value, divisor: int) -> ir.Value:
    """Return ``value / divisor`` of unsigned indices."""
    if divisor == 1:
        return value
    if divisor & (divisor - 1):
        return emit.binary("arith.divui", value, emit.constant(divisor))
    return emit.binary("arith.shrui", value, emit.constant(divisor.bit_length() - 1))


def remainder(emit: Emitter, value: ir.Value, divisor: int) -> ir.Value:
    """Return ``value % divisor`` of unsigned indices."""
    if divisor & (divisor - 1):
        return emit.binary("arith.remui", value, emit.constant(divisor))
    return emit.binary("arith.andi", value, emit.constant(divisor - 1))


def times(emit: Emitter, value: ir.Value, factor: int) -> ir.Value:
    """Return ``value * factor``."""
    return value if factor == 1 else emit.binary("arith.muli", value, emit.constant(factor))


def wider(scalar: ir.Type) -> ir.Type:
    """Return the type in which products of a result of type ``scalar`` are summed."""
    return ir.F32Type.get() if str(scalar) == "f16" else scalar


def widen(emit: Emitter, value: ir.Value, fragment: Fragment, wide: ir.Type) -> ir.Value:
    """Return a fragment with its elements extended to ``wide``."""
    if fragment.matrix.scalar == wide:
        return value
    kind = ir.VectorType.get([fragment.rows, fragment.columns], wide)
    if isinstance(wide, ir.FloatType):
        return emit.value("arith.extf", [value], kind)
    name = "arith.extui" if fragment.matrix.unsigned else "arith.extsi"
    return emit.value(name, [value], kind)


def _splat(emit: Emitter, value: ir.Value, kind: ir.VectorType) -> ir.Value:
    return emit.value("vector.broadcast", [value], kind)


def transpose(emit: Emitter, value: ir.Value) -> ir.Value:
    """Return a vector of two dimensions with its dimensions exchanged."""
    kind = value.type
    turned = ir.VectorType.get(kind.shape[::-1], kind.element_type)
    order = {"permutation": ir.DenseI64ArrayAttr.get([1, 0])}
    return emit.value("vector.transpose", [value], turned, order)


def _flat(emit: Emitter, value: ir.Value, fragment: Fragment) -> ir.Value:
    kind = ir.VectorType.get([fragment.rows * fragment.columns], fragment.matrix.scalar)
    return emit.value("vector.shape_cast", [value], kind)


def _dynamic() -> dict[str, ir.Attribute]:
    return {"static_position": ir.DenseI64ArrayAttr.get([ir.ShapedType.get_dynamic_size()])}
