"""bf16 on tensor cores: ``nvgpu.mma.sync`` of bf16, which upstream's conversion leaves as it is."""

from __future__ import annotations

from itertools import product

from mlir import ir

from gpubuild.engine.emit import Emitter


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
