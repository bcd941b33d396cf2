"""Subgroup reduction that also holds where the last subgroup of a workgroup is not full.

GPUs leave reading an absent lane undefined; the CPU runtime says that it was not valid. A tree
towards the first lane, which skips what is absent, is right for any number of lanes; a butterfly
is not.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.cpu import layout
from gpubuild.engine.emit import Emitter
from gpubuild.engine.subgroup_reduce import combine_op


def expand_subgroup_reductions(module: ir.Operation) -> None:
    """Replace every ``gpu.subgroup_reduce`` inside ``module`` by shuffles."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "gpu.subgroup_reduce":
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    for op in found:
        _expand(op)


def _expand(op: ir.Operation) -> None:
    attributes = op.attributes
    name = str(attributes["op"]).removeprefix("#gpu<all_reduce_op ").removesuffix(">")
    size = attributes["cluster_size"].value if "cluster_size" in attributes else layout.SUBGROUP
    stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
    emit = Emitter(op)
    tree = _Tree(emit, name, size, stride)
    value = op.operands[0]
    if not isinstance(value.type, ir.VectorType):
        emit.replace(tree.reduce(value))
        return
    vector = ir.VectorType(value.type)
    result = value
    for index in range(vector.shape[0]):
        position = {"static_position": ir.DenseI64ArrayAttr.get([index])}
        element = emit.op("vector.extract", [value], [vector.element_type], position).results[0]
        element = tree.reduce(element)
        result = emit.op("vector.insert", [element, result], [vector], position).results[0]
    emit.replace(result)


class _Tree:
    """Reductions over clusters of ``size`` lanes that lie ``stride`` apart."""

    def __init__(self, emit: Emitter, name: str, size: int, stride: int) -> None:
        self._emit = emit
        self._name = name
        self._size = size
        self._stride = stride
        self._i32 = ir.IntegerType.get_signless(32)
        lane = emit.op("gpu.lane_id", [], [ir.IndexType.get()]).results[0]
        self._lane = emit.op("arith.index_cast", [lane], [self._i32]).results[0]
        position = emit.binary("arith.divui", self._lane, self._constant(stride))
        self._position = emit.binary("arith.remui", position, self._constant(size))
        self._first = emit.binary(
            "arith.subi", self._lane, emit.binary("arith.muli", self._position, self._constant(stride))
        )

    def reduce(self, value: ir.Value) -> ir.Value:
        """The reduction of the lane's cluster, in every lane."""
        emit = self._emit
        combine = combine_op(self._name, value.type)
        distance = self._size // 2
        while distance:
            moved, there = self._shuffle("down", value, self._constant(distance * self._stride))
            last = emit.binary("arith.addi", self._position, self._constant(distance))
            less = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 6)}  # ult
            inside = emit.op("arith.cmpi", [last, self._constant(self._size)], [there.type], less).results[0]
            take = emit.binary("arith.andi", there, inside)
            both = emit.binary(combine, value, moved)
            value = emit.op("arith.select", [take, both, value], [value.type]).results[0]
            distance //= 2
        return self._shuffle("idx", value, self._first)[0]

    def _constant(self, value: int) -> ir.Value:
        return self._emit.constant(value, self._i32)

    def _shuffle(self, mode: str, value: ir.Value, operand: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The value of another lane, and whether there is one. Narrow types travel as i32."""
        emit, kind = self._emit, value.type
        bit = ir.IntegerType.get_signless(1)
        casts: list[tuple[str, ir.Type]] = []  # how to come back, in reverse
        if isinstance(kind, ir.IndexType):
            wide = ir.IntegerType.get_signless(64)
            casts.append(("arith.index_cast", kind))
            value = emit.op("arith.index_cast", [value], [wide]).results[0]
        elif isinstance(kind, ir.FloatType) and ir.FloatType(kind).width < 32:
            narrow = ir.IntegerType.get_signless(ir.FloatType(kind).width)
            casts.append(("arith.bitcast", kind))
            value = emit.op("arith.bitcast", [value], [narrow]).results[0]
        if isinstance(value.type, ir.IntegerType) and ir.IntegerType(value.type).width < 32:
            casts.append(("arith.trunci", value.type))
            value = emit.op("arith.extui", [value], [self._i32]).results[0]
        shuffle = emit.op(
            "gpu.shuffle",
            [value, operand, self._constant(layout.SUBGROUP)],
            [value.type, bit],
            {"mode": ir.Attribute.parse(f"#gpu<shuffle_mode {mode}>")},
        )
        moved = shuffle.results[0]
        for name, back in reversed(casts):
            moved = emit.op(name, [moved], [back]).results[0]
        return moved, shuffle.results[1]
