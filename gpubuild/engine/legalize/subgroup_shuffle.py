"""Expansion of ``gpu.shuffle``, ``gpu.rotate`` and ``gpu.subgroup_broadcast``, with the dialect's meaning.

Upstream lowers ``gpu.shuffle`` to the hardware's instructions. NVIDIA's knows 32-bit values only and bounds
``up`` by the wrong lane, AMD's takes widths for segments of the subgroup. Here the source lane is computed
as the dialect documents it, for every type. Upstream then lowers the one form that is right everywhere:
reading a lane by its number.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.ir.query import constant_integer, is_reached_by_all
from gpubuild.engine.legalize.state import Legalization, Shuffles
from gpubuild.engine.legalize.workgroup import fills_subgroups, lanes_present

_WORD_BITS = 32
_FUNCTIONS = frozenset({"gpu.func", "func.func", "llvm.func"})
_BLOCK_BITS = 10  # of the number of a block in its region
_SOURCES = {"xor": "arith.xori", "up": "arith.subi", "down": "arith.addi"}

SOME_LANES = "gpubuild.some_lanes"  # on a gpu.shuffle of the first lanes: others need not reach it

Read = Callable[
    [Emitter, ir.Value], tuple[ir.Value, ir.Value]
]  # an i32 → that of another lane, and whether it is valid


def _expand_shuffle(op: ir.Operation, state: Legalization) -> None:
    """Expand ``gpu.shuffle``: valid where this lane and its source are among the first ``width``."""
    mode = last_word(op.attributes["mode"])
    _, offset, width = op.operands
    emit = Emitter(op)
    lane = lane_number(emit)
    source = emit.binary(_SOURCES[mode], lane, offset) if mode in _SOURCES else offset
    valid = below(emit, source, width)
    _exchange(op, emit, state, lane=lane, width=width, source=source, valid=valid)


def _expand_rotate(op: ir.Operation, state: Legalization) -> None:
    """Expand ``gpu.rotate``: each lane reads the one ``offset`` further, modulo ``width``."""
    offset, width = op.attributes["offset"].value, op.attributes["width"].value
    emit = Emitter(op)
    i32 = ir.IntegerType.get_signless(_WORD_BITS)
    lane = lane_number(emit)
    further = emit.binary("arith.addi", lane, emit.constant(offset, i32))
    source = emit.binary("arith.andi", further, emit.constant(width - 1, i32))
    _exchange(op, emit, state, lane=lane, width=emit.constant(width, i32), source=source)


def _expand_broadcast(op: ir.Operation, state: Legalization) -> None:
    """Expand ``gpu.subgroup_broadcast`` to a shuffle: all lanes that are active here read the same one."""
    emit = Emitter(op)
    i32 = ir.IntegerType.get_signless(_WORD_BITS)
    size = state.capabilities.subgroup_size
    everywhere = is_reached_by_all(op)
    if len(op.operands) > 1:
        source = op.operands[1]
    elif everywhere:
        source = emit.constant(0, i32)
    else:
        source = _first_active_lane(emit, size, mark=_path_number(op))

    def read(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
        found = read_lane(at, word, source, at.constant(size, i32))
        return found if everywhere else _without_others(found)

    emit.replace(move(emit, op.operands[0], read)[0])


def lane_number(emit: Emitter) -> ir.Value:
    """Return the lane's number as an i32."""
    lane = emit.value("gpu.lane_id", [], ir.IndexType.get())
    return emit.value("arith.index_cast", [lane], ir.IntegerType.get_signless(_WORD_BITS))


def below(emit: Emitter, left: ir.Value, right: ir.Value) -> ir.Value:
    """Compare ``left < right``, both unsigned."""
    return emit.compare(Compare.ULT, left, right)


def read_lane(
    emit: Emitter, word: ir.Value, source: ir.Value, width: ir.Value, *, mode: str = "idx"
) -> tuple[ir.Value, ir.Value]:
    """Read an i32 of lane ``source`` by a shuffle that upstream lowers; the first ``width`` lanes take part.

    In mode ``xor``, the lane's number is combined with ``source``.
    """
    shuffle = emit.op(
        "gpu.shuffle",
        [word, source, width],
        [word.type, ir.IntegerType.get_signless(1)],
        {"mode": ir.Attribute.parse(f"#gpu<shuffle_mode {mode}>")},
    )
    return shuffle.results[0], shuffle.results[1]


def move(emit: Emitter, value: ir.Value, read: Read) -> tuple[ir.Value, ir.Value]:
    """Move a value of any type by ``read``, in words of 32 bits; return it, and the flag of the last word."""
    kind = value.type
    if isinstance(kind, ir.VectorType):
        return _move_vector(emit, value, read)
    i32, i64 = (ir.IntegerType.get_signless(n) for n in (_WORD_BITS, 64))
    if isinstance(kind, ir.IndexType):
        moved, there = move(emit, emit.value("arith.index_cast", [value], i64), read)
        return emit.value("arith.index_cast", [moved], kind), there
    if isinstance(kind, ir.FloatType):
        bits = ir.IntegerType.get_signless(ir.FloatType(kind).width)
        moved, there = move(emit, emit.value("arith.bitcast", [value], bits), read)
        return emit.value("arith.bitcast", [moved], kind), there
    width = ir.IntegerType(kind).width
    if width == _WORD_BITS:
        return read(emit, value)
    if width < _WORD_BITS:
        moved, there = read(emit, emit.value("arith.extui", [value], i32))
        return emit.value("arith.trunci", [moved], kind), there
    words = []
    for start in range(0, width, _WORD_BITS):
        part = emit.binary("arith.shrui", value, emit.constant(start, kind)) if start else value
        moved, there = read(emit, emit.value("arith.trunci", [part], i32))
        wide = emit.value("arith.extui", [moved], kind)
        words.append(emit.binary("arith.shli", wide, emit.constant(start, kind)) if start else wide)
    whole = words[0]
    for word in words[1:]:
        whole = emit.binary("arith.ori", whole, word)
    return whole, there


def _move_vector(emit: Emitter, value: ir.Value, read: Read) -> tuple[ir.Value, ir.Value]:
    result = value
    for position in product(*(range(n) for n in value.type.shape)):
        element, there = move(emit, emit.extract(value, position), read)
        result = emit.insert(element, result, position)
    return result, there


def _path_number(op: ir.Operation) -> int:
    """Return a number that differs from those of ops in other blocks that always run before."""
    depth, around = 0, op.parent.operation
    while around.name not in _FUNCTIONS:
        depth, around = depth + 1, around.parent.operation
    return depth << _BLOCK_BITS | list(op.block.region.blocks).index(op.block)


def _first_active_lane(emit: Emitter, subgroup_size: int, *, mark: int) -> ir.Value:
    """Return the lowest lane that reaches this code, on the CPU.

    There, reading a lane elsewhere returns the reader's own value. A loop would need all lanes at its
    shuffles. ``mark`` is part of the values, so that equal shuffles that more lanes reach are not merged with
    these.
    """
    i32 = ir.IntegerType.get_signless(_WORD_BITS)
    lane = lane_number(emit)
    first = marked = emit.binary("arith.addi", lane, emit.constant(mark * subgroup_size, i32))
    width = emit.constant(subgroup_size, i32)
    for number in range(subgroup_size):
        found, _ = _without_others(read_lane(emit, marked, emit.constant(number, i32), width))
        first = emit.binary("arith.minui", first, found)
    return emit.binary("arith.andi", first, emit.constant(subgroup_size - 1, i32))


def _without_others(found: tuple[ir.Value, ir.Value]) -> tuple[ir.Value, ir.Value]:
    """Mark the shuffle that made ``found``: it does not need all lanes."""
    found[0].owner.operation.attributes[SOME_LANES] = ir.UnitAttr.get()
    return found


def _exchange(
    op: ir.Operation,
    emit: Emitter,
    state: Legalization,
    *,
    lane: ir.Value,
    width: ir.Value,
    source: ir.Value,
    valid: ir.Value | None = None,
) -> None:
    """Replace ``op`` by the value of lane ``source``, and ``valid`` for the first ``width`` lanes.

    A lane whose source is not valid, or missing in the last subgroup of a workgroup, keeps its own value.
    """
    value, size = op.operands[0], state.capabilities.subgroup_size
    free = state.capabilities.shuffles is Shuffles.REGISTERS  # else a mask names the lanes
    known = constant_integer(width)
    all_lanes = known is not None and known >= size
    inside = None if all_lanes else below(emit, lane, width)
    readable = valid
    if state.capabilities.shuffles is not Shuffles.MEMORY and not fills_subgroups(op, size):
        present = below(emit, source, lanes_present(emit, lane))
        readable = present if valid is None else emit.binary("arith.andi", valid, present)
    if readable is not None:
        source = emit.select(readable, source, lane)

    def read(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
        if free or all_lanes:
            return read_lane(at, word, source, at.constant(size, ir.IntegerType.get_signless(_WORD_BITS)))
        return _without_others(read_lane(at, word, source, width))

    flag = emit.constant(1, ir.IntegerType.get_signless(1)) if valid is None else valid
    if inside is None or free:
        moved, _ = move(emit, value, read)
    else:
        choice = emit.op("scf.if", [inside], [value.type], regions=2)
        then = emit.inside(choice.regions[0].blocks.append())
        then.op("scf.yield", [move(then, value, read)[0]], [])
        emit.inside(choice.regions[1].blocks.append()).op("scf.yield", [value], [])
        moved = choice.results[0]
    if inside is not None:
        flag = emit.binary("arith.andi", flag, inside)
    for old, new in zip(op.results, (moved, flag), strict=True):
        old.replace_all_uses_with(new)
    op.erase()


def last_word(attribute: ir.Attribute) -> str:
    """Return the last word of an attribute, such as ``xor`` of ``#gpu<shuffle_mode xor>``."""
    return str(attribute).rpartition(" ")[2].removesuffix(">")


EXPAND_SHUFFLES = rewriting("expand-shuffles", {"gpu.shuffle": _expand_shuffle, "gpu.rotate": _expand_rotate})
EXPAND_BROADCAST = rewriting("expand-subgroup-broadcast", {"gpu.subgroup_broadcast": _expand_broadcast})
