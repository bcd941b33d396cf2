"""Matrix units: which ``gpu.subgroup_mma_*`` code NVIDIA's tensor cores run, by shape, type and chip.

Upstream's lowering aborts, or makes code that LLVM aborts on, where a chip lacks what a module wants.
Such a module is compiled without its units as a whole, since who holds which element must not change
from one op to the next. Source of the numbers: "wmma" in the PTX ISA manual, sections of
wmma.load, wmma.store and wmma.mma ("Target ISA Notes").

bf16 on tensor cores: ``nvgpu.mma.sync`` of bf16, which upstream's conversion leaves as it is.
"""

from __future__ import annotations

from itertools import product

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize.matrix_fragments import MatrixType
from gpubuild.engine.legalize.subgroup_shuffle import last_word
from gpubuild.targets.chips import sm_number

_PREFIX = "gpu.subgroup_mma_"
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
_OPS = frozenset(_PREFIX + n for n in ("load_matrix", "store_matrix", "constant_matrix", "compute"))


def units_lack(module: ir.Operation, chip: str) -> str:
    """What in ``module`` the units of NVIDIA's ``chip`` cannot do; empty when they can do all."""
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(_PREFIX) and (reason := _lack(op, sm_number(chip))):
            found.append(f"'{op.name}' {reason}")
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return found[0] if found else ""


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
    """Every matrix that some multiplication takes or gives, with the oldest chip that has it."""
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


def expand_bf16_product(op: ir.Operation) -> None:
    """``nvgpu.mma.sync`` of bf16 as ``nvvm.mma.sync``: pairs of elements travel as one i32 each."""
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
    result = emit.op(
        "nvvm.mma.sync",
        [*words[0], *words[1], *floats],
        [packed],
        {
            "shape": ir.Attribute.parse(f"#nvvm.shape<m = {m}, n = {n}, k = {k}>"),
            "layoutA": ir.Attribute.parse("#nvvm.mma_layout<row>"),
            "layoutB": ir.Attribute.parse("#nvvm.mma_layout<col>"),
            "multiplicandAPtxType": bf16,
            "multiplicandBPtxType": bf16,
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(words[0]), len(words[1]), len(floats)]),
        },
    ).results[0]
    parts = [
        emit.op("llvm.extractvalue", [result], [element], {"position": ir.DenseI64ArrayAttr.get([number])})
        for number in range(len(floats))
    ]
    emit.replace(emit.op("vector.from_elements", [p.results[0] for p in parts], [kind]).results[0])


def _words(emit: Emitter, value: ir.Value) -> list[ir.Value]:
    """The rows of ``value``, of two elements each, as integers."""
    vector = ir.VectorType(value.type)
    pair = ir.VectorType.get([vector.shape[1]], vector.element_type)
    i32 = ir.IntegerType.get_signless(32)
    rows = [_extract(emit, value, [row], pair) for row in range(vector.shape[0])]
    return [emit.op("llvm.bitcast", [row], [i32]).results[0] for row in rows]


def _elements(emit: Emitter, value: ir.Value) -> list[ir.Value]:
    vector = ir.VectorType(value.type)
    every = product(*(range(n) for n in vector.shape))
    return [_extract(emit, value, list(position), vector.element_type) for position in every]


def _extract(emit: Emitter, value: ir.Value, position: list[int], kind: ir.Type) -> ir.Value:
    attributes = {"static_position": ir.DenseI64ArrayAttr.get(position)}
    return emit.op("vector.extract", [value], [kind], attributes).results[0]
