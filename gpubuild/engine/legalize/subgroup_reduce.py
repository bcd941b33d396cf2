"""Subgroup reduction as reads of other lanes: ``gpu.subgroup_reduce`` has no lowering upstream.

The last subgroup of a workgroup need not be full (with 64 lanes it often is not), and reading a lane
that is not there is undefined. A tree towards the first lane of each cluster, which skips what is
absent, is right for any number of lanes. Where the workgroup is known to fill its subgroups, a
butterfly does with one exchange less.

Subgroups: their size, number and ids, and code that one lane of each runs.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.legalize import subgroup_shuffle
from gpubuild.engine.legalize.state import Legalization, Shuffles


def _expand_size(op: ir.Operation, state: Legalization) -> None:
    emit = Emitter(op)
    emit.replace(emit.constant(state.capabilities.subgroup_size))


def _expand_id(op: ir.Operation, state: Legalization) -> None:
    """Position of the work-item in its workgroup, x fastest, by the size of a subgroup."""
    emit = Emitter(op)
    position = workgroup_position(emit)
    emit.replace(emit.binary("arith.divui", position, emit.constant(state.capabilities.subgroup_size)))


def _expand_count(op: ir.Operation, state: Legalization) -> None:
    """Size of the workgroup over the size of a subgroup, rounded up."""
    emit = Emitter(op)
    size = state.capabilities.subgroup_size
    total = emit.binary("arith.addi", workgroup_size(emit), emit.constant(size - 1))
    emit.replace(emit.binary("arith.divui", total, emit.constant(size)))


def _execute_on_first_lane(op: ir.Operation, _: Legalization) -> None:
    """``gpu.warp_execute_on_lane_0`` without values going in or out is a branch."""
    emit = Emitter(op)
    i1, zero = ir.IntegerType.get_signless(1), emit.constant(0)
    equal = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}
    first = emit.value("arith.cmpi", [op.operands[0], zero], i1, equal)
    branch = emit.op("scf.if", [first], [], regions=2)
    block = op.regions[0].blocks[0]
    block.append_to(branch.regions[0])
    end = block.operations[len(block.operations) - 1].operation
    Emitter(end).op("scf.yield", [], [])
    end.erase()
    op.erase()


# Not for targets whose conversion asks the device.
EXPAND_SIZE = rewriting("expand-subgroup-size", {"gpu.subgroup_size": _expand_size})
EXPAND_IDS = rewriting(
    "expand-subgroup-ids", {"gpu.subgroup_id": _expand_id, "gpu.num_subgroups": _expand_count}
)
EXPAND_EXECUTE_ON_LANE_0 = rewriting(
    "expand-execute-on-lane-0", {"gpu.warp_execute_on_lane_0": _execute_on_first_lane}
)


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
_I32_BITS = 32


def _expand(op: ir.Operation, state: Legalization) -> None:
    """Replace ``op``. A cluster of ``size`` lanes lies ``stride`` apart.

    Where reading a lane that does not exist gives some value, the lane to read is the same for every launch.
    """
    attributes = op.attributes
    lanes = state.capabilities.subgroup_size
    size = attributes["cluster_size"].value if "cluster_size" in attributes else lanes
    stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
    reduction = _Reduction(
        Emitter(op),
        reduction_name(op),
        size,
        stride,
        lanes,
        full=fills_subgroups(op, lanes),
        any_lane=state.capabilities.shuffles is Shuffles.MEMORY,
    )
    replace_by_element(op, reduction.reduce)


def reduction_name(op: ir.Operation) -> str:
    """Return the name of the reduction, such as ``add``."""
    return str(op.attributes["op"]).removeprefix("#gpu<all_reduce_op ").removesuffix(">")


def replace_by_element(op: ir.Operation, reduce: Callable[[ir.Value], ir.Value]) -> None:
    """Replace ``op`` by what ``reduce`` makes of its operand, or of each element of a vector."""
    emit = Emitter(op)
    value = op.operands[0]
    if not isinstance(value.type, ir.VectorType):
        emit.replace(reduce(value))
        return
    vector = ir.VectorType(value.type)
    result = value
    for index in range(vector.shape[0]):
        position = {"static_position": ir.DenseI64ArrayAttr.get([index])}
        element = emit.value("vector.extract", [value], vector.element_type, position)
        result = emit.value("vector.insert", [reduce(element), result], vector, position)
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


def fills_subgroups(op: ir.Operation, subgroup_size: int) -> bool:
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
        source = emit.value("arith.select", [readable, source, self._lane], source.type)
        both = emit.binary(combine, value, self._read(value, source))
        return emit.value("arith.select", [there, both, value], value.type)

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
            source = emit.value("arith.select", [there, further, self._lane], further.type)

            def read(at: Emitter, word: ir.Value, source: ir.Value = source) -> tuple[ir.Value, ir.Value]:
                return subgroup_shuffle.read_lane(at, word, source, _word(at, self._size))

            both = self._combine(emit, value, subgroup_shuffle.move(emit, value, read)[0])
            value = emit.value("arith.select", [there, both, value], value.type)
            distance //= 2
        return value


def lanes_present(emit: Emitter, lane: ir.Value) -> ir.Value:
    """How many lanes this subgroup has, from its first one on (more than its size if it is full)."""
    i32 = ir.IntegerType.get_signless(_I32_BITS)
    rest = emit.binary("arith.subi", workgroup_size(emit), workgroup_position(emit))
    rest = emit.value("arith.index_cast", [rest], i32)
    return emit.binary("arith.addi", rest, lane)


def _word(emit: Emitter, value: int) -> ir.Value:
    return emit.constant(value, ir.IntegerType.get_signless(_I32_BITS))


EXPAND = rewriting("expand-subgroup-reduce", {"gpu.subgroup_reduce": _expand})
