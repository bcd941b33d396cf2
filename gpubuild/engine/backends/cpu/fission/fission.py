"""Work-item fission: a kernel with barriers becomes loops over work-items between the barriers.

Each segment of code between barriers becomes a loop nest over the work-items, which LLVM can vectorise.
Uniform control flow around barriers runs once.

A condition around a barrier that is not known to be uniform is kept in a context array and tested at run
time. Where a barrier follows that needs the whole workgroup, all work-items must agree: if they do not, the
program ends with a message, as in the fibers tier. Otherwise, as when subgroups take different branches, a
mask selects the work-items that run the following code.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission import masks
from gpubuild.engine.backends.cpu.fission.all_reduce import (
    PartialSums,
    Reduction,
    reduce_array,
    worth_repeating,
)
from gpubuild.engine.backends.cpu.fission.applicability import functions_with_barriers
from gpubuild.engine.backends.cpu.fission.chunk_code import ChunkCode
from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays, load, store
from gpubuild.engine.backends.cpu.fission.counted_loops import count_loops
from gpubuild.engine.backends.cpu.fission.delinearized_ids import divided_ids
from gpubuild.engine.backends.cpu.fission.grid_loops import grid_loops
from gpubuild.engine.backends.cpu.fission.guard_to_loop_bounds import BoundsChecks, has_bounds_check
from gpubuild.engine.backends.cpu.fission.item_code import ItemCode
from gpubuild.engine.backends.cpu.fission.item_loops import (
    Extents,
    ItemLoops,
    for_loop,
    if_else,
    if_op,
    if_then,
    open_chunks,
    set_operands,
)
from gpubuild.engine.backends.cpu.fission.loop_interchange import Interchange, has_interchangeable_loop
from gpubuild.engine.backends.cpu.fission.masks import Mask
from gpubuild.engine.backends.cpu.fission.private_values import has_private_sums, promote_private_memory
from gpubuild.engine.backends.cpu.fission.structured_control_flow import (
    has_branches,
    lift_branches,
    parallel_loops,
)
from gpubuild.engine.backends.cpu.fission.uniformity import (
    BARRIERS,
    COLLECTIVE_OPS,
    ITEM_IDS,
    WAITS_FOR,
    WORKGROUP_BARRIERS,
    Uniformity,
    all_operations,
    ancestor_in,
    body_operations,
    collective_ops,
    has_versions,
    is_barrier_report,
    is_pure,
    must_agree,
    named,
    nested,
    operations,
    reaches_workgroup_barrier,
    terminator,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import (
    SUFFIX,
    CannotFissionError,
    each_workgroup_function,
    most_items,
)
from gpubuild.engine.backends.cpu.state import (
    NO_FISSION,
    WORKGROUP_OF,
    CpuLowering,
    gpu_kernels,
    kernel_module,
)
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import callee, defining_op, symbol_name
from gpubuild.engine.legalize.subgroup_shuffle import SOME_LANES
from gpubuild.targets.target import Sanitize


def add_workgroup_functions(module: ir.Module, lowering: CpuLowering) -> None:
    """Copy each kernel that has barriers, or that gains from loops over its work-items."""
    kernels = kernel_module(module)
    if lowering.debug_variables:  # those of one work-item
        for kernel in gpu_kernels(module):
            kernel.attributes[NO_FISSION] = ir.StringAttr.get("`debug: full` keeps work-items apart")
        return
    waiting = functions_with_barriers(kernels)
    taken = {symbol_name(op) for op in operations(kernels.regions[0].blocks[0])}
    for kernel in gpu_kernels(module):
        name = symbol_name(kernel)
        if name + SUFFIX in taken:
            kernel.attributes[NO_FISSION] = ir.StringAttr.get(f"the module has a symbol @{name}{SUFFIX}")
            continue
        gains = name in waiting or _gains(kernel, lowering)
        if not gains and not _has_other_form(kernel):
            continue
        function = kernel.clone(ir.InsertionPoint(kernel)).operation
        function.attributes["sym_name"] = ir.StringAttr.get(name + SUFFIX)
        function.attributes[WORKGROUP_OF] = ir.StringAttr.get(name)
        if not gains and not _gains_structured(function, lowering):
            function.erase()


def _has_other_form(kernel: ir.Operation) -> bool:
    """Return whether loops of a kernel may be hidden by branches, ``scf.while`` or private memory."""
    return has_branches(kernel) or bool(named(kernel, {"scf.while"})) or has_private_sums(kernel)


def _gains_structured(function: ir.Operation, lowering: CpuLowering) -> bool:
    """Return whether ``function`` gains as soon as its branches and loops are ``scf.if`` and ``scf.for``."""
    try:
        if not lowering.sanitize:
            promote_private_memory(function)
        lift_branches(function)
    except CannotFissionError:
        return False
    count_loops(function)
    return _gains(function, lowering)


def _gains(kernel: ir.Operation, lowering: CpuLowering) -> bool:
    """Return whether a kernel without barriers gains from loops over its work-items."""
    try:
        if has_interchangeable_loop(kernel) or has_bounds_check(kernel) or has_versions(kernel):
            return True
    except RecursionError:  # from a chain of hundreds of operations that compute an index
        return False
    return not lowering.sanitize and bool(parallel_loops(kernel) or grid_loops(kernel) or divided_ids(kernel))


def fission(module: ir.Module, lowering: CpuLowering) -> None:
    """Make loops over work-items of the code between barriers, in each workgroup function."""
    kernels = kernel_module(module)
    # A kernel checked for divergent barriers keeps fibers, which report each barrier and continue.
    test = Sanitize.BARRIER not in lowering.sanitize
    each_workgroup_function(kernels, lambda function: _cut(function, test_at_run_time=test))
    called = {callee(call) for call in named(kernels, {"func.call"})}
    # lower/calls and lower/barriers replace the calls.
    for name, inputs in (
        (image_layout.PLACE_ITEM, "index, index, index, index"),
        (image_layout.DIVERGED, "index, i32"),
    ):
        if name in called:
            function = ir.Operation.parse(f"func.func private @{name}({inputs})")
            ir.InsertionPoint.at_block_begin(kernels.regions[0].blocks[0]).insert(function)


def _cut(function: ir.Operation, *, test_at_run_time: bool) -> None:
    """Cut ``function``, if possible with loops interchanged where that pays."""
    work = _Fission(function, interchange=True, test_at_run_time=test_at_run_time)
    try:
        work.run()
    except (CannotFissionError, RecursionError):
        work.undo()
        _Fission(function, interchange=False, test_at_run_time=test_at_run_time).run()


class _Fission:
    """The transformation of one function. New code is built behind the old code, which is erased then."""

    def __init__(self, function: ir.Operation, *, interchange: bool, test_at_run_time: bool) -> None:
        self.test_at_run_time = test_at_run_time
        self.entry = function.regions[0].blocks[0]
        self.end = terminator(self.entry)
        self.body = body_operations(self.entry)
        ops = all_operations(function)[:-1]  # without the terminator
        self.collective = collective_ops(ops, function)
        self.uniformity = Uniformity(self.entry, self.collective)
        self.head = Emitter(self.body[0])
        self.arrays = ContextArrays(function, symbol_name(function), most_items(function), self.head)
        self.code = ItemCode(ops, self.uniformity, self.arrays)
        self.interchange = Interchange(self.entry, self.collective, self.uniformity)
        self.guards = BoundsChecks(self.interchange, self.code.once, self.code.old)
        self.chunk_arrays: dict[ir.Value, ir.Value] = {}
        self.extents = Extents.emit(self.head)
        if not interchange:
            self.interchange.switch_off()
            self.guards.switch_off()

    def run(self) -> None:
        """Build the new code and erase the old."""
        emit = Emitter(self.end)
        self.flush(self.block(self.body, emit), emit)
        for op in reversed(self.body):
            op.erase()

    def undo(self) -> None:
        """Erase the code that :meth:`run` had built when it failed."""
        old = {*self.body, self.end}
        for op in reversed(list(operations(self.entry))):
            if op not in old:
                op.erase()
        self.arrays.erase()

    # ---- code that runs once for all work-items ----

    def block(self, ops: Sequence[ir.Operation], emit: Emitter) -> list[ir.Operation]:
        """Build ``ops`` up to the last barrier; return the rest."""
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
            raise CannotFissionError(f"{_first_collective(op)} in a divergent {op.name}")
        body = op.regions[0].blocks[0]
        end = terminator(body)
        counter, *arguments = list(body.arguments)
        self.flush(pending, emit, op, self._varying(initial, arguments))
        for argument, value in zip(arguments, end.operands, strict=True):
            if not self.uniformity.uniform(argument) and self._may_share(argument, value, body):
                self.arrays.share(value, argument)
        attributes = {name: op.attributes[name] for name in op.attributes}
        lower, upper, step = (self.code.uniform(v) for v in bounds)
        loop = for_loop(emit, lower, upper, step, self._carried(initial, arguments), attributes)
        new_counter, *new_arguments = list(loop.regions[0].blocks[0].arguments)
        self.code.once[counter] = new_counter
        self._map_uniform(arguments, new_arguments)
        new_end = terminator(loop.regions[0].blocks[0])
        self._masked_block(body, Emitter(new_end), self._varying(end.operands, arguments), self.code.mask)
        set_operands(new_end, self._carried(end.operands, arguments))
        for result, argument in zip(op.results, arguments, strict=True):
            if not self.uniformity.uniform(argument):
                self.arrays.share(result, argument)
        self._map_uniform(op.results, loop.results)

    def _if(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        condition = op.operands[0]
        branches = [region.blocks[0] for region in op.regions if len(region.blocks)]
        if self.uniformity.uniform(condition):
            self.flush(pending, emit)
            chosen = self.code.uniform(condition)
        else:
            self._require_test(op)
            bits = self.arrays.make(condition.type)
            self.flush(pending, emit, op, [(condition, bits)])
            if not must_agree(op):
                self._masked_if(op, branches, bits, emit)
                return
            chosen = self._agree(op, bits, emit, inverted=not reaches_workgroup_barrier(branches[0]))
        results = list(op.results)
        new = if_op(emit, chosen, [r.type for r in self._uniform_ones(results)], len(branches))
        for branch, region in zip(branches, new.regions, strict=False):
            yielded = list(terminator(branch).operands)
            end = terminator(region.blocks[0])
            self._masked_block(branch, Emitter(end), self._varying(yielded, results), self.code.mask)
            set_operands(end, self._carried(yielded, results))
        self._map_uniform(results, new.results)

    def _require_test(self, op: ir.Operation) -> None:
        """Raise ``CannotFissionError`` where ``op`` needs fibers, as no test at run time decides it."""
        if not self.test_at_run_time or (op.name == "scf.if" and self._may_meet_in_different_iterations(op)):
            raise CannotFissionError(f"{_first_collective(op)} in a divergent {op.name}")

    def _may_meet_in_different_iterations(self, op: ir.Operation) -> bool:
        """Return whether work-items may reach a barrier in different iterations, depending on their ids.

        Such a kernel is incorrect, but fibers run it: for the runtime they wait at the same barrier.
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
        outer = self._mask_array()
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
                end = if_then(emit, emit.compare(Compare.NE, total, self.extents.zero))
                self._masked_block(branch, Emitter(end), leaving, Mask(array=bits, last=last))

    def _while(self, op: ir.Operation, pending: list[ir.Operation], emit: Emitter) -> None:
        uniform = self.uniformity.uniform
        before, after = (region.blocks[0] for region in op.regions)
        condition, *passed = list(terminator(before).operands)
        following = list(terminator(after).operands)
        arguments, inner, results = list(before.arguments), list(after.arguments), list(op.results)
        if not uniform(condition):
            self._require_test(op)
        together = uniform(condition) or must_agree(op)
        self.flush(pending, emit, op, self._varying(op.operands, arguments))
        for result, argument in zip(results, inner, strict=True):
            if not uniform(result):
                self.arrays.share(argument, result)
        mask = self.code.mask
        if not together:
            mask = Mask(array=self.arrays.make(condition.type), last=self._is_last(op))
            masks.fill(emit, self.extents, mask.array, self._mask_array())
        kept_in, kept_out = self._uniform_ones(arguments), self._uniform_ones(results)
        carried = self._carried(op.operands, arguments)
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
        inside.op("scf.condition", [more, *self._carried(passed, results)], [])
        second = loop.regions[1].blocks.append(
            *[r.type for r in kept_out], arg_locs=[op.location] * len(kept_out)
        )
        self._map_uniform(inner, second.arguments)
        inside = emit.inside(second)
        self._masked_block(after, inside, self._varying(following, arguments), mask)
        inside.op("scf.yield", self._carried(following, arguments), [])
        self.code.once.update(zip(kept_out, loop.results, strict=True))

    def _varying(
        self, values: Iterable[ir.Value], targets: Sequence[ir.Value]
    ) -> list[tuple[ir.Value, ir.Value]]:
        """Pair each value with the array of its target, where that is not uniform."""
        pairs = zip(values, targets, strict=True)
        return [(v, self.arrays.of(t)) for v, t in pairs if not self.uniformity.uniform(t)]

    def _carried(self, values: Iterable[ir.Value], targets: Sequence[ir.Value]) -> list[ir.Value]:
        """Return the new values of those whose target is uniform."""
        pairs = zip(values, targets, strict=True)
        return [self.code.uniform(v) for v, t in pairs if self.uniformity.uniform(t)]

    def _uniform_ones(self, values: Iterable[ir.Value]) -> list[ir.Value]:
        return [value for value in values if self.uniformity.uniform(value)]

    def _map_uniform(self, old: Iterable[ir.Value], new: Iterable[ir.Value]) -> None:
        self.code.once.update(zip(self._uniform_ones(old), new, strict=True))

    def _mask_array(self) -> ir.Value | None:
        return self.code.mask.array if self.code.mask is not None else None

    def _agree(self, op: ir.Operation, bits: ir.Value, emit: Emitter, *, inverted: bool = False) -> ir.Value:
        """Build a test that all work-items have the same condition in ``bits``; return that condition.

        With ``inverted`` the barrier is reached where the condition is false.
        """
        extents = self.extents
        if inverted:
            rest = self.arrays.make(ir.IntegerType.get_signless(1))
            masks.others(emit, extents, rest, bits, self._mask_array())
            bits = rest
        elif self.code.mask is not None:
            masks.keep(emit, extents, bits, self.code.mask.array)
        total = masks.count(emit, extents, bits)
        masks.require_all(emit, extents, bits, total, named(op, WORKGROUP_BARRIERS)[0])
        if inverted:
            true = emit.constant(1, ir.IntegerType.get_signless(1))
            return emit.binary("arith.xori", emit.compare(Compare.NE, total, extents.zero), true)
        return emit.compare(Compare.NE, total, extents.zero)

    def _stay(self, bits: ir.Value, mask: Mask, emit: Emitter) -> ir.Value:
        """Remove the work-items that are not in ``bits`` from ``mask``; return whether any are left."""
        extents = self.extents
        masks.keep(emit, extents, bits, mask.array)
        masks.fill(emit, extents, mask.array, bits)
        return emit.compare(Compare.NE, masks.count(emit, extents, bits), extents.zero)

    def _masked_block(
        self,
        block: ir.Block,
        emit: Emitter,
        leaving: list[tuple[ir.Value, ir.Value]],
        mask: Mask | None,
    ) -> None:
        """Build ``block`` for the work-items of ``mask``, at least one; ``leaving`` values go to arrays."""
        outer = self.code.mask
        self.code.mask = self._enter(block, mask, emit)
        rest = self.block(body_operations(block), emit)
        self.flush(rest, emit, terminator(block), leaving)
        self.code.mask = outer

    def _enter(self, block: ir.Block, mask: Mask | None, emit: Emitter) -> Mask | None:
        """Build a test that no work-item in ``block`` waits for one outside; return the mask of the block."""
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

        Values computed from ``argument`` may be computed again behind a bounds check.
        """
        if any(map(self.guards.is_check, operations(body))):
            return False
        order = {op: number for number, op in enumerate(operations(body))}
        owner = defining_op(value)
        if owner not in order or owner in self.collective or len(list(value.uses)) != 1:
            return False
        if self.uniformity.uniform(value) or self.code.recompute.possible(owner) or value in self.arrays:
            return False
        return all(order[ancestor_in(use.owner.operation, body)] <= order[owner] for use in argument.uses)

    # ---- code that runs for each work-item ----

    def flush(
        self,
        ops: Sequence[ir.Operation],
        emit: Emitter,
        consumer: ir.Operation | None = None,
        copies: Sequence[tuple[ir.Value, ir.Value]] = (),
    ) -> None:
        """Build the loop nest that runs ``ops`` and then stores values in arrays.

        ``consumer`` is the op that uses these values, and nothing else from ``ops`` directly.
        """
        mine = {value for op in ops for value in op.results}
        wanted = [(v, array) for v, array in copies if v in mine or not self.arrays.holds(v, array)]
        if not ops and not wanted:
            return
        inside = {inner for op in ops for inner in nested(op)}
        if consumer is not None:
            inside.add(consumer)
        if any(op in self.interchange.loops or op in self.interchange.guards for op in ops):
            mask = self.code.mask
            if mask is None:
                self._chunks(ops, wanted, emit, inside)
                return
            # Chunks are for workgroups whose work-items are all in the mask, as in most.
            taking_part = masks.count(emit, self.extents, mask.array)
            every, emit = map(
                Emitter, if_else(emit, emit.compare(Compare.EQ, taking_part, self.extents.items))
            )
            self.code.mask = None
            self._chunks(ops, wanted, every, inside)
            self.code.mask = mask
        last = self._begin(ops, [value for value, _ in wanted], emit, inside)
        loops = self._loops(last, emit, inside)
        values = [(self.code.value(value, loops, loops.emit), array) for value, array in wanted]
        for value, array in values:
            store(value, array, loops)

    def _chunks(
        self,
        ops: Sequence[ir.Operation],
        wanted: Sequence[tuple[ir.Value, ir.Value]],
        emit: Emitter,
        inside: set[ir.Operation],
    ) -> None:
        """Build ``ops`` in chunks of work-items, for a workgroup in which all take part."""
        self.chunk_arrays.clear()  # their values belong to the segment before
        in_vectors = not inside.isdisjoint(self.interchange.vectors)
        for chunk in open_chunks(emit, self.extents, in_vectors=in_vectors):
            ChunkCode(
                code=self.code,
                interchange=self.interchange,
                chunk_arrays=self.chunk_arrays,
                chunk=chunk,
                inside=inside,
            ).run(ops, wanted)

    def _begin(
        self,
        ops: Sequence[ir.Operation],
        wanted: Sequence[ir.Value],
        emit: Emitter,
        inside: set[ir.Operation],
    ) -> list[ir.Operation]:
        """Build the parts of ``ops`` that get their own loops; return the rest, which computes ``wanted``."""
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
            ops = body_operations(ops[0].regions[0].blocks[0])
        else:
            loops = ItemLoops.open(emit, self.extents)
        if self.code.mask is not None:
            loops.only_if(load(ir.IntegerType.get_signless(1), self.code.mask.array, loops, loops.emit))
        self._body(ops, loops, inside)
        return loops

    def _body(self, ops: Sequence[ir.Operation], loops: ItemLoops, inside: set[ir.Operation]) -> None:
        """Build ``ops`` for the work-item of ``loops``; keep values that are used outside the segment."""
        self.code.set_item(ops, loops)
        for op in ops:
            if op.name in ITEM_IDS:  # of a guard's body; users compute it
                continue
            new = self.code.copy(op, loops, loops.emit)
            for old, value in zip(op.results, new.results, strict=True):
                loops.values[old] = value
                if any(use.owner.operation not in inside for use in old.uses):
                    store(value, self.arrays.of(old), loops)


def _first_collective(op: ir.Operation) -> str:
    """Return the name of the first operation in ``op`` at which work-items wait."""
    first = named(op, COLLECTIVE_OPS)[0]
    return str(first.attributes[WAITS_FOR].value if WAITS_FOR in first.attributes else first.name)


def _first_in(block: ir.Block, names: frozenset[str]) -> ir.Operation:
    return next(inner for op in operations(block) for inner in named(op, names))
