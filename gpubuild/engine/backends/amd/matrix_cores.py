"""Matrix code for AMD's matrix units: MFMA instructions of CDNA, WMMA instructions of RDNA 3.

An instruction multiplies two factors, each of 16 rows or columns. Lane ``l`` has elements of row or column
``l % 16`` of both factors, and of the result column ``l % 16``. Here the first factor is B and the second A,
and the instruction computes the transposed product, so that each lane has elements of one row of the
result. Sums may be computed in any order of the depth. So all elements of a lane in a row or column follow
each other in the matrix, and factors of f16 and f32 have equal fragments.

Sources: AMD's matrix instruction calculator, and LLVM's AMDGPU.td for the instructions of each chip.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize.matrix_ops import (
    Fragment,
    MatrixOp,
    MatrixType,
    quotient,
    remainder,
    times,
    transpose,
    widen,
    wider,
)
from gpubuild.engine.legalize.subgroup_shuffle import last_word
from gpubuild.support.frozen import frozen
from gpubuild.targets.amd import gfx_version

_PREFIX = "gpu.subgroup_mma_"
_SIZE = 16  # rows of the first factor, columns of the second
_WAVE64 = 64
_WIDE_RESULTS = {"f16": "f32", "si8": "i32", "ui8": "i32", "f32": "f32", "f64": "f64"}


@frozen
class _Instruction:
    """``depth``: columns of A. ``spread``: the rows of a lane's results are not consecutive."""

    depth: int
    spread: bool = False


_CDNA = {"f16": _Instruction(depth=16), "si8": _Instruction(depth=16), "f32": _Instruction(depth=4)}
_CDNA2 = {**_CDNA, "f64": _Instruction(depth=4, spread=True)}
_CDNA3 = {**_CDNA2, "si8": _Instruction(depth=32)}
_RDNA3 = dict.fromkeys(("f16", "si8", "ui8"), _Instruction(depth=16, spread=True))
_INSTRUCTIONS = {(9, 0, 8): _CDNA, (9, 0, 10): _CDNA2, (9, 4, 2): _CDNA3, (9, 5, 0): _CDNA3}
_RDNA3_VERSION = 11


@frozen
class MatrixCores:
    """The matrix units of ``chip``, used by subgroups of ``lanes``."""

    chip: str
    lanes: int
    instructions: Mapping[str, _Instruction]  # by the elements of the factors

    @classmethod
    def of(cls, chip: str, lanes: int, features: str) -> MatrixCores | None:
        """Return the units of ``chip``; ``None`` without any that subgroups of ``lanes`` can use."""
        version = gfx_version(chip)
        if lanes == _WAVE64:
            found = {} if "-mai-insts" in features else _INSTRUCTIONS.get(version, {})
        else:
            found = _RDNA3 if version[0] == _RDNA3_VERSION else {}
        return cls(chip=chip, lanes=lanes, instructions=found) if found else None

    @property
    def groups(self) -> int:
        """The groups of 16 lanes, each of which has other columns of the result."""
        return self.lanes // _SIZE

    @property
    def shares(self) -> int:
        """The parts into which lanes divide rows of A and columns of B; 1: lanes 16 to 31 have copies."""
        return self.groups if self.lanes == _WAVE64 else 1

    def lack(self, op: ir.Operation) -> str:
        """Return what the units cannot do of ``op``, in words; empty if they can do all."""
        matrices = [m for v in (*op.operands, *op.results) if (m := MatrixType.of(v.type))]
        for matrix in matrices:
            if not self._has(matrix):
                return f"of {matrix.rows}x{matrix.columns} {matrix.element} elements"
        if op.name == _PREFIX + "compute":
            left, right, result = (matrix.element for matrix in matrices[:3])
            wide = _WIDE_RESULTS[left]
            if _WIDE_RESULTS[right] != wide or result not in (wide, "f16" if left == "f16" else wide):
                return f"of {left} and {right} factors to {result}"
        if op.name == _PREFIX + "elementwise" and last_word(op.attributes["opType"]) == "extf":
            return "" if matrices[0].role == "C" else "extf of factors"
        return ""

    def _has(self, matrix: MatrixType) -> bool:
        across, along = matrix.rows, matrix.columns
        if matrix.role == "B":
            across, along = along, across
        if matrix.role == "C":
            return across % _SIZE == along % _SIZE == 0
        return matrix.element in self.instructions and across % _SIZE == 0 and along % self.shares == 0

    def fragment(self, matrix: MatrixType) -> Fragment:
        """Return the part of ``matrix`` that a lane has."""
        return _Block.of(matrix, self)

    def compute(self, work: MatrixOp) -> None:
        """Expand ``gpu.subgroup_mma_compute``: results of f16 are summed in f32 and rounded once."""
        emit = Emitter(work.op)
        left, right, first = work.operands
        wide = wider(first.matrix.scalar)
        a, b, c = list(work.op.operands)
        b = transpose(emit, b)
        whole = widen(emit, c, first, wide)
        width = _SIZE // self.groups
        depth = self.instructions[left.matrix.element].depth
        step = depth // self.shares
        factors = [
            _pieces(emit, value, rows, left.columns, step)
            for value, rows in ((a, left.rows), (b, right.columns))
        ]
        for row, of_a in enumerate(factors[0]):
            line = emit.extract(whole, [row])
            for column, of_b in enumerate(factors[1]):
                total = _slice(emit, line, column * width, width)
                for pair in zip(of_b, of_a, strict=True):
                    total = self._multiply(emit, pair, total, depth, (right.matrix, left.matrix))
                line = _put(emit, total, line, column * width)
            whole = emit.insert(line, whole, [row])
        if wide != first.matrix.scalar:
            whole = emit.value("arith.truncf", [whole], first.vector)
        emit.replace(whole)

    def _multiply(
        self,
        emit: Emitter,
        factors: tuple[ir.Value, ir.Value],
        total: ir.Value,
        depth: int,
        kinds: tuple[MatrixType, MatrixType],
    ) -> ir.Value:
        def number(value: int) -> ir.Attribute:
            return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)

        attributes = {"m": number(_SIZE), "n": number(_SIZE), "k": number(depth)}
        if self.lanes == _WAVE64:
            attributes |= {"blocks": number(1), "cbsz": number(0), "abid": number(0)}
            attributes["blgp"] = ir.Attribute.parse("#amdgpu<mfma_perm_b none>")
            return emit.value("amdgpu.mfma", [*factors, total], total.type, attributes)
        attributes["subwordOffset"] = number(0)
        for name, kind in zip(("unsignedA", "unsignedB"), kinds, strict=True):
            if kind.unsigned:
                attributes[name] = ir.UnitAttr.get()
        return emit.value("amdgpu.wmma", [*factors, total], total.type, attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block(Fragment):
    """Elements of every 16th row of A or of a result, or of columns of B, as the instructions have them."""

    cores: MatrixCores

    @classmethod
    def of(cls, matrix: MatrixType, cores: MatrixCores) -> _Block:
        if matrix.role == "B":
            rows, columns = matrix.rows // cores.shares, matrix.columns // _SIZE
            step = _SIZE // cores.groups
            return cls(
                matrix=matrix, rows=rows, columns=columns, column_step=step, lanes=cores.lanes, cores=cores
            )
        parts = cores.shares if matrix.role == "A" else cores.groups
        rows, columns = matrix.rows // _SIZE, matrix.columns // parts
        return cls(matrix=matrix, rows=rows, columns=columns, row_step=_SIZE, lanes=cores.lanes, cores=cores)

    def origin(self, emit: Emitter) -> tuple[ir.Value, ir.Value]:
        """Begin in the lane's row, or in the column of B from which the instruction makes its result."""
        lane: ir.Value = emit.value("gpu.lane_id", [], ir.IndexType.get())
        at, group = remainder(emit, lane, _SIZE), quotient(emit, lane, _SIZE)
        if self.matrix.role == "C":
            return at, times(emit, group, self.columns)
        share = emit.constant(0) if self.cores.shares == 1 else group
        if self.matrix.role == "A":
            return at, times(emit, share, self.columns)
        return times(emit, share, self.rows), self._column(emit, at)

    def _column(self, emit: Emitter, at: ir.Value) -> ir.Value:
        """Return the first column of the result that the instruction makes from lane ``at`` of B."""
        groups = self.cores.groups
        width = _SIZE // groups
        if self.cores.instructions[self.matrix.element].spread:
            group, element = remainder(emit, at, groups), quotient(emit, at, groups)
        else:
            group, element = quotient(emit, at, width), remainder(emit, at, width)
        return emit.binary("arith.addi", times(emit, group, self.matrix.columns // groups), element)


def _pieces(emit: Emitter, factor: ir.Value, count: int, length: int, step: int) -> list[list[ir.Value]]:
    """Return the operands of instructions in each of ``count`` lines: ``step`` elements, zeros at the end."""
    found = []
    for number in range(count):
        line = emit.extract(factor, [number])
        if step == 1:
            found.append([emit.extract(line, [at]) for at in range(length)])
            continue
        pieces = [_slice(emit, line, at, min(step, length - at)) for at in range(0, length, step)]
        if length % step:
            zeros = emit.constant(0, ir.VectorType.get([step], ir.VectorType(line.type).element_type))
            pieces[-1] = _put(emit, pieces[-1], zeros, 0)
        found.append(pieces)
    return found


def _slice(emit: Emitter, line: ir.Value, first: int, width: int) -> ir.Value:
    kind = ir.VectorType(line.type)
    if kind.shape == [width]:
        return line
    attributes = {
        name: _integers(value) for name, value in (("offsets", first), ("sizes", width), ("strides", 1))
    }
    return emit.value(
        "vector.extract_strided_slice", [line], ir.VectorType.get([width], kind.element_type), attributes
    )


def _put(emit: Emitter, part: ir.Value, line: ir.Value, first: int) -> ir.Value:
    if part.type == line.type:
        return part
    attributes = {"offsets": _integers(first), "strides": _integers(1)}
    return emit.value("vector.insert_strided_slice", [part, line], line.type, attributes)


def _integers(value: int) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)])
