"""Subgroup reduction as butterfly shuffles: ``gpu.subgroup_reduce`` has no lowering upstream."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.emit import Emitter

_COMBINE = {
    "add": ("arith.addi", "arith.addf"),
    "mul": ("arith.muli", "arith.mulf"),
    "minui": ("arith.minui", ""),
    "minsi": ("arith.minsi", ""),
    "maxui": ("arith.maxui", ""),
    "maxsi": ("arith.maxsi", ""),
    "and": ("arith.andi", ""),
    "or": ("arith.ori", ""),
    "xor": ("arith.xori", ""),
    "minnumf": ("", "arith.minnumf"),
    "maxnumf": ("", "arith.maxnumf"),
    "minimumf": ("", "arith.minimumf"),
    "maximumf": ("", "arith.maximumf"),
}


def expand_subgroup_reduce(op: ir.Operation, subgroup_size: int) -> None:
    """Replace ``op``: after step k every work-item holds the result over 2^k of them.

    A cluster of ``size`` work-items lies ``stride`` apart. Vectors are reduced element by element,
    since a shuffle moves 32 or 64 bits.
    """
    attributes = op.attributes
    name = str(attributes["op"]).removeprefix("#gpu<all_reduce_op ").removesuffix(">")
    clustered = "cluster_size" in attributes
    size = attributes["cluster_size"].value if clustered else subgroup_size
    stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
    emit = Emitter(op)
    value = op.operands[0]
    distances = tuple(stride << step for step in range(size.bit_length() - 1))
    if not isinstance(value.type, ir.VectorType):
        emit.replace(_reduce(emit, value, name, distances, subgroup_size))
        return
    vector = ir.VectorType(value.type)
    result = value
    for index in range(vector.shape[0]):
        position = {"static_position": ir.DenseI64ArrayAttr.get([index])}
        element = emit.op("vector.extract", [value], [vector.element_type], position).results[0]
        element = _reduce(emit, element, name, distances, subgroup_size)
        result = emit.op("vector.insert", [element, result], [vector], position).results[0]
    emit.replace(result)


def combine_op(name: str, kind: ir.Type) -> str:
    """The arith op that combines two values of ``kind`` in a reduction called ``name``."""
    return _COMBINE[name][1 if isinstance(kind, ir.FloatType) else 0]


def _reduce(emit: Emitter, value: ir.Value, name: str, distances: tuple[int, ...], width: int) -> ir.Value:
    combine = combine_op(name, value.type)
    for distance in distances:
        value = emit.binary(combine, value, _shuffled(emit, value, distance, width))
    return value


def _shuffled(emit: Emitter, value: ir.Value, distance: int, width: int) -> ir.Value:
    """``value`` of the work-item whose number differs in bit ``distance``."""
    i32 = ir.IntegerType.get_signless(32)
    kind = value.type
    is_float = isinstance(kind, ir.FloatType)
    bits = ir.FloatType(kind).width if is_float else ir.IntegerType(kind).width
    carrier = value
    if bits < 32:
        narrow = ir.IntegerType.get_signless(bits)
        if is_float:
            carrier = emit.op("arith.bitcast", [carrier], [narrow]).results[0]
        carrier = emit.op("arith.extui", [carrier], [i32]).results[0]
    shuffle = emit.op(
        "gpu.shuffle",
        [carrier, emit.constant(distance, i32), emit.constant(width, i32)],
        [carrier.type, ir.IntegerType.get_signless(1)],
        {"mode": ir.Attribute.parse("#gpu<shuffle_mode xor>")},
    )
    moved = shuffle.results[0]
    if bits < 32:
        narrow = ir.IntegerType.get_signless(bits)
        moved = emit.op("arith.trunci", [moved], [narrow]).results[0]
        if is_float:
            moved = emit.op("arith.bitcast", [moved], [kind]).results[0]
    return moved
