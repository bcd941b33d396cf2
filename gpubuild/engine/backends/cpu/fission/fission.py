"""Work-item fission: a kernel with barriers becomes loops over work-items between the barriers.

The kernel stays as it is, for the fibers tier. A copy of it is made that does the work of a whole
workgroup: every stretch of code between barriers becomes a loop nest over the work-items, which
LLVM can vectorise, and the control flow around barriers, the same for all, runs once. A value of a
work-item that is needed behind a barrier is

- computed once for all when it is uniform;
- computed again when that takes a few integer operations;
- kept in a slot otherwise: an array with an element for each work-item.

Where control flow around a barrier is not known to be the same for all, work-items are asked when the
kernel runs (fission.control_flow). Code that cannot be cut in this way stays in the fibers tier:
:func:`fission_kernels` says why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.applicability import (
    calls,
    declare_place_item,
    functions_that_wait,
    is_report,
    needs_item,
)
from gpubuild.engine.backends.cpu.fission.context_arrays import CannotFissionError, Slots, load, store
from gpubuild.engine.backends.cpu.fission.control_flow import ControlFlow, owner_of
from gpubuild.engine.backends.cpu.fission.guard_to_loop_bounds import BoundsChecks, body_of, has_bounds_check
from gpubuild.engine.backends.cpu.fission.item_chunks import open_chunks
from gpubuild.engine.backends.cpu.fission.item_loops import Extents, ItemLoops
from gpubuild.engine.backends.cpu.fission.lanes import LaneLoops, Lanes
from gpubuild.engine.backends.cpu.fission.loop_interchange import Exchange, has_exchangeable
from gpubuild.engine.backends.cpu.fission.masks import Mask, declare_report
from gpubuild.engine.backends.cpu.fission.prepare import most_items, prepare
from gpubuild.engine.backends.cpu.fission.recompute import Recompute
from gpubuild.engine.backends.cpu.fission.shuffle_through_memory import FROM_LANE
from gpubuild.engine.backends.cpu.fission.shuffle_vectors import ROW, LaneRow, LaneRows
from gpubuild.engine.backends.cpu.fission.uniformity import (
    BARRIERS,
    ITEM_IDS,
    Uniformity,
    ancestors_of_group_ops,
    has_versions,
    is_meeting_mark,
    is_pure,
    nested,
    operations,
    terminator,
)
from gpubuild.engine.backends.cpu.lower.inline_calls import inlinable
from gpubuild.engine.backends.cpu.reductions.combine import Reduction
from gpubuild.engine.backends.cpu.reductions.partial_sums import LaneSums, worth_repeating
from gpubuild.engine.backends.cpu.reductions.tree import shorten_trees
from gpubuild.engine.backends.cpu.reductions.workgroup_array import reduce_slot
from gpubuild.engine.backends.cpu.streaming import streams
from gpubuild.engine.ir.builder import Emitter

_SUFFIX = ".workgroup"


@dataclass(frozen=True, slots=True, kw_only=True)
class FissionedKernel:
    """The function that does the work of a whole workgroup, and the variables it keeps values in."""

    function: str
    slots: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Fissions:
    """What became of the kernels that wait, by name; those that do not wait are in neither.

    ``streaming`` are kernels of both kinds whose time depends on memory alone.
    """

    done: dict[str, FissionedKernel] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    streaming: set[str] = field(default_factory=set)


def fission_kernels(module: ir.Operation, *, may_ask: bool = True) -> Fissions:
    """Add a workgroup function for each kernel of the gpu.module that waits and can be cut.

    With ``may_ask`` work-items are asked when the kernel runs whether they agree on a way past a
    barrier; without, kernels that need it are not cut.
    """
    body = module.regions[0].blocks[0]
    kernels = [op for op in operations(body) if op.name == "gpu.func" and "gpu.kernel" in op.attributes]
    waiting = functions_that_wait(module)
    bodies = inlinable(module, waiting)
    taken = {op.attributes["sym_name"].value for op in operations(body) if "sym_name" in op.attributes}
    fissions = Fissions(streaming={k.attributes["sym_name"].value for k in kernels if streams(k)})
    for kernel in kernels:
        name = kernel.attributes["sym_name"].value
        try:
            if name + _SUFFIX in taken:
                raise CannotFissionError(f"the module has a symbol @{name}{_SUFFIX}")
            pays = has_exchangeable(kernel) or has_bounds_check(kernel) or has_versions(kernel)
            if name in waiting or pays:
                fissions.done[name] = _cut(kernel, name, bodies, waiting, may_ask=may_ask)
        except CannotFissionError as why:
            if name in waiting:
                fissions.refused[name] = str(why)
    if calls(body, image_layout.PLACE_ITEM):
        declare_place_item(body)
    if calls(body, image_layout.DIVERGED):
        declare_report(body)
    return fissions


def _cut(
    kernel: ir.Operation,
    name: str,
    bodies: Mapping[str, ir.Operation],
    waiting: set[str],
    *,
    may_ask: bool,
) -> FissionedKernel:
    """With loops exchanged where that pays, if it can be."""
    try:
        return _fission(kernel, name + _SUFFIX, bodies, waiting, exchange=True, may_ask=may_ask)
    except CannotFissionError:
        return _fission(kernel, name + _SUFFIX, bodies, waiting, exchange=False, may_ask=may_ask)


def _fission(
    kernel: ir.Operation,
    name: str,
    bodies: Mapping[str, ir.Operation],
    waiting: set[str],
    *,
    exchange: bool,
    may_ask: bool,
) -> FissionedKernel:
    function = kernel.clone(ir.InsertionPoint(kernel)).operation
    function.attributes["sym_name"] = ir.StringAttr.get(name)
    slots: list[Slots] = []
    try:
        rows = prepare(function, name, bodies, waiting, slots, may_ask=may_ask)
        shorten_trees(function)
        work = _Fission(function, name, rows, exchange=exchange, may_ask=may_ask)
        slots.append(work.slots)
        work.run()
    except (CannotFissionError, RecursionError) as why:
        function.erase()
        for variable in _variables(slots):
            variable.erase()
        if isinstance(why, RecursionError):
            raise CannotFissionError("control flow that is nested too deeply") from why
        raise
    return FissionedKernel(
        function=name, slots=tuple(v.attributes["sym_name"].value for v in _variables(slots))
    )


def _variables(slots: Sequence[Slots]) -> list[ir.Operation]:
    return [variable for one in slots for variable in one.variables]


class _Fission:
    """The transformation of one function. New code is built behind the old, which then goes.

    ``once`` maps the kernel's uniform values to those of the new code.
    """

    def __init__(
        self, function: ir.Operation, name: str, rows: Sequence[LaneRow], *, exchange: bool, may_ask: bool
    ) -> None:
        self.function = function
        self.rows = LaneRows(rows=rows)
        self.may_ask = may_ask
        self.entry = function.regions[0].blocks[0]
        self.end = terminator(self.entry)
        self.body = [op for op in operations(self.entry) if op != self.end]
        inside = [op for top in self.body for op in nested(top)]
        self.meets = ancestors_of_group_ops(inside, function)
        self.uniformity = Uniformity(self.entry, self.meets)
        self.recompute = Recompute(self.uniformity)
        self.old = {value for op in inside for value in _defined(op)}
        self.once: dict[ir.Value, ir.Value] = {}
        self.head = Emitter(self.body[0])
        self.slots = Slots(function, name, most_items(function), self.head)
        self.exchange = Exchange(self.entry, self.meets, self.uniformity)
        self.bounds = BoundsChecks(self.exchange, self.once, self.old)
        self.repeatable: set[ir.Operation] = set()  # of the stretch between barriers at hand
        self.lane_slots: dict[ir.Value, ir.Value] = {}
        self.mask: Mask | None = None  # of the code that is being built
        if not exchange:
            self.exchange.switch_off()
            self.bounds.switch_off()

    @cached_property
    def extents(self) -> Extents:
        return Extents.emit(self.head)

    def run(self) -> None:
        _ = self.extents
        emit = Emitter(self.end)
        self.flush(self.block(self.body, emit), emit)
        for op in reversed(self.body):
            op.erase()

    # ---- code that runs once for all work-items ----

    def block(self, ops: Sequence[ir.Operation], emit: Emitter) -> list[ir.Operation]:
        """Build ``ops`` where ``emit`` points; gives back the last ones, which no barrier ends."""
        pending: list[ir.Operation] = []
        for op in ops:
            if op.name in BARRIERS:
                self.flush(pending, emit)
                pending = []
                if ROW in op.attributes:
                    self.rows.exchange(op, self.known, self.extents, emit, everyone=self.mask is None)
            elif is_meeting_mark(op):
                self.flush(pending, emit)
                pending = []
                emit.copy(op)
            elif op in self.meets:
                self._meet(op, pending, emit)
                pending = []
            elif is_pure(op) and op.name not in ITEM_IDS and all(map(self.uniformity.uniform, op.results)):
                self._compute_once(op, emit)
            elif not self.recompute.possible(op):
                pending.append(op)
        return pending

    def _compute_once(self, op: ir.Operation, emit: Emitter) -> None:
        operands = [self.known(value) for value in op.operands]
        new = emit.copy(op)
        for index, value in enumerate(operands):
            new.operands[index] = value
        self.once.update(zip(op.results, new.results, strict=True))

    def known(self, value: ir.Value) -> ir.Value:
        """What a value that is the same for all work-items is in the new code."""
        if value not in self.old:
            return value
        if value not in self.once:
            raise CannotFissionError(f"a value of type {value.type} is not known to be the same for all")
        return self.once[value]

    def _meet(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        if op.name == "gpu.all_reduce":
            self.once[op.results[0]] = self._reduce(op, pending, emit)
        else:
            ControlFlow(self).build(op, pending, emit)

    # ---- code that runs for each work-item ----

    def flush(
        self,
        ops: Sequence[ir.Operation],
        emit: Emitter,
        consumer: ir.Operation | None = None,
        copies: Sequence[tuple[ir.Value, ir.Value]] = (),
    ) -> None:
        """Make the loop nest that runs ``ops`` and then copies values into slots.

        ``consumer`` is the op that takes these values, and nothing else from ``ops`` directly.
        """
        mine = {value for op in ops for value in op.results}
        wanted = [(v, slot) for v, slot in copies if v in mine or not self.slots.holds(v, slot)]
        if not ops and not wanted:
            return
        inside = {inner for op in ops for inner in nested(op)}
        if consumer is not None:
            inside.add(consumer)
        exchanged = any(op in self.exchange.loops or op in self.exchange.guards for op in ops)
        if exchanged and self.mask is None:
            self.lane_slots.clear()  # they hold the last chunk's values of the stretch before
            for chunk in open_chunks(emit, self.extents):
                Lanes(work=self, chunk=chunk, inside=inside).run(ops, wanted)
            return
        last = self._begin(ops, [value for value, _ in wanted], emit, inside)
        loops = self._loops(last, emit, inside)
        values = [(self.value(value, loops, loops.emit), slot) for value, slot in wanted]
        for value, slot in values:
            store(value, slot, loops)

    def _begin(
        self,
        ops: Sequence[ir.Operation],
        wanted: Sequence[ir.Value],
        emit: Emitter,
        inside: set[ir.Operation],
    ) -> list[ir.Operation]:
        """Build what can be built in loops of its own, and give back the rest, which gives ``wanted``."""
        self.repeatable = {op for op in ops if is_pure(op)}
        stretches = [] if self.mask else self.bounds.stretches(ops, wanted)
        *before, last = stretches or [list(ops)]
        if wanted and last and not self.mask and self.bounds.is_check(last[0]):
            before, last = [*before, last], []
        for part in before:
            self._loops(part, emit, inside)
        return last

    def _reduce(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> ir.Value:
        """``pending``, and what the values that it computes for ``op`` become."""
        reduction = Reduction(op)
        exchanged = any(one in self.exchange.loops or one in self.exchange.guards for one in pending)
        if self.mask is None and not exchanged and reduction.in_vectors and worth_repeating(pending):
            inside = {inner for one in pending for inner in nested(one)} | {op}
            last = self._begin(pending, [op.operands[0]], emit, inside)

            def run(loops: ItemLoops) -> ir.Value:
                self._body(last, loops, inside)
                return self.value(op.operands[0], loops, loops.emit)

            sums = LaneSums(reduction=reduction, slots=self.slots, extents=self.extents, run=run)
            return sums.build(emit)
        slot = self.slots.make(op.operands[0].type)
        self.flush(pending, emit, op, [(op.operands[0], slot)])
        return reduce_slot(reduction, slot, self.extents, emit)

    def _loops(self, ops: Sequence[ir.Operation], emit: Emitter, inside: set[ir.Operation]) -> ItemLoops:
        """The loop nest that runs ``ops``, a part of those that are ``inside`` a stretch."""
        if len(ops) == 1 and not self.mask and self.bounds.is_check(ops[0]):
            loops = self.bounds.open(ops[0], emit, self.extents)
            ops = body_of(ops[0])
        else:
            loops = ItemLoops.open(emit, self.extents)
        if self.mask is not None:
            loops.only_if(load(ir.IntegerType.get_signless(1), self.mask.slot, loops, loops.emit))
        self._body(ops, loops, inside)
        return loops

    def _body(self, ops: Sequence[ir.Operation], loops: ItemLoops, inside: set[ir.Operation]) -> None:
        """``ops`` for the work-item of ``loops``; what is used outside the stretch is kept."""
        self.place_item(ops, loops)
        for op in ops:
            new = self.copy(op, loops, loops.emit)
            for old, value in zip(op.results, new.results, strict=True):
                loops.values[old] = value
                if any(use.owner.operation not in inside for use in old.uses):
                    store(value, self.slots.of(old), loops)

    def place_item(self, ops: Sequence[ir.Operation], loops: ItemLoops) -> None:
        """Have the record of the work-item say who runs, if one of ``ops`` looks at it."""
        if any(map(needs_item, ops)):
            _place(loops, loops.emit)

    def value(self, value: ir.Value, loops: ItemLoops, emit: Emitter) -> ir.Value:
        """What the kernel's ``value`` is for the loops' work-item."""
        if value not in self.old:
            return value
        if value in self.once:
            return self.once[value]
        if value not in loops.values:
            known = loops.lanes.fetch(value, loops, emit) if isinstance(loops, LaneLoops) else None
            loops.values[value] = self._fetch(value, loops, emit) if known is None else known
        return loops.values[value]

    def _fetch(self, value: ir.Value, loops: ItemLoops, emit: Emitter) -> ir.Value:
        slot = self.slots.get(value)
        if slot is not None:
            return load(value.type, slot, loops, emit)
        owner = owner_of(value)
        if owner is None or not (owner in self.repeatable or self.recompute.possible(owner)):
            raise CannotFissionError(f"a value of type {value.type} is needed after a barrier")
        if owner.name in ITEM_IDS:
            return loops.identity(owner, emit)
        number = list(owner.results).index(value)
        return self.copy(owner, loops, emit).results[number]

    def copy(self, op: ir.Operation, loops: ItemLoops, emit: Emitter) -> ir.Operation:
        """A copy of ``op`` and all inside it for the loops' work-item."""
        new = emit.copy(op)
        before = Emitter(new)
        for inner in nested(new):
            for index, operand in enumerate(list(inner.operands)):
                if operand in self.old:
                    inner.operands[index] = self.value(operand, loops, before)
        for inner in nested(new):
            if inner.name in ITEM_IDS and inner != new:
                at = Emitter(inner)
                at.replace(loops.identity(inner, at))
            elif FROM_LANE in inner.attributes:
                self._read_lane(inner, loops)
            elif is_report(inner):
                _place(loops, Emitter(inner))
        return new

    def _read_lane(self, read: ir.Operation, loops: ItemLoops) -> None:
        """Who reads a work-item that takes no part gets its own value."""
        del read.attributes[FROM_LANE]
        if not self.rows.read(read, self.known, loops.linear) and self.mask is not None:
            at, place = Emitter(read), read.operands[1]
            bit = load(ir.IntegerType.get_signless(1), self.mask.slot, loops, at, at=place)
            read.operands[1] = at.op("arith.select", [bit, place, loops.linear], [place.type]).results[0]


def _place(loops: ItemLoops, emit: Emitter) -> None:
    reference = {"callee": ir.FlatSymbolRefAttr.get(image_layout.PLACE_ITEM)}
    emit.op("func.call", [*loops.ids, loops.linear], [], reference)


def _defined(op: ir.Operation) -> list[ir.Value]:
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    return [*op.results, *arguments]
