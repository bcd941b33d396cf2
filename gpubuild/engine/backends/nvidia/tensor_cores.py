"""Matrix code for NVIDIA's tensor cores: which of it a chip can run, by shape and type.

Upstream's lowering aborts, or makes code that LLVM aborts on, where a chip lacks a form that a module uses.
The whole module is then compiled without its units, since all ops must agree on which lane has which element.
Source of the numbers: "wmma" in the PTX ISA manual, sections of wmma.load, wmma.store and wmma.mma ("Target
ISA Notes"). Subtraction, negation and products of bf16 get forms that upstream's conversion has.
"""

from __future__ import annotations

import re
from itertools import product

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, rewriting
from gpubuild.engine.ir.query import constant_integer, element_bytes, first, operation_names
from gpubuild.engine.legalize.matrices import expand_matrices
from gpubuild.engine.legalize.matrix_ops import MatrixType
from gpubuild.engine.legalize.subgroup_shuffle import last_word
from gpubuild.targets.nvidia import NVIDIA, sm_number

_PREFIX = "gpu.subgroup_mma_"
_ELEMENT = re.compile(r"x([a-z]+\d+)")
_LARGE = ((16, 16, 16), (32, 8, 16), (8, 32, 16))  # rows, columns and depth
# By the elements of the factors and of the result.
_UNITS: dict[tuple[str, str], tuple[int, tuple[tuple[int, int, int], ...]]] = {
    ("f16", "f16"): (70, _LARGE),
    ("f16", "f32"): (70, _LARGE),
    ("si8", "i32"): (72, _LARGE),
    ("ui8", "i32"): (72, _LARGE),
    ("f32", "f32"): (80, ((16, 16, 8),)),  # as tf32
    ("f64", "f64"): (80, ((8, 8, 4),)),
}
_FUNCTIONS = frozenset({"addf", "mulf", "divf", "maxf", "minf", "subf", "negatef"})
_MEMORY_OPERAND = {_PREFIX + "load_matrix": 0, _PREFIX + "store_matrix": 1}
_START_ALIGNMENT, _ROW_ALIGNMENT = 32, 16  # bytes
_OPS = frozenset(_PREFIX + n for n in ("load_matrix", "store_matrix", "constant_matrix", "compute"))


def units_lack(module: ir.Operation, chip: str) -> str:
    """Return an operation that the units of ``chip`` cannot run, in words; empty if they can run all."""
    number = sm_number(chip)
    op = first(module, lambda op: op.name.startswith(_PREFIX) and bool(_lack(op, number)))
    return f"'{op.name}' {_lack(op, number)}" if op is not None else ""


def _expand_matrices(module: ir.Module, state: GpuLowering) -> None:
    """Expand matrices to vector code where the chip's units cannot run them; warn where it has units."""
    text = state.source.text
    if text and _PREFIX not in text:  # without a walk
        return
    if not any(name.startswith(_PREFIX) for name in operation_names(module.operation)):
        return
    chip = state.params.target.chip
    if NVIDIA.multiplies_matrices(chip):
        lack = units_lack(module.operation, chip)
        if not lack:
            return
        state.warnings.append(
            f"the matrix units of {chip} cannot do {lack}: all matrix operations of the "
            "module are compiled without them"
        )
    expand_matrices(module, state)


def misaligned(op: ir.Operation, _: Lowering) -> str:
    """Return why the units cannot access the matrix of ``op`` in memory, as far as constants show it.

    A kernel that does ends with CUDA_ERROR_MISALIGNED_ADDRESS. Source of the numbers: "Warp Matrix
    Functions" in NVIDIA's CUDA C++ Programming Guide (load_matrix_sync).
    """
    if op.name not in _MEMORY_OPERAND:
        return ""
    memory, *indices = list(op.operands)[_MEMORY_OPERAND[op.name] :]
    kind = ir.MemRefType(memory.type)
    size = element_bytes(kind.element_type) or 0
    row = op.attributes["leadDimension"].value * size
    if row % _ROW_ALIGNMENT:
        return (
            f"'{op.name}' has rows that are {row} bytes apart; the matrix units need a multiple of "
            f"{_ROW_ALIGNMENT} bytes"
        )
    strides, offset = kind.get_strides_and_offset()
    numbers = [constant_integer(index) for index in indices]
    if None in numbers or ir.ShapedType.get_dynamic_stride_or_offset() in (offset, *strides):
        return ""
    first_byte = size * (offset + sum(n * s for n, s in zip(numbers, strides, strict=True) if n is not None))
    if first_byte % _START_ALIGNMENT:
        return (
            f"'{op.name}' begins at byte {first_byte} of its memory; the matrix units need a multiple of "
            f"{_START_ALIGNMENT} bytes"
        )
    return ""


def _lack(op: ir.Operation, chip: int) -> str:
    if op.name == _PREFIX + "elementwise":
        function = last_word(op.attributes["opType"])
        if function not in _FUNCTIONS:
            return function
    elif op.name not in _OPS:
        return "of single elements"
    matrices = [m for v in (*op.operands, *op.results) if (m := MatrixType.of(v.type))]
    for matrix in matrices:
        since = _PARTS.get((matrix.role, matrix.element, matrix.rows, matrix.columns))
        if since is None or chip < since:
            return f"of {matrix.rows}x{matrix.columns} {matrix.element} elements"
    if op.name == _PREFIX + "compute":
        left, right, result = matrices[:3]
        _, shapes = _UNITS.get((left.element, result.element), (0, ()))
        if left.element != right.element or (left.rows, right.columns, left.columns) not in shapes:
            return (
                f"of {left.rows}x{left.columns} {left.element} and "
                f"{right.rows}x{right.columns} {right.element} factors to {result.element}"
            )
    return ""


def _parts() -> dict[tuple[str, str, int, int], int]:
    """Return every matrix that some multiplication has, with the oldest chip that has it."""
    parts: dict[tuple[str, str, int, int], int] = {}
    for (factor, result), (since, shapes) in _UNITS.items():
        for rows, columns, depth in shapes:
            for part in (
                ("A", factor, rows, depth),
                ("B", factor, depth, columns),
                ("C", result, rows, columns),
            ):
                parts[part] = min(since, parts.get(part, since))
    return parts


_PARTS = _parts()


def _expand_elementwise(op: ir.Operation, _: Lowering) -> None:
    """Expand subtraction and negation of matrices, on which upstream aborts, to products with -1."""
    name = last_word(op.attributes["opType"])
    if name not in {"subf", "negatef"}:
        return
    emit = Emitter(op)
    kind = op.results[0].type
    element = ir.Type.parse(_ELEMENT.findall(str(kind))[0])
    minus = emit.value("gpu.subgroup_mma_constant_matrix", [emit.constant(-1.0, element)], kind)

    def combine(function: str, left: ir.Value, right: ir.Value) -> ir.Value:
        attributes = {"opType": ir.Attribute.parse(f"#gpu<mma_element_wise {function}>")}
        return emit.value("gpu.subgroup_mma_elementwise", [left, right], kind, attributes)

    negated = combine("mulf", op.operands[len(op.operands) - 1], minus)
    emit.replace(negated if name == "negatef" else combine("addf", op.operands[0], negated))


def _expand_bf16_product(op: ir.Operation, _: Lowering) -> None:
    """Expand ``nvgpu.mma.sync`` of bf16 to ``nvvm.mma.sync``, which takes pairs of elements as i32."""
    if str(ir.VectorType(op.operands[0].type).element_type) != "bf16":
        return
    emit = Emitter(op)
    left, right, start = op.operands
    words = [_words(emit, value) for value in (left, right)]
    floats = _elements(emit, start)
    m, n, k = (int(size.value) for size in ir.ArrayAttr(op.attributes["mmaShape"]))
    kind = ir.VectorType(start.type)
    element = kind.element_type
    packed = ir.Type.parse(f"!llvm.struct<({', '.join([str(element)] * len(floats))})>")
    bf16 = ir.Attribute.parse("#nvvm.mma_type<bf16>")
    result = emit.value(
        "nvvm.mma.sync",
        [*words[0], *words[1], *floats],
        packed,
        {
            "shape": ir.Attribute.parse(f"#nvvm.shape<m = {m}, n = {n}, k = {k}>"),
            "layoutA": ir.Attribute.parse("#nvvm.mma_layout<row>"),
            "layoutB": ir.Attribute.parse("#nvvm.mma_layout<col>"),
            "multiplicandAPtxType": bf16,
            "multiplicandBPtxType": bf16,
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(words[0]), len(words[1]), len(floats)]),
        },
    )
    parts = [
        emit.value("llvm.extractvalue", [result], element, {"position": ir.DenseI64ArrayAttr.get([number])})
        for number in range(len(floats))
    ]
    emit.replace(emit.value("vector.from_elements", parts, kind))


def _words(emit: Emitter, value: ir.Value) -> list[ir.Value]:
    """Return the rows of ``value``, of two elements each, as integers."""
    i32 = ir.IntegerType.get_signless(32)
    rows = [emit.extract(value, [row]) for row in range(ir.VectorType(value.type).shape[0])]
    return [emit.value("llvm.bitcast", [row], i32) for row in rows]


def _elements(emit: Emitter, value: ir.Value) -> list[ir.Value]:
    positions = product(*(range(n) for n in ir.VectorType(value.type).shape))
    return [emit.extract(value, position) for position in positions]


EXPAND_MATRICES = Pass(name="expand-matrices", run=_expand_matrices)
EXPAND_ELEMENTWISE = rewriting(
    "expand-matrix-elementwise", {"gpu.subgroup_mma_elementwise": _expand_elementwise}
)
BF16_PRODUCTS = rewriting("mma-sync-of-bf16-to-nvvm", {"nvgpu.mma.sync": _expand_bf16_product})
