"""Lower ``gpu.shuffle`` in kernels that fission cuts at their barriers: through memory, or as vectors.

Each work-item stores its value in a context array, and loads that of another one behind a barrier. No second
barrier is needed: the array belongs to the shuffle, and code is also cut at the end of a loop's iteration.

Where the source lanes are known statically and all work-items take part, the elements of each subgroup are
one vector, which is shuffled into a second array, from which each work-item loads its own element. The last
subgroup of a workgroup may lack lanes: a lane that would read a missing one keeps its value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, if_then, open_loop
from gpubuild.engine.backends.cpu.fission.uniformity import WAITS_FOR, named
from gpubuild.engine.backends.cpu.fission.workgroup_functions import most_items
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import constant_integer, defining_op, scalar_bits, symbol_name
from gpubuild.engine.legalize.subgroup_shuffle import SOME_LANES, below, last_word
from gpubuild.engine.legalize.workgroup import workgroup_position, workgroup_size

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
        read.attributes[TAKEN] = _array_name(arrays.make(value.type))
        shuffle = {
            "given": _array_name(array),
            "taken": read.attributes[TAKEN],
            "sources": ir.DenseI64ArrayAttr.get(list(sources)),
        }
        barrier.attributes[SHUFFLE] = ir.DictAttr.get(shuffle)
    moved = read.results[0]
    for old, new in zip(op.results, (moved, valid), strict=True):
        old.replace_all_uses_with(new)
    op.erase()
    return sources is not None


SHUFFLE = "gpubuild.static_shuffle"  # on a barrier: two arrays, and the source lanes in the first
TAKEN = "gpubuild.taken"  # on the load behind it: the array that the shuffle fills
_LANES = image_layout.SUBGROUP

Numbers = tuple[int, ...]  # unsigned numbers, one for each lane


def _shuffle_vectors(
    given: ir.Value, taken: ir.Value, sources: Numbers, extents: Extents, emit: Emitter
) -> None:
    """Make lane i of ``taken`` lane ``sources[i]`` of ``given``, for all subgroups."""
    lanes = emit.constant(_LANES)
    rest = emit.binary("arith.andi", extents.items, emit.constant(_LANES - 1))
    whole = emit.binary("arith.subi", extents.items, rest)
    at, end = open_loop(emit, extents.zero, whole, lanes)
    inside = Emitter(end)
    _, moved = _load_shuffled(given, at, sources, inside)
    inside.op("vector.store", [moved, taken, at], [])
    inside = Emitter(if_then(emit, emit.compare(Compare.NE, rest, extents.zero)))
    own, moved = _load_shuffled(given, whole, sources, inside)
    moved = inside.select(_exist(sources, rest, inside), moved, own)
    inside.op("vector.store", [moved, taken, whole], [])


def _load_shuffled(
    given: ir.Value, at: ir.Value, sources: Numbers, emit: Emitter
) -> tuple[ir.Value, ir.Value]:
    """Return the vector from element ``at`` on, unchanged and shuffled."""
    kind = ir.VectorType.get([_LANES], ir.MemRefType(given.type).element_type)
    own = emit.op("vector.load", [given, at], [kind]).results[0]
    mask = {"mask": ir.DenseI64ArrayAttr.get(list(sources))}
    return own, emit.op("vector.shuffle", [own, own], [kind], mask).results[0]


def _exist(sources: Numbers, lanes: ir.Value, emit: Emitter) -> ir.Value:
    """Return, for each lane, whether its source lane is among the first ``lanes``."""
    i32 = ir.IntegerType.get_signless(32)
    kind = ir.VectorType.get([_LANES], i32)
    dense = ir.DenseElementsAttr.get([ir.IntegerAttr.get(i32, s) for s in sources], kind)
    constant = emit.op("arith.constant", [], [kind], {"value": dense}).results[0]
    number = emit.op("arith.index_cast", [lanes], [i32]).results[0]
    every = emit.op("vector.broadcast", [number], [kind]).results[0]
    return emit.compare(Compare.ULT, constant, every)


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
            _shuffle_vectors(self._uniform(given), self._uniform(taken), sources, extents, emit)
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


def _has_vectors(kind: ir.Type) -> bool:
    """Return whether vectors and memory can have elements of ``kind``."""
    if isinstance(kind, ir.IntegerType):
        return bool(ir.IntegerType(kind).width in (8, 16, 32, 64))
    return isinstance(kind, ir.FloatType)


_EVALUATE: dict[str, Callable[..., int]] = {  # on unsigned numbers
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.andi": operator.and_,
    "arith.ori": operator.or_,
    "arith.xori": operator.xor,
    "arith.minui": min,
    "arith.maxui": max,
    "arith.divui": operator.floordiv,
    "arith.remui": operator.mod,
    "arith.select": lambda bit, yes, no: yes if bit else no,
    **dict.fromkeys(("arith.index_castui", "arith.extui", "arith.trunci"), int),
}
_COMPARE = (operator.eq, operator.ne, *2 * (operator.lt, operator.le, operator.gt, operator.ge))


def _evaluation(op: ir.Operation, rows: Sequence[Numbers]) -> Callable[..., int] | None:
    """Return a function that computes ``op`` from unsigned operands; ``rows`` are their values."""
    if op.name == "arith.index_cast" and max(rows[0]) < 1 << 31:
        return int
    if op.name != "arith.cmpi":
        return _EVALUATE.get(op.name)
    predicate = int(ir.IntegerAttr(op.attributes["predicate"]).value)
    bits = scalar_bits(op.operands[0].type)
    compare = _COMPARE[predicate]
    if Compare.SLT <= predicate <= Compare.SGE:
        return lambda *pair: int(compare(*(n - (n >> bits - 1 << bits) for n in pair)))
    return compare


def _sources_of(source: ir.Value, valid: ir.Value, lane: ir.Value) -> Numbers | None:
    """Return the source of each lane, itself where ``valid`` is false; ``None`` if not known."""

    @cache
    def numbers(value: ir.Value) -> Numbers | None:
        op = defining_op(value)
        if value == lane or (op is not None and op.name == "gpu.lane_id"):
            return tuple(range(_LANES))
        if op is None or not isinstance(value.type, ir.IntegerType | ir.IndexType):
            return None
        size = 1 << scalar_bits(value.type)
        if (constant := constant_integer(value)) is not None:
            return (constant % size,) * _LANES
        rows = [row for row in map(numbers, op.operands) if row is not None]
        evaluate = _evaluation(op, rows) if rows and len(rows) == len(op.operands) else None
        try:
            return None if evaluate is None else tuple(evaluate(*n) % size for n in zip(*rows, strict=True))
        except ZeroDivisionError:
            return None

    indices, bits = numbers(source), numbers(valid)
    if indices is None or bits is None:
        return None
    found = tuple(n if bit else own for own, (n, bit) in enumerate(zip(indices, bits, strict=True)))
    return found if max(found) < _LANES else None
