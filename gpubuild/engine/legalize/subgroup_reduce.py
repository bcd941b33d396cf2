"""Expansion of ``gpu.subgroup_reduce`` to shuffles, and of the size, number and ids of subgroups.

Upstream lowers no ``gpu.subgroup_reduce``. The last subgroup of a workgroup need not be full (with 64 lanes
it often is not), and reading a missing lane is undefined. A tree towards the first lane of each cluster,
which skips missing lanes, is right for any number of lanes. Where the workgroup is known to fill its
subgroups, a butterfly needs one shuffle less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.ir.query import terminator
from gpubuild.engine.legalize import subgroup_shuffle, vectors
from gpubuild.engine.legalize.state import Legalization, Shuffles
from gpubuild.engine.legalize.workgroup import (
    fills_subgroups,
    lanes_present,
    workgroup_position,
    workgroup_size,
)


def _expand_size(op: ir.Operation, state: Legalization) -> None:
    emit = Emitter(op)
    emit.replace(emit.constant(state.capabilities.subgroup_size))


def _expand_id(op: ir.Operation, state: Legalization) -> None:
    """Divide the position of the work-item in its workgroup, x fastest, by the size of a subgroup."""
    emit = Emitter(op)
    position = workgroup_position(emit)
    emit.replace(emit.binary("arith.divui", position, emit.constant(state.capabilities.subgroup_size)))


def _expand_count(op: ir.Operation, state: Legalization) -> None:
    """Divide the size of the workgroup by that of a subgroup, rounded up."""
    emit = Emitter(op)
    size = state.capabilities.subgroup_size
    total = emit.binary("arith.addi", workgroup_size(emit), emit.constant(size - 1))
    emit.replace(emit.binary("arith.divui", total, emit.constant(size)))


def _execute_on_first_lane(op: ir.Operation, state: Legalization) -> None:
    """Expand ``gpu.warp_execute_on_lane_0`` to a branch, with shuffles for its arguments and results.

    A vector argument of which lanes own slices is gathered from all lanes. A result is read from the first
    lane: whole, or of a larger vector the lane's slice.
    """
    emit = Emitter(op)
    lane, *arguments = op.operands
    block = op.regions[0].blocks[0]
    lanes = state.capabilities.subgroup_size

    def from_lane(value: ir.Value, number: int) -> ir.Value:
        def read(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
            return subgroup_shuffle.read_lane(at, word, _word(at, number), _word(at, lanes))

        return subgroup_shuffle.move(emit, value, read)[0]

    for argument, given in zip(block.arguments, arguments, strict=True):
        whole = given
        if argument.type != given.type:
            whole = emit.value("ub.poison", [], argument.type)
            for number, offsets in enumerate(_slices(argument.type, given.type)):
                part = from_lane(given, number)
                operation = "vector.insert_strided_slice"
                whole = emit.value(operation, [part, whole], whole.type, _strided(offsets))
        argument.replace_all_uses_with(whole)
    first = emit.compare(Compare.EQ, lane, emit.constant(0))
    end = terminator(block)
    yielded = [value.type for value in end.operands]
    branch = emit.op("scf.if", [first], yielded, regions=2)
    while block.arguments:
        block.erase_argument(0)
    block.append_to(branch.regions[0])
    Emitter(end).op("scf.yield", list(end.operands), [])
    end.erase()
    if yielded:
        other = emit.inside(branch.regions[1].blocks.append())
        other.op("scf.yield", [other.constant(0, kind) for kind in yielded], [])
    for old, value in zip(op.results, branch.results, strict=True):
        if old.type == value.type:
            result = from_lane(value, 0)
        else:
            result = emit.value("ub.poison", [], old.type)
            for number, offsets in enumerate(_slices(value.type, old.type)):
                shape = {"sizes": _integers(old.type.shape)}
                operation = "vector.extract_strided_slice"
                part = emit.value(operation, [value], old.type, _strided(offsets) | shape)
                result = vectors.choose(emit, lane, number, from_lane(part, 0), result)
        old.replace_all_uses_with(result)
    op.erase()


def _slices(whole: ir.Type, part: ir.Type) -> Iterator[list[int]]:
    """Yield the offset in ``whole`` of each lane's slice, by number of the lane; the last dimension first."""
    shape = part.shape
    sizes = zip(whole.shape, shape, strict=True)
    for position in product(*(range(n // m) for n, m in sizes)):
        yield [number * m for number, m in zip(position, shape, strict=True)]


def _strided(offsets: Sequence[int]) -> dict[str, ir.Attribute]:
    return {"offsets": _integers(offsets), "strides": _integers([1] * len(offsets))}


def _integers(values: Sequence[int]) -> ir.Attribute:
    i64 = ir.IntegerType.get_signless(64)
    return ir.ArrayAttr.get([ir.IntegerAttr.get(i64, value) for value in values])


# Not for AMD GPUs, whose conversion asks the device.
EXPAND_SIZE = rewriting("expand-subgroup-size", {"gpu.subgroup_size": _expand_size})
EXPAND_IDS = rewriting(
    "expand-subgroup-ids", {"gpu.subgroup_id": _expand_id, "gpu.num_subgroups": _expand_count}
)
EXPAND_EXECUTE_ON_LANE_0 = rewriting(
    "expand-execute-on-lane-0", {"gpu.warp_execute_on_lane_0": _execute_on_first_lane}
)


# Reductions whose arith op ends with a letter for integers or floats.
_OF_BOTH = frozenset({"add", "mul", "and", "or", "xor"})
_I32_BITS = 32


def _expand(op: ir.Operation, state: Legalization) -> None:
    """Expand ``gpu.subgroup_reduce``, whose clusters have ``size`` lanes that are ``stride`` apart."""
    emit, attributes, lanes = Emitter(op), op.attributes, state.capabilities.subgroup_size
    name = subgroup_shuffle.last_word(attributes["op"])
    size = attributes["cluster_size"].value if "cluster_size" in attributes else lanes
    stride = attributes["cluster_stride"].value if "cluster_stride" in attributes else 1
    distances = [stride << k for k in range(size.bit_length() - 1)]
    width = _word(emit, lanes)

    def read(value: ir.Value, source: ir.Value, mode: str = "idx") -> ir.Value:
        def of_word(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
            return subgroup_shuffle.read_lane(at, word, source, width, mode=mode)

        return subgroup_shuffle.move(emit, value, of_word)[0]

    def exchange(value: ir.Value) -> ir.Value:
        for distance in distances:
            other = read(value, _word(emit, distance), "xor")
            value = emit.binary(combine_op(name, value.type), value, other)
        return value

    if fills_subgroups(op, lanes):
        replace_by_element(op, exchange)
        return
    lane = subgroup_shuffle.lane_number(emit)
    number = emit.binary("arith.divui", lane, _word(emit, stride))
    number = emit.binary("arith.remui", number, _word(emit, size))
    first = emit.binary("arith.subi", lane, emit.binary("arith.muli", number, _word(emit, stride)))
    end = emit.binary("arith.addi", first, _word(emit, size * stride))
    present = lanes_present(emit, lane)
    # Where a missing lane may be read, the source lane is the same for every launch.
    reads_any = state.capabilities.shuffles is Shuffles.MEMORY

    def collect(value: ir.Value) -> ir.Value:
        """Combine with the lane at each distance, where the cluster has one; then read the first lane."""
        for distance in reversed(distances):
            source = emit.binary("arith.addi", lane, _word(emit, distance))
            inside = subgroup_shuffle.below(emit, source, end)
            there = emit.binary("arith.andi", inside, subgroup_shuffle.below(emit, source, present))
            source = emit.select(inside if reads_any else there, source, lane)
            both = emit.binary(combine_op(name, value.type), value, read(value, source))
            value = emit.select(there, both, value)
        return read(value, first) if distances else value

    replace_by_element(op, collect)


def replace_by_element(op: ir.Operation, reduce: Callable[[ir.Value], ir.Value]) -> None:
    """Replace ``op`` by ``reduce`` of its operand, or of each element of a vector."""
    emit = Emitter(op)
    value = op.operands[0]
    if not isinstance(value.type, ir.VectorType):
        emit.replace(reduce(value))
        return
    result = value
    for index in range(value.type.shape[0]):
        result = emit.insert(reduce(emit.extract(value, [index])), result, [index])
    emit.replace(result)


def combine_op(name: str, kind: ir.Type) -> str:
    """Return the arith op that combines two values of ``kind`` in the reduction ``name``."""
    letter = "f" if isinstance(kind, ir.FloatType) else "i"
    return f"arith.{name}{letter if name in _OF_BOTH else ''}"


def reduce_to_first_lane(
    emit: Emitter,
    value: ir.Value,
    subgroup_size: int,
    combine: Callable[[Emitter, ir.Value, ir.Value], ir.Value],
) -> ir.Value:
    """Reduce the values of all existing lanes by a tree; only the first lane's result has a meaning."""
    lane = subgroup_shuffle.lane_number(emit)
    present = lanes_present(emit, lane)
    distance = subgroup_size // 2
    while distance:
        further = emit.binary("arith.addi", lane, _word(emit, distance))
        there = subgroup_shuffle.below(emit, further, present)
        inside = subgroup_shuffle.below(emit, further, _word(emit, subgroup_size))
        there = emit.binary("arith.andi", there, inside)
        source = emit.select(there, further, lane)

        def read(at: Emitter, word: ir.Value, source: ir.Value = source) -> tuple[ir.Value, ir.Value]:
            return subgroup_shuffle.read_lane(at, word, source, _word(at, subgroup_size))

        both = combine(emit, value, subgroup_shuffle.move(emit, value, read)[0])
        value = emit.select(there, both, value)
        distance //= 2
    return value


def _word(emit: Emitter, value: int) -> ir.Value:
    return emit.constant(value, ir.IntegerType.get_signless(_I32_BITS))


EXPAND = rewriting("expand-subgroup-reduce", {"gpu.subgroup_reduce": _expand})
