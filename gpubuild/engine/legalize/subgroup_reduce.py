"""Subgroup reduction as reads of other lanes: ``gpu.subgroup_reduce`` has no lowering upstream.

The last subgroup of a workgroup need not be full (with 64 lanes it often is not), and reading a lane
that is not there is undefined. A tree towards the first lane of each cluster, which skips what is
absent, is right for any number of lanes. Where the workgroup is known to fill its subgroups, a
butterfly does with one exchange less. NVIDIA GPUs since sm_80 reduce 32-bit integers of a subgroup by
one instruction, of those lanes that are there; as upstream does, it is taken where the source says
(``uniform``) that the whole subgroup comes to it.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.legalize import subgroup_shuffle
from gpubuild.targets.chips import sm_number
from gpubuild.targets.target import Kind

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
# What nvvm.redux.sync calls them; it does not multiply.
_REDUX = {
    "add": "add", "minui": "umin", "minsi": "min", "maxui": "umax", "maxsi": "max",
    "and": "and", "or": "or", "xor": "xor",
}  # fmt: skip
_REDUX_SINCE = 80
_I32_BITS = 32


def expand_subgroup_reduce(op: ir.Operation, subgroup_size: int, *, kind: Kind, chip: str = "") -> None:
    """Replace ``op``. A cluster of ``size`` lanes lies ``stride`` apart; vectors go by element.

    On CPUs who reads a lane that is not there gets some value; so it is known before the launch who reads
    whom. ``chip`` is that of an NVIDIA GPU.
    """
    attributes = op.attributes
    name = str(attributes["op"]).removeprefix("#gpu<all_reduce_op ").removesuffix(">")
    size = attributes["cluster_size"].value if "cluster_size" in attributes else subgroup_size
    stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
    emit = Emitter(op)
    value = op.operands[0]
    full = _fills_subgroups(op, subgroup_size)
    reduction: _Reduction | _Redux
    whole = size == subgroup_size == _I32_BITS and "uniform" in attributes
    if whole and name in _REDUX and _is_word(value.type) and chip and sm_number(chip) >= _REDUX_SINCE:
        reduction = _Redux(emit, name, full=full)
    else:
        reduction = _Reduction(emit, name, size, stride, subgroup_size, full=full, any_lane=kind is Kind.CPU)
    if not isinstance(value.type, ir.VectorType):
        emit.replace(reduction.reduce(value))
        return
    vector = ir.VectorType(value.type)
    result = value
    for index in range(vector.shape[0]):
        position = {"static_position": ir.DenseI64ArrayAttr.get([index])}
        element = emit.op("vector.extract", [value], [vector.element_type], position).results[0]
        element = reduction.reduce(element)
        result = emit.op("vector.insert", [element, result], [vector], position).results[0]
    emit.replace(result)


def combine_op(name: str, kind: ir.Type) -> str:
    """The arith op that combines two values of ``kind`` in a reduction called ``name``."""
    return _COMBINE[name][1 if isinstance(kind, ir.FloatType) else 0]


def workgroup_position(emit: Emitter) -> ir.Value:
    """The work-item's number in its workgroup, x fastest."""
    size_x, size_y = emit.dimension("block_dim", "x"), emit.dimension("block_dim", "y")
    rows = emit.binary("arith.muli", emit.dimension("thread_id", "z"), size_y)
    rows = emit.binary("arith.addi", rows, emit.dimension("thread_id", "y"))
    linear = emit.binary("arith.muli", rows, size_x)
    return emit.binary("arith.addi", linear, emit.dimension("thread_id", "x"))


def workgroup_size(emit: Emitter) -> ir.Value:
    """How many work-items a workgroup has."""
    total = emit.binary("arith.muli", emit.dimension("block_dim", "x"), emit.dimension("block_dim", "y"))
    return emit.binary("arith.muli", total, emit.dimension("block_dim", "z"))


def _fills_subgroups(op: ir.Operation, subgroup_size: int) -> bool:
    """Whether the kernel around ``op`` is written for workgroups of whole subgroups."""
    parent = op.parent
    while parent is not None:
        for name in ("known_block_size", "gpu.known_block_size"):
            if name in parent.operation.attributes:
                items = 1
                for extent in parent.operation.attributes[name]:
                    items *= int(extent)
                return items % subgroup_size == 0
        parent = parent.operation.parent
    return False


def _is_word(kind: ir.Type) -> bool:
    """Whether values of ``kind``, or their elements, are integers of 32 bits."""
    element = ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind
    return isinstance(element, ir.IntegerType) and bool(ir.IntegerType(element).width == _I32_BITS)


class _Redux:
    """``nvvm.redux.sync`` of the lanes that are there: naming others would wait for them."""

    def __init__(self, emit: Emitter, name: str, *, full: bool) -> None:
        self._emit = emit
        self._kind = ir.Attribute.parse(f"#nvvm<redux_kind {_REDUX[name]}>")
        i32 = ir.IntegerType.get_signless(_I32_BITS)
        self._lanes = emit.constant(-1, i32)
        if not full:
            width = emit.constant(_I32_BITS, i32)
            present = emit.binary(
                "arith.minui", lanes_present(emit, subgroup_shuffle.lane_number(emit)), width
            )
            self._lanes = emit.binary("arith.shrui", self._lanes, emit.binary("arith.subi", width, present))

    def reduce(self, value: ir.Value) -> ir.Value:
        """The reduction of the subgroup, in every lane."""
        operands = [value, self._lanes]
        return self._emit.op("nvvm.redux.sync", operands, [value.type], {"kind": self._kind}).results[0]


class _Reduction:
    def __init__(
        self,
        emit: Emitter,
        name: str,
        size: int,
        stride: int,
        subgroup_size: int,
        *,
        full: bool,
        any_lane: bool,
    ) -> None:
        self._emit = emit
        self._name = name
        self._steps = [stride << k for k in range(size.bit_length() - 1)]
        self._full = full
        self._any_lane = any_lane
        self._width = self._constant(subgroup_size)
        if full:
            return
        self._lane = subgroup_shuffle.lane_number(emit)
        place = emit.binary("arith.divui", self._lane, self._constant(stride))
        place = emit.binary("arith.remui", place, self._constant(size))
        offset = emit.binary("arith.muli", place, self._constant(stride))
        self._first = emit.binary("arith.subi", self._lane, offset)
        self._end = emit.binary("arith.addi", self._first, self._constant(size * stride))
        self._present = lanes_present(emit, self._lane)

    def reduce(self, value: ir.Value) -> ir.Value:
        """The reduction of the lane's cluster, in every lane."""
        combine = combine_op(self._name, value.type)
        if self._full:
            for distance in self._steps:
                other = self._read(value, self._constant(distance), mode="xor")
                value = self._emit.binary(combine, value, other)
            return value
        for distance in reversed(self._steps):
            value = self._take(value, combine, distance)
        return self._read(value, self._first) if self._steps else value

    def _take(self, value: ir.Value, combine: str, distance: int) -> ir.Value:
        """Combine with the lane ``distance`` further, where the cluster has one."""
        emit = self._emit
        source = emit.binary("arith.addi", self._lane, self._constant(distance))
        inside = subgroup_shuffle.below(emit, source, self._end)
        there = emit.binary("arith.andi", inside, subgroup_shuffle.below(emit, source, self._present))
        readable = inside if self._any_lane else there
        source = emit.op("arith.select", [readable, source, self._lane], [source.type]).results[0]
        both = emit.binary(combine, value, self._read(value, source))
        return emit.op("arith.select", [there, both, value], [value.type]).results[0]

    def _read(self, value: ir.Value, source: ir.Value, *, mode: str = "idx") -> ir.Value:
        def read(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
            return subgroup_shuffle.read_lane(at, word, source, self._width, mode=mode)

        return subgroup_shuffle.move(self._emit, value, read)[0]

    def _constant(self, value: int) -> ir.Value:
        return self._emit.constant(value, ir.IntegerType.get_signless(_I32_BITS))


class Tree:
    """A reduction of all lanes that are there towards the first, by ``combine``, of two values."""

    def __init__(
        self,
        emit: Emitter,
        subgroup_size: int,
        combine: Callable[[Emitter, ir.Value, ir.Value], ir.Value],
    ) -> None:
        self._emit = emit
        self._combine = combine
        self._size = subgroup_size
        self._lane = subgroup_shuffle.lane_number(emit)
        self._present = lanes_present(emit, self._lane)

    def to_first_lane(self, value: ir.Value) -> ir.Value:
        """The reduction in the first lane; what other lanes get is of no use."""
        emit = self._emit
        distance = self._size // 2
        while distance:
            further = emit.binary("arith.addi", self._lane, _word(emit, distance))
            there = subgroup_shuffle.below(emit, further, self._present)
            inside = subgroup_shuffle.below(emit, further, _word(emit, self._size))
            there = emit.binary("arith.andi", there, inside)
            source = emit.op("arith.select", [there, further, self._lane], [further.type]).results[0]

            def read(at: Emitter, word: ir.Value, source: ir.Value = source) -> tuple[ir.Value, ir.Value]:
                return subgroup_shuffle.read_lane(at, word, source, _word(at, self._size))

            both = self._combine(emit, value, subgroup_shuffle.move(emit, value, read)[0])
            value = emit.op("arith.select", [there, both, value], [value.type]).results[0]
            distance //= 2
        return value


def lanes_present(emit: Emitter, lane: ir.Value) -> ir.Value:
    """How many lanes this subgroup has, from its first one on (more than its size if it is full)."""
    i32 = ir.IntegerType.get_signless(_I32_BITS)
    rest = emit.binary("arith.subi", workgroup_size(emit), workgroup_position(emit))
    rest = emit.op("arith.index_cast", [rest], [i32]).results[0]
    return emit.binary("arith.addi", rest, lane)


def _word(emit: Emitter, value: int) -> ir.Value:
    return emit.constant(value, ir.IntegerType.get_signless(_I32_BITS))
