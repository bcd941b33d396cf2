"""Work-item fission: a kernel with barriers becomes loops over work-items between the barriers.

Every segment of code between barriers becomes a loop nest over the work-items, which LLVM can vectorise,
and the control flow around barriers, the same for all, runs once.

A condition around a barrier that is not known to be the same for all is kept in a context array and looked
at when the kernel runs. Where a barrier follows that needs the whole workgroup, all must agree: if they do
not, the program ends with a message, as in the fibers tier. Else (subgroups that take different ways) those
that go on are a mask, and what follows is done for them only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission import masks
from gpubuild.engine.backends.cpu.fission.chunk_code import ChunkCode
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays, load, store
from gpubuild.engine.backends.cpu.fission.guard_to_loop_bounds import BoundsChecks, body_of
from gpubuild.engine.backends.cpu.fission.item_code import ItemCode
from gpubuild.engine.backends.cpu.fission.item_loops import (
    Extents,
    ItemLoops,
    for_loop,
    if_op,
    open_chunks,
    set_operands,
)
from gpubuild.engine.backends.cpu.fission.loop_interchange import Interchange
from gpubuild.engine.backends.cpu.fission.masks import Mask
from gpubuild.engine.backends.cpu.fission.uniformity import (
    BARRIERS,
    COLLECTIVE_OPS,
    ITEM_IDS,
    WAITS_FOR,
    WORKGROUP_BARRIERS,
    Uniformity,
    collective_ops,
    is_barrier_report,
    is_pure,
    must_agree,
    nested,
    operations,
    reaches_workgroup_barrier,
    terminator,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import (
    CannotFissionError,
    each_workgroup_function,
    most_items,
)
from gpubuild.engine.backends.cpu.reductions.partial_sums import PartialSums, Reduction, worth_repeating
from gpubuild.engine.backends.cpu.reductions.workgroup_array import reduce_array
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import callee, defining_op, symbol_name
from gpubuild.engine.legalize.subgroup_shuffle import SOME_LANES
from gpubuild.targets.target import Sanitize


def fission(module: ir.Module, lowering: CpuLowering) -> None:
    """Make loops over work-items of the code between barriers, in each workgroup function."""
    kernels = kernel_module(module)
    # Checked for divergent barriers, a kernel keeps fibers, which report each and go on.
    asks = Sanitize.BARRIER not in lowering.sanitize
    each_workgroup_function(kernels, lambda function: _cut(function, asks_at_run_time=asks))
    body = kernels.regions[0].blocks[0]
    called = {callee(op) for top in operations(body) for op in nested(top) if op.name == "func.call"}
    index, i32 = ir.IndexType.get(), ir.IntegerType.get_signless(32)
    for name, inputs in ((image_layout.PLACE_ITEM, [index] * 4), (image_layout.DIVERGED, [index, i32])):
        if name in called:
            _declare(body, name, inputs)


def _declare(body: ir.Block, name: str, inputs: Sequence[ir.Type]) -> None:
    """Declare a function whose calls lower/calls or lower/barriers replace."""
    ir.Operation.create(
        "func.func",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(inputs), [])),
        },
        loc=ir.Location.unknown(),
        ip=ir.InsertionPoint.at_block_begin(body),
    )


def _cut(function: ir.Operation, *, asks_at_run_time: bool) -> None:
    """Cut ``function``, with loops interchanged where that pays, if it can be done."""
    work = _Fission(function, interchange=True, asks_at_run_time=asks_at_run_time)
    try:
        work.run()
    except (CannotFissionError, RecursionError):
        work.undo()
        _Fission(function, interchange=False, asks_at_run_time=asks_at_run_time).run()


class _Fission:
    """The transformation of one function. New code is built behind the old, which then goes."""

    def __init__(self, function: ir.Operation, *, interchange: bool, asks_at_run_time: bool) -> None:
        self.asks_at_run_time = asks_at_run_time
        self.entry = function.regions[0].blocks[0]
        self.end = terminator(self.entry)
        self.body = [op for op in operations(self.entry) if op != self.end]
        inside = [op for top in self.body for op in nested(top)]
        self.collective = collective_ops(inside, function)
        self.uniformity = Uniformity(self.entry, self.collective)
        self.head = Emitter(self.body[0])
        self.arrays = ContextArrays(function, symbol_name(function), most_items(function), self.head)
        self.code = ItemCode(inside, self.uniformity, self.arrays)
        self.interchange = Interchange(self.entry, self.collective, self.uniformity)
        self.guards = BoundsChecks(self.interchange, self.code.once, self.code.old)
        self.chunk_arrays: dict[ir.Value, ir.Value] = {}
        if not interchange:
            self.interchange.switch_off()
            self.guards.switch_off()

    @cached_property
    def extents(self) -> Extents:
        return Extents.emit(self.head)

    def run(self) -> None:
        _ = self.extents
        emit = Emitter(self.end)
        self.flush(self.block(self.body, emit), emit)
        for op in reversed(self.body):
            op.erase()

    def undo(self) -> None:
        """Erase what :meth:`run` had built when it failed."""
        old = {*self.body, self.end}
        for op in reversed(list(operations(self.entry))):
            if op not in old:
                op.erase()
        self.arrays.erase()

    # ---- code that runs once for all work-items ----

    def block(self, ops: Sequence[ir.Operation], emit: Emitter) -> list[ir.Operation]:
        """Build ``ops`` where ``emit`` points; return the last ones, which no barrier ends."""
        pending: list[ir.Operation] = []
        for op in ops:
            if op.name in BARRIERS:
                self.flush(pending, emit)
                pending = []
                self.code.shuffles.build(op, self.extents, emit, all_take_part=self.code.mask is None)
            elif is_barrier_report(op):
                self.flush(pending, emit)
                pending = []
                emit.copy(op)
            elif op in self.collective:
                self._collective_op(op, pending, emit)
                pending = []
            elif is_pure(op) and op.name not in ITEM_IDS and all(map(self.uniformity.uniform, op.results)):
                self.code.compute_once(op, emit)
            elif not self.code.recompute.possible(op):
                pending.append(op)
        return pending

    def _collective_op(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        """Build ``op``, after ``pending``. Raises ``CannotFissionError`` for one that is not known."""
        if op.name == "gpu.all_reduce":
            self.code.once[op.results[0]] = self._reduce(op, pending, emit)
        elif op.name == "scf.for":
            self._for(op, pending, emit)
        elif op.name == "scf.if":
            self._if(op, pending, emit)
        elif op.name == "scf.while":
            self._while(op, pending, emit)
        else:
            raise CannotFissionError(f"{_first_collective(op)} inside {op.name}")

    # ---- control flow around barriers ----

    def _for(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
        if not all(map(self.uniformity.uniform, bounds)):
            raise CannotFissionError(
                f"{_first_collective(op)} in a divergent {op.name}"
            )  # others became scf.while
        body = op.regions[0].blocks[0]
        end = terminator(body)
        counter, *arguments = list(body.arguments)
        same = [self.uniformity.uniform(argument) for argument in arguments]
        varying = [a for a, uniform in zip(arguments, same, strict=True) if not uniform]
        entering = [(v, self.arrays.of(a)) for v, a in zip(initial, arguments, strict=True) if a in varying]
        self.flush(pending, emit, op, entering)
        for argument, value in zip(arguments, end.operands, strict=True):
            if argument in varying and self._may_share(argument, value, body):
                self.arrays.share(value, argument)
        carried = [self.code.uniform(v) for v, uniform in zip(initial, same, strict=True) if uniform]
        attributes = {name: op.attributes[name] for name in op.attributes}
        lower, upper, step = (self.code.uniform(v) for v in bounds)
        loop = for_loop(emit, lower, upper, step, carried, attributes)
        inner = loop.regions[0].blocks[0]
        self.code.once[counter] = inner.arguments[0]
        kept = [a for a, uniform in zip(arguments, same, strict=True) if uniform]
        self.code.once.update(zip(kept, list(inner.arguments)[1:], strict=True))
        leaving = [
            (v, self.arrays.of(a)) for v, a in zip(end.operands, arguments, strict=True) if a in varying
        ]
        new_end = terminator(inner)
        self._masked_block(body, Emitter(new_end), leaving, self.code.mask)
        following = [self.code.uniform(v) for v, uniform in zip(end.operands, same, strict=True) if uniform]
        set_operands(new_end, following)
        results = iter(loop.results)
        for result, argument, uniform in zip(op.results, arguments, same, strict=True):
            if uniform:
                self.code.once[result] = next(results)
            else:
                self.arrays.share(result, argument)

    def _if(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        condition = op.operands[0]
        branches = [region.blocks[0] for region in op.regions if len(region.blocks)]
        if self.uniformity.uniform(condition):
            self.flush(pending, emit)
            chosen = self.code.uniform(condition)
        else:
            self._check_asking(op)
            bits = self.arrays.make(condition.type)
            self.flush(pending, emit, op, [(condition, bits)])
            if not must_agree(op):
                self._masked_if(op, branches, bits, emit)
                return
            chosen = self._agree(op, bits, emit, inverted=not reaches_workgroup_barrier(branches[0]))
        results = list(op.results)
        same = [r for r in results if self.uniformity.uniform(r)]
        new = if_op(emit, chosen, [r.type for r in same], len(branches))
        for number, branch in enumerate(branches):
            yielded = list(terminator(branch).operands)
            leaving = [(v, self.arrays.of(r)) for v, r in zip(yielded, results, strict=True) if r not in same]
            end = terminator(new.regions[number].blocks[0])
            self._masked_block(branch, Emitter(end), leaving, self.code.mask)
            set_operands(
                end, [self.code.uniform(v) for v, r in zip(yielded, results, strict=True) if r in same]
            )
        self.code.once.update(zip(same, new.results, strict=True))

    def _check_asking(self, op: ir.Operation) -> None:
        """Raise ``CannotFissionError`` where ``op`` needs fibers, as no test in the code decides it."""
        if not self.asks_at_run_time or (op.name == "scf.if" and self._may_meet_in_different_iterations(op)):
            raise CannotFissionError(f"{_first_collective(op)} in a divergent {op.name}")

    def _may_meet_in_different_iterations(self, op: ir.Operation) -> bool:
        """Return whether work-items may come to a barrier in different iterations, by their ids.

        No rule allows it, but fibers run it: for the runtime they wait at the same barrier.
        """
        values, seen, ids, loops = [op.operands[0]], set(), False, False
        while values:
            value = values.pop()
            owner = defining_op(value)
            if value in seen or (owner is not None and not (owner.name in ITEM_IDS or is_pure(owner))):
                continue
            seen.add(value)
            if owner is None:
                loops |= value.owner.owner.operation in self.collective
            else:
                ids |= owner.name in ITEM_IDS
                values += list(owner.operands)
        return must_agree(op) and ids and loops

    def _masked_if(
        self, op: ir.Operation, branches: Sequence[ir.Block], bits: ir.Value, emit: Emitter
    ) -> None:
        outer = self.code.mask.array if self.code.mask is not None else None
        if outer is not None:
            masks.keep(emit, self.extents, bits, outer)
        last = self._is_last(op) and sum(map(self._is_collective, branches)) == 1
        for number, branch in enumerate(branches):
            if number:
                rest = self.arrays.make(op.operands[0].type)
                masks.others(emit, self.extents, rest, bits, outer)
                bits = rest
            leaving = [
                (v, self.arrays.of(r)) for v, r in zip(terminator(branch).operands, op.results, strict=True)
            ]
            if len(branch.operations) > 1 or leaving:
                total = masks.count(emit, self.extents, bits)
                guard = if_op(emit, masks.differs(emit, total, self.extents.zero), [], 1)
                end = terminator(guard.regions[0].blocks[0])
                self._masked_block(branch, Emitter(end), leaving, Mask(array=bits, last=last))

    def _while(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        uniform = self.uniformity.uniform
        before, after = (region.blocks[0] for region in op.regions)
        condition, *passed = list(terminator(before).operands)
        following = list(terminator(after).operands)
        arguments, inner, results = list(before.arguments), list(after.arguments), list(op.results)
        if not uniform(condition):
            self._check_asking(op)
        together = uniform(condition) or must_agree(op)
        self.flush(pending, emit, op, self._varying(op.operands, arguments))
        for result, argument in zip(results, inner, strict=True):
            if not uniform(result):
                self.arrays.share(argument, result)
        mask = self.code.mask
        if not together:
            mask = Mask(array=self.arrays.make(condition.type), last=self._is_last(op))
            outer = self.code.mask.array if self.code.mask is not None else None
            masks.fill(emit, self.extents, mask.array, outer)
        kept_in = [a for a in arguments if uniform(a)]
        kept_out = [r for r in results if uniform(r)]
        carried = [self.code.uniform(v) for v, a in zip(op.operands, arguments, strict=True) if uniform(a)]
        loop = emit.op("scf.while", carried, [r.type for r in kept_out], regions=2)
        first = loop.regions[0].blocks.append(
            *[a.type for a in kept_in], arg_locs=[op.location] * len(kept_in)
        )
        self.code.once.update(zip(kept_in, first.arguments, strict=True))
        leaving, inside = self._varying(passed, results), emit.inside(first)
        if uniform(condition):
            self._masked_block(before, inside, leaving, mask)
            more = self.code.uniform(condition)
        else:
            bits = self.arrays.make(condition.type)
            self._masked_block(before, inside, [*leaving, (condition, bits)], mask)
            if together or mask is None:
                more = self._agree(op, bits, inside)
            else:
                more = self._stay(bits, mask, inside)
        out = [self.code.uniform(v) for v, r in zip(passed, results, strict=True) if uniform(r)]
        inside.op("scf.condition", [more, *out], [])
        second = loop.regions[1].blocks.append(
            *[r.type for r in kept_out], arg_locs=[op.location] * len(kept_out)
        )
        self.code.once.update(zip([a for a in inner if uniform(a)], second.arguments, strict=True))
        inside = emit.inside(second)
        self._masked_block(after, inside, self._varying(following, arguments), mask)
        back = [self.code.uniform(v) for v, a in zip(following, arguments, strict=True) if uniform(a)]
        inside.op("scf.yield", back, [])
        self.code.once.update(zip(kept_out, loop.results, strict=True))

    def _varying(
        self, values: Sequence[ir.Value], places: Sequence[ir.Value]
    ) -> list[tuple[ir.Value, ir.Value]]:
        """Pair values with the arrays of those of ``places`` that are not the same for all."""
        pairs = zip(values, places, strict=True)
        return [(v, self.arrays.of(place)) for v, place in pairs if not self.uniformity.uniform(place)]

    def _agree(self, op: ir.Operation, bits: ir.Value, emit: Emitter, *, inverted: bool = False) -> ir.Value:
        """Build a test that all work-items agree on ``bits``; return the condition that they have there.

        With ``inverted`` the barrier is where a condition is false.
        """
        extents = self.extents
        if inverted:
            rest = self.arrays.make(ir.IntegerType.get_signless(1))
            masks.others(
                emit, extents, rest, bits, self.code.mask.array if self.code.mask is not None else None
            )
            bits = rest
        elif self.code.mask is not None:
            masks.keep(emit, extents, bits, self.code.mask.array)
        total = masks.count(emit, extents, bits)
        masks.require_all(emit, extents, bits, total, _first(op, WORKGROUP_BARRIERS))
        if inverted:
            true = emit.constant(1, ir.IntegerType.get_signless(1))
            return emit.binary("arith.xori", masks.differs(emit, total, extents.zero), true)
        return masks.differs(emit, total, extents.zero)

    def _stay(self, bits: ir.Value, mask: Mask, emit: Emitter) -> ir.Value:
        """Take the work-items that are not in ``bits`` out of ``mask``; return whether any are left."""
        extents = self.extents
        masks.keep(emit, extents, bits, mask.array)
        masks.fill(emit, extents, mask.array, bits)
        return masks.differs(emit, masks.count(emit, extents, bits), extents.zero)

    def _masked_block(
        self,
        block: ir.Block,
        emit: Emitter,
        leaving: list[tuple[ir.Value, ir.Value]],
        mask: Mask | None,
    ) -> None:
        """Build ``block`` for the work-items of ``mask``, at least one."""
        outer = self.code.mask
        self.code.mask = self._enter(block, mask, emit)
        end = terminator(block)
        rest = self.block([op for op in operations(block) if op != end], emit)
        self.flush(rest, emit, end, leaving)
        self.code.mask = outer

    def _enter(self, block: ir.Block, mask: Mask | None, emit: Emitter) -> Mask | None:
        """Test that no work-item in ``block`` waits for one that is not; return the mask from then on."""
        if mask is None:
            return None
        extents = self.extents
        if reaches_workgroup_barrier(block):
            total = masks.count(emit, extents, mask.array)
            masks.require_all(emit, extents, mask.array, total, _first_in(block, WORKGROUP_BARRIERS))
            return None
        if not mask.last and any(
            op.name in BARRIERS and SOME_LANES not in op.attributes for op in operations(block)
        ):
            masks.require_subgroups(emit, extents, mask.array, _first_in(block, BARRIERS))
        return mask

    def _is_collective(self, block: ir.Block) -> bool:
        return any(op in self.collective for op in operations(block))

    def _is_last(self, op: ir.Operation) -> bool:
        """Return whether work-items that leave ``op`` return without another barrier."""
        while op in self.collective:
            order = list(operations(op.block))
            if any(other in self.collective for other in order[order.index(op) + 1 :]):
                return False
            op = op.parent.operation
            if op.name in ("scf.for", "scf.while"):
                return False
        return True

    def _may_share(self, argument: ir.Value, value: ir.Value, body: ir.Block) -> bool:
        """Return whether ``value``, the next ``argument``, can overwrite it as soon as it is computed.

        Next to a bounds check what is computed from ``argument`` may be computed once more, behind the check.
        """
        if any(map(self.guards.is_check, operations(body))):
            return False
        order = {op: number for number, op in enumerate(operations(body))}
        owner = defining_op(value)
        if owner not in order or owner in self.collective or len(list(value.uses)) != 1:
            return False
        if self.uniformity.uniform(value) or self.code.recompute.possible(owner) or value in self.arrays:
            return False
        users = [_ancestor_in(use.owner.operation, order) for use in argument.uses]
        return all(user is not None and order[user] <= order[owner] for user in users)

    # ---- code that runs for each work-item ----

    def flush(
        self,
        ops: Sequence[ir.Operation],
        emit: Emitter,
        consumer: ir.Operation | None = None,
        copies: Sequence[tuple[ir.Value, ir.Value]] = (),
    ) -> None:
        """Make the loop nest that runs ``ops`` and then copies values into arrays.

        ``consumer`` is the op that takes these values, and nothing else from ``ops`` directly.
        """
        mine = {value for op in ops for value in op.results}
        wanted = [(v, array) for v, array in copies if v in mine or not self.arrays.holds(v, array)]
        if not ops and not wanted:
            return
        inside = {inner for op in ops for inner in nested(op)}
        if consumer is not None:
            inside.add(consumer)
        interchanged = any(op in self.interchange.loops or op in self.interchange.guards for op in ops)
        if interchanged and self.code.mask is None:
            self.chunk_arrays.clear()  # they hold the last chunk's values of the segment before
            for chunk in open_chunks(emit, self.extents):
                ChunkCode(
                    code=self.code,
                    interchange=self.interchange,
                    chunk_arrays=self.chunk_arrays,
                    chunk=chunk,
                    inside=inside,
                ).run(ops, wanted)
            return
        last = self._begin(ops, [value for value, _ in wanted], emit, inside)
        loops = self._loops(last, emit, inside)
        values = [(self.code.value(value, loops, loops.emit), array) for value, array in wanted]
        for value, array in values:
            store(value, array, loops)

    def _begin(
        self,
        ops: Sequence[ir.Operation],
        wanted: Sequence[ir.Value],
        emit: Emitter,
        inside: set[ir.Operation],
    ) -> list[ir.Operation]:
        """Build what can have loops of its own; return the rest, which computes ``wanted``."""
        self.code.repeatable = {op for op in ops if is_pure(op)}
        segments = [] if self.code.mask else self.guards.segments(ops, wanted)
        *before, last = segments or [list(ops)]
        if wanted and last and not self.code.mask and self.guards.is_check(last[0]):
            before, last = [*before, last], []
        for part in before:
            self._loops(part, emit, inside)
        return last

    def _reduce(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> ir.Value:
        """Build ``pending``; return the reduction ``op`` of the values that it computes."""
        reduction = Reduction(op)
        interchanged = any(one in self.interchange.loops or one in self.interchange.guards for one in pending)
        if self.code.mask is None and not interchanged and reduction.in_vectors and worth_repeating(pending):
            inside = {inner for one in pending for inner in nested(one)} | {op}
            last = self._begin(pending, [op.operands[0]], emit, inside)

            def run(loops: ItemLoops) -> ir.Value:
                self._body(last, loops, inside)
                return self.code.value(op.operands[0], loops, loops.emit)

            sums = PartialSums(reduction=reduction, arrays=self.arrays, extents=self.extents, run=run)
            return sums.build(emit)
        array = self.arrays.make(op.operands[0].type)
        self.flush(pending, emit, op, [(op.operands[0], array)])
        return reduce_array(reduction, array, self.extents, emit)

    def _loops(self, ops: Sequence[ir.Operation], emit: Emitter, inside: set[ir.Operation]) -> ItemLoops:
        """Build the loop nest that runs ``ops``, a part of those that are ``inside`` a segment."""
        if len(ops) == 1 and not self.code.mask and self.guards.is_check(ops[0]):
            loops = self.guards.open(ops[0], emit, self.extents)
            ops = body_of(ops[0])
        else:
            loops = ItemLoops.open(emit, self.extents)
        if self.code.mask is not None:
            loops.only_if(load(ir.IntegerType.get_signless(1), self.code.mask.array, loops, loops.emit))
        self._body(ops, loops, inside)
        return loops

    def _body(self, ops: Sequence[ir.Operation], loops: ItemLoops, inside: set[ir.Operation]) -> None:
        """``ops`` for the work-item of ``loops``; what is used outside the segment is kept."""
        self.code.set_item(ops, loops)
        for op in ops:
            new = self.code.copy(op, loops, loops.emit)
            for old, value in zip(op.results, new.results, strict=True):
                loops.values[old] = value
                if any(use.owner.operation not in inside for use in old.uses):
                    store(value, self.arrays.of(old), loops)


def _first_collective(op: ir.Operation) -> str:
    """Return the name of the first operation in ``op`` at which work-items wait."""
    first = _first(op, COLLECTIVE_OPS)
    return str(first.attributes[WAITS_FOR].value if WAITS_FOR in first.attributes else first.name)


def _first(op: ir.Operation, names: frozenset[str]) -> ir.Operation:
    return next(inner for inner in nested(op) if inner.name in names)


def _first_in(block: ir.Block, names: frozenset[str]) -> ir.Operation:
    return next(inner for op in operations(block) for inner in nested(op) if inner.name in names)


def _ancestor_in(op: ir.Operation, order: Mapping[ir.Operation, int]) -> ir.Operation | None:
    while op is not None and op not in order:
        op = op.parent.operation if op.parent is not None else None
    return op
