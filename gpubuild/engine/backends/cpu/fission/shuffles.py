"""Lower ``gpu.shuffle`` in kernels that fission cuts at their barriers: through memory, or as vectors.

Each work-item stores its value in a context array, and loads that of another one behind a barrier. No second
barrier is needed: the array belongs to the shuffle, and code is also cut at the end of a loop's iteration.

Where the source lanes are known statically and all work-items take part, the elements of each subgroup are
one vector, which is shuffled into a second array, from which each work-item loads its own element. The last
subgroup of a workgroup may lack lanes: a lane that would read a missing one keeps its value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, for_loop, if_op
from gpubuild.engine.backends.cpu.fission.uniformity import WAITS_FOR, named, terminator
from gpubuild.engine.backends.cpu.fission.workgroup_functions import most_items
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import scalar_bits, symbol_name
from gpubuild.engine.legalize.subgroup_reduce import workgroup_position, workgroup_size
from gpubuild.engine.legalize.subgroup_shuffle import SOME_LANES, below, last_word

FROM_LANE = "gpubuild.from_lane"  # on a load of another work-item's value
_MOST_STATIC = 6  # in a kernel, enough for a subgroup reduction: each is a loop more for LLVM to compile
_SOURCES = {"xor": "arith.xori", "up": "arith.subi", "down": "arith.addi"}


def lower_shuffles(function: ir.Operation) -> None:
    """Replace each ``gpu.shuffle`` of ``function`` by a store, a barrier of the subgroup and a load."""
    entry = function.regions[0].blocks[0]
    shuffles = named(function, {"gpu.shuffle"})
    if not shuffles:
        return
    head = Emitter(entry.operations[0].operation)
    item, items = workgroup_position(head), workgroup_size(head)
    # Missing lanes have elements as well.
    count = -(-most_items(function) // image_layout.SUBGROUP) * image_layout.SUBGROUP
    arrays = ContextArrays(function, f"{symbol_name(function)}.shuffle", count, head)
    static = 0
    for op in shuffles:
        static += _lower(op, arrays, item, items, may_be_static=static < _MOST_STATIC)


def _lower(
    op: ir.Operation, arrays: ContextArrays, item: ir.Value, items: ir.Value, *, may_be_static: bool
) -> bool:
    """Replace ``op``; return whether its source lanes are known statically.

    ``item`` is the work-item's number in its workgroup of ``items``. The reader of a lane that is missing,
    or takes no part, keeps its value.
    """
    value, offset, width = op.operands
    array = arrays.make(value.type)
    emit = Emitter(op)
    emit.op("memref.store", [value, array, item], [])
    mask = emit.constant(-1, ir.IntegerType.get_signless(32))
    barrier = emit.op("nvvm.bar.warp.sync", [mask], [], {WAITS_FOR: ir.StringAttr.get(op.name)})
    if SOME_LANES in op.attributes:
        barrier.attributes[SOME_LANES] = ir.UnitAttr.get()
    lane = emit.binary("arith.andi", item, emit.constant(image_layout.SUBGROUP - 1))
    mode = last_word(op.attributes["mode"])
    number = emit.op("arith.index_cast", [lane], [offset.type]).results[0]
    source = emit.binary(_SOURCES[mode], number, offset) if mode in _SOURCES else offset
    valid = below(emit, source, width)
    wide = emit.op("arith.index_castui", [source], [ir.IndexType.get()]).results[0]
    index = emit.binary("arith.addi", emit.binary("arith.subi", item, lane), wide)
    exists = emit.binary("arith.andi", below(emit, index, items), valid)
    index = emit.select(exists, index, item)
    read = emit.op("memref.load", [array, index], [value.type], {FROM_LANE: ir.UnitAttr.get()})
    possible = _has_vectors(value.type) and SOME_LANES not in op.attributes and may_be_static
    sources = _sources_of(source, valid, lane) if possible else None
    if sources is not None:
        shuffle = StaticShuffle(given=array, taken=arrays.make(value.type), sources=sources)
        shuffle.mark(barrier)
        read.attributes[TAKEN] = _array_name(shuffle.taken)
    moved = read.results[0]
    for old, new in zip(op.results, (moved, valid), strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return sources is not None


SHUFFLE = "gpubuild.static_shuffle"  # on a barrier: the shuffle of vectors that may replace it
TAKEN = "gpubuild.taken"  # on the load behind it: the array that the shuffle fills
_LANES = image_layout.SUBGROUP

Numbers = tuple[int, ...]  # unsigned numbers, one for each lane


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticShuffle:
    """A shuffle: lane i of ``taken`` is lane ``sources[i]`` of ``given``; both are context arrays."""

    given: ir.Value
    taken: ir.Value
    sources: Numbers

    def mark(self, barrier: ir.Operation) -> None:
        """Describe the shuffle on the barrier that it belongs to."""
        entries = {
            "given": _array_name(self.given),
            "taken": _array_name(self.taken),
            "sources": ir.DenseI64ArrayAttr.get(list(self.sources)),
        }
        barrier.attributes[SHUFFLE] = ir.DictAttr.get(entries)

    def build(self, given: ir.Value, taken: ir.Value, extents: Extents, emit: Emitter) -> None:
        """Shuffle the values of all subgroups between these arrays of the new code."""
        lanes = emit.constant(_LANES)
        rest = emit.binary("arith.andi", extents.items, emit.constant(_LANES - 1))
        whole = emit.binary("arith.subi", extents.items, rest)
        body = for_loop(emit, extents.zero, whole, lanes).regions[0].blocks[0]
        inside = Emitter(terminator(body))
        at = body.arguments[0]
        _, moved = self._move(given, at, inside)
        inside.op("vector.store", [moved, taken, at], [])
        part = if_op(emit, emit.compare(Compare.NE, rest, extents.zero), [], 1)
        inside = Emitter(terminator(part.regions[0].blocks[0]))
        own, moved = self._move(given, whole, inside)
        moved = inside.select(self._exist(rest, inside), moved, own)
        inside.op("vector.store", [moved, taken, whole], [])

    def _move(self, given: ir.Value, at: ir.Value, emit: Emitter) -> tuple[ir.Value, ir.Value]:
        """Return the vector from element ``at`` on, unchanged and shuffled."""
        kind = ir.VectorType.get([_LANES], ir.MemRefType(given.type).element_type)
        own = emit.op("vector.load", [given, at], [kind]).results[0]
        mask = {"mask": ir.DenseI64ArrayAttr.get(list(self.sources))}
        return own, emit.op("vector.shuffle", [own, own], [kind], mask).results[0]

    def _exist(self, lanes: ir.Value, emit: Emitter) -> ir.Value:
        """Return, for each lane, whether its source lane is among the first ``lanes``."""
        i32 = ir.IntegerType.get_signless(32)
        kind = ir.VectorType.get([_LANES], i32)
        dense = ir.DenseElementsAttr.get([ir.IntegerAttr.get(i32, s) for s in self.sources], kind)
        sources = emit.op("arith.constant", [], [kind], {"value": dense}).results[0]
        number = emit.op("arith.index_cast", [lanes], [i32]).results[0]
        every = emit.op("vector.broadcast", [number], [kind]).results[0]
        return emit.compare(Compare.ULT, sources, every)


def _array_name(array: ir.Value) -> ir.StringAttr:
    return ir.StringAttr.get(ir.FlatSymbolRefAttr(array.owner.operation.attributes["name"]).value)


class StaticShuffles:
    """The static shuffles of a function that is being cut.

    ``ops`` are its operations; ``uniform`` maps its uniform values to the new code.
    """

    def __init__(self, ops: Iterable[ir.Operation], uniform: Callable[[ir.Value], ir.Value]) -> None:
        self._uniform = uniform
        self._arrays: dict[ir.Attribute, ir.Value] = {}
        for op in ops:
            if op.name == "memref.get_global":
                self._arrays.setdefault(_array_name(op.results[0]), op.results[0])
        self._moved: set[ir.Attribute] = set()  # the arrays filled by vectors in the code under construction

    def build(self, barrier: ir.Operation, extents: Extents, emit: Emitter, *, all_take_part: bool) -> None:
        """Shuffle vectors at ``barrier``, if all work-items reach it."""
        if SHUFFLE not in barrier.attributes:
            return
        entries = ir.DictAttr(barrier.attributes[SHUFFLE])
        given, taken = self._arrays[entries["given"]], self._arrays[entries["taken"]]
        self._moved.discard(entries["taken"])
        if all_take_part:
            sources = tuple(ir.DenseI64ArrayAttr(entries["sources"]))
            shuffle = StaticShuffle(given=given, taken=taken, sources=sources)
            shuffle.build(self._uniform(given), self._uniform(taken), extents, emit)
            self._moved.add(entries["taken"])

    def read(self, load: ir.Operation, index: ir.Value) -> bool:
        """Let a load read the work-item's own element, at ``index``, if vectors were shuffled for it."""
        if TAKEN not in load.attributes:
            return False
        name = load.attributes[TAKEN]
        del load.attributes[TAKEN]
        if name not in self._moved:
            return False
        load.operands[0], load.operands[1] = self._uniform(self._arrays[name]), index
        return True


def _sources_of(source: ir.Value, valid: ir.Value, lane: ir.Value) -> Numbers | None:
    """Return the source of each lane, itself where ``valid`` is false; ``None`` if not known."""
    known: dict[ir.Value, Numbers | None] = {lane: tuple(range(_LANES))}
    numbers, bits = _numbers(source, known), _numbers(valid, known)
    if numbers is None or bits is None:
        return None
    found = tuple(n if bit else own for own, (n, bit) in enumerate(zip(numbers, bits, strict=True)))
    return found if max(found) < _LANES else None


def _has_vectors(kind: ir.Type) -> bool:
    """Return whether vectors and memory can have elements of ``kind``."""
    if isinstance(kind, ir.IntegerType):
        return bool(ir.IntegerType(kind).width in (8, 16, 32, 64))
    return isinstance(kind, ir.FloatType)


def _compared(predicate: int, left: int, right: int, bits: int) -> int:
    if 2 <= predicate <= 5:  # with a sign
        left, right = (n - (n >> bits - 1 << bits) for n in (left, right))
    if predicate < 2:
        return int((left == right) == (predicate == 0))
    return int((left < right, left <= right, left > right, left >= right)[(predicate - 2) % 4])


_BINARY: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.minui": min,
    "arith.maxui": max,
}
_DIVISION: dict[str, Callable[[int, int], int]] = {
    "arith.divui": lambda a, b: a // b,
    "arith.remui": lambda a, b: a % b,
}
_CASTS = frozenset({"arith.index_castui", "arith.extui", "arith.trunci"})


def _numbers(value: ir.Value, known: dict[ir.Value, Numbers | None]) -> Numbers | None:
    if value not in known:
        known[value] = None if isinstance(value.owner, ir.Block) else _computed(value, known)
    return known[value]


def _computed(value: ir.Value, known: dict[ir.Value, Numbers | None]) -> Numbers | None:
    """Return the result in each lane of an operation, if its operands are known."""
    op = value.owner.operation
    if not isinstance(value.type, ir.IntegerType | ir.IndexType):
        return None
    if op.name == "gpu.lane_id":
        return tuple(range(_LANES))
    if op.name == "arith.constant":
        return (int(ir.IntegerAttr(op.attributes["value"]).value) % (1 << scalar_bits(value.type)),) * _LANES
    rows = [_numbers(operand, known) for operand in op.operands]
    complete = [row for row in rows if row is not None]
    if len(complete) < len(rows):
        return None
    return _apply(op, list(zip(*complete, strict=True)), scalar_bits(value.type))


def _apply(op: ir.Operation, lanes: list[Numbers], bits: int) -> Numbers | None:
    name = op.name
    if name in _CASTS or (name == "arith.index_cast" and all(n[0] < 1 << 31 for n in lanes)):
        found = [n for (n,) in lanes]
    elif name in _BINARY:
        found = [_BINARY[name](a, b) for a, b in lanes]
    elif name in _DIVISION and all(b for _, b in lanes):
        found = [_DIVISION[name](a, b) for a, b in lanes]
    elif name == "arith.select":
        found = [a if bit else b for bit, a, b in lanes]
    elif name == "arith.cmpi":
        predicate = int(ir.IntegerAttr(op.attributes["predicate"]).value)
        width = scalar_bits(op.operands[0].type)
        found = [_compared(predicate, a, b, width) for a, b in lanes]
    else:
        return None
    return tuple(n % (1 << bits) for n in found)
