"""Add checks to the kernels of a gpu.module, for ``sanitize:`` (docs/checked.md).

Works on the memref and vector dialects, before a tier is chosen. An access whose indices are out of
bounds is reported and skipped: a load gives zero, a store does nothing. Reports are calls of functions
without a body; ``reports`` turns them into services of the runtime.

Calls by which checked code reports to the runtime.

They are of functions without a body, until lowering turns them into services of the runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.sanitizer.accesses import (
    Access,
    View,
    access_of,
    first_address,
    view_of,
    whole_memory,
)
from gpubuild.engine.backends.cpu.sanitizer.bounds import (
    MATRIX_ACCESSES,
    Extent,
    access_extents,
    both,
    matrix_extents,
    view_extents,
    within,
)
from gpubuild.engine.backends.cpu.sanitizer.masked_lanes import expand_lanes
from gpubuild.engine.backends.cpu.sanitizer.proven_copies import prove_kernels, proven_for, without_records
from gpubuild.engine.backends.cpu.sanitizer.races import COLLECTIVES, orders_subgroup
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import locate
from gpubuild.engine.ir.query import element_bytes, matching, operations
from gpubuild.engine.legalize.memory_ops import expand_copy
from gpubuild.errors import Diagnostic, StepError
from gpubuild.targets.target import Sanitize

BOUNDS = image_layout.CHECK_BOUNDS
VIEW = image_layout.CHECK_VIEW
ACCESS = image_layout.CHECK_ACCESS
MEET = image_layout.CHECK_MEET
WAIT = image_layout.CHECK_WAIT
BARRIER = image_layout.CHECK_BARRIER
DYNAMIC_BYTES = image_layout.CHECK_DYNAMIC_BYTES


def callee(function: str) -> dict[str, ir.Attribute]:
    """Attributes of a ``func.call`` of ``function``."""
    return {"callee": ir.FlatSymbolRefAttr.get(function)}


def declare(body: ir.Block) -> None:
    """Declare all of them in the block of a gpu.module, where they are not yet."""
    i32, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
    extent = [i32, i32, index, index, index, index]
    kinds = {
        BOUNDS: (extent, []),
        VIEW: (extent, []),
        ACCESS: ([i32, i32, index, index], []),
        MEET: ([], []),
        WAIT: ([], []),
        BARRIER: ([i32], []),
        DYNAMIC_BYTES: ([], [index]),
    }
    known = {op.attributes["sym_name"].value for op in body.operations if "sym_name" in op.attributes}
    for name, (inputs, results) in kinds.items():
        if name in known:
            continue
        ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
            },
            loc=ir.Location.unknown(),
            ip=ir.InsertionPoint.at_block_begin(body),
        )


# Which elements these write is not looked at, where masked_lanes has left any.
_UNKNOWN_STORES = frozenset({"vector.maskedstore", "vector.scatter", "vector.compressstore"})
_FOREIGN_FUNCTIONS = frozenset({"llvm.func"})


def check_early(module: ir.Module, lowering: CpuLowering) -> None:
    """Check what would not be known any more later, and refuse what cannot be checked.

    Each ``memref.copy`` becomes loads and stores, before narrow elements are rewritten. Matrices are checked
    before lanes have their parts of them. Raises ``StepError`` for kernels in the LLVM dialect, in which
    there are no memrefs to look at.
    """
    kernels = kernel_module(module)
    _refuse_lowered(kernels, lowering)
    for copy in operations(kernels, {"memref.copy"}):
        expand_copy(copy, plain_too=True)
    matrices = operations(kernels, MATRIX_ACCESSES) if Sanitize.BOUNDS in lowering.sanitize else []
    for op in matrices:
        emit = Emitter(op)
        _check_extents(emit, matrix_extents(op, emit), lowering.access_site(op))
    if matrices:
        declare(kernels.regions[0].blocks[0])


def expand_masked_lanes(module: ir.Module, lowering: CpuLowering) -> None:
    """Make an access of each lane of masked accesses, so that each can be checked."""
    if Sanitize.BOUNDS in lowering.sanitize or lowering.checks_accesses:
        expand_lanes(kernel_module(module))


def prove_accesses(module: ir.Module, lowering: CpuLowering) -> None:
    """Mark accesses that need no check; proofs that depend on the launch make a second copy of a kernel."""
    prove_kernels(kernel_module(module), lowering.sanitize)


def insert_checks(module: ir.Module, lowering: CpuLowering) -> None:
    """Add checks to all functions of the gpu.module."""
    kernels = kernel_module(module)
    silent = without_records(kernels) if Sanitize.RACE in lowering.sanitize else set()
    for op in matching(kernels, lambda op: op != kernels):
        if op.name in COLLECTIVES or orders_subgroup(op):
            if Sanitize.RACE in lowering.sanitize and op not in silent:
                order = MEET if op.name in COLLECTIVES else WAIT
                _after(op).op("func.call", [], [], callee(order))
        elif (view := view_of(op)) is not None and Sanitize.BOUNDS in lowering.sanitize:
            _check_view(view, lowering)
        elif (access := access_of(op)) is not None:
            _check_access(op, access, lowering)
        elif op.name in _UNKNOWN_STORES:
            _record_unknown(op, op.operands[0], lowering)
    declare(kernels.regions[0].blocks[0])


def keep_barriers_apart(module: ir.Module, lowering: CpuLowering) -> None:
    """Number the place of each barrier that is left after fission, where it is checked.

    Upstream's passes may merge the barriers of two branches, which would hide an error.
    """
    for op in operations(kernel_module(module), {"gpu.barrier"}):
        if not len(op.operands):
            emit = Emitter(op)
            site = emit.constant(lowering.access_site(op), ir.IntegerType.get_signless(32))
            emit.op("func.call", [site], [], callee(BARRIER))
            op.erase()


def _refuse_lowered(module: ir.Operation, lowering: CpuLowering) -> None:
    for op in module.regions[0].blocks[0]:
        inner = op.operation
        if inner.name in _FOREIGN_FUNCTIONS and inner.regions[0].blocks:
            location, line = locate(inner.location, lowering.source)
            name = inner.attributes["sym_name"].value
            raise StepError(
                f"`sanitize:` cannot check @{name}, which is in the LLVM dialect",
                diagnostics=[
                    Diagnostic(message="no memrefs to check here", location=location, source_line=line)
                ],
                hint="checks need the gpu, memref and vector dialects; leave the checked target out for this "
                "module (`modules:` in targets.yaml)",
            )


def _after(op: ir.Operation) -> Emitter:
    """An emitter behind ``op``, which is no terminator, with its location."""
    block = op.operation.block
    operations = list(block.operations)
    following = operations[[o.operation for o in operations].index(op) + 1].operation
    return Emitter(following, location=op.location)


def _check_view(view: View, lowering: CpuLowering) -> None:
    emit = _after(view.op)
    _check_extents(emit, view_extents(view, emit), lowering.access_site(view.op))


def _check_extents(emit: Emitter, extents: Sequence[Extent], site: int) -> None:
    """A view that leaves its source cannot be made safe: its sizes are what accesses are checked by."""
    inside = both(emit, [within(emit, extent) for extent in extents])
    if inside is None:
        return
    true = ir.IntegerAttr.get(ir.IntegerType.get_signless(1), 1)
    yes = emit.op("arith.constant", [], [inside.type], {"value": true}).results[0]
    outside = emit.binary("arith.xori", inside, yes)
    branch = emit.op("scf.if", [outside], [], regions=2)
    block = branch.regions[0].blocks.append()
    _report(emit.inside(block), extents, site, VIEW)
    emit.inside(block).op("scf.yield", [], [])


def _report(emit: Emitter, extents: Sequence[Extent], site: int, function: str) -> None:
    """Report every dimension to the runtime, which finds out those that are wrong."""
    i32 = ir.IntegerType.get_signless(32)
    for extent in extents:
        numbers = [emit.constant(site, i32), emit.constant(extent.dimension, i32)]
        count = extent.count if isinstance(extent.count, ir.Value) else emit.constant(extent.count)
        step = extent.step if isinstance(extent.step, ir.Value) else emit.constant(extent.step)
        operands = [*numbers, extent.first, count, step, extent.size]
        emit.op("func.call", operands, [], callee(function))


def _check_access(op: ir.Operation, access: Access, lowering: CpuLowering) -> None:
    site = lowering.access_site(op)
    proven = proven_for(op)
    emit = Emitter(op)
    extents = (
        access_extents(access, emit)
        if Sanitize.BOUNDS in lowering.sanitize and Sanitize.BOUNDS not in proven
        else []
    )
    inside = both(emit, [within(emit, extent) for extent in extents])
    if inside is None:
        _record(op, access, lowering, site, proven)
        return
    kinds = [result.type for result in op.results]
    branch = emit.op("scf.if", [inside], kinds, regions=2)
    for old, new in zip(op.results, branch.results, strict=True):
        old.replace_all_uses_with(new)
    good, bad = (region.blocks.append() for region in branch.regions)
    end = emit.inside(good).op("scf.yield", list(op.results), [])
    op.move_before(end)
    other = emit.inside(bad)
    _report(other, extents, site, BOUNDS)
    other.op("scf.yield", [_nothing(other, kind) for kind in kinds], [])
    _record(op, access, lowering, site, proven)


def _nothing(emit: Emitter, kind: ir.Type) -> ir.Value:
    """The value of a load that is skipped: zero."""
    element = ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind
    if isinstance(element, ir.FloatType):
        zero: ir.Attribute = ir.FloatAttr.get(element, 0.0)
    elif isinstance(element, ir.IntegerType | ir.IndexType):
        zero = ir.IntegerAttr.get(element, 0)
    elif isinstance(element, ir.ComplexType):
        part = ir.FloatAttr.get(ir.ComplexType(element).element_type, 0.0)
        value = {"value": ir.ArrayAttr.get([part, part])}
        return emit.op("complex.constant", [], [kind], value).results[0]
    else:
        return emit.op("ub.poison", [], [kind], {"value": ir.Attribute.parse("#ub.poison")}).results[0]
    if isinstance(kind, ir.VectorType):
        zero = ir.DenseElementsAttr.get_splat(kind, zero)
    return emit.op("arith.constant", [], [kind], {"value": zero}).results[0]


def _record(
    op: ir.Operation, access: Access, lowering: CpuLowering, site: int, proven: set[Sanitize]
) -> None:
    """Report the access to the runtime in front of it, unless other work-items cannot see the memory."""
    wanted = lowering.sanitize & {Sanitize.RACE, Sanitize.UNINITIALIZED} - proven
    if not wanted or access.private:
        return
    if Sanitize.RACE not in wanted and not access.in_workgroup_memory:
        return  # other memory may have been written before
    if access.masked:
        if access.mode != image_layout.CHECK_READ:
            _record_unknown(op, access.memory, lowering)
        return
    bytes_each = element_bytes(ir.MemRefType(access.memory.type).element_type)
    if bytes_each is None:
        return
    emit = Emitter(op)
    i32 = ir.IntegerType.get_signless(32)
    address = first_address(emit, access, bytes_each)
    count = access.contiguous(emit)
    operands = [
        emit.constant(site, i32),
        emit.constant(access.mode | _only_for(wanted), i32),
        address,
        emit.binary("arith.muli", count, emit.constant(bytes_each)),
    ]
    emit.op("func.call", operands, [], callee(ACCESS))


def _only_for(wanted: frozenset[Sanitize]) -> int:
    """Flags of the mode of an access that is not to be looked at for everything."""
    flags = 0 if Sanitize.RACE in wanted else image_layout.CHECK_NO_RACE
    return flags if Sanitize.UNINITIALIZED in wanted else flags | image_layout.CHECK_INITIALIZED


def _record_unknown(op: ir.Operation, memory: ir.Value, lowering: CpuLowering) -> None:
    """Report that any part of ``memory`` may be written: then nothing of it counts as uninitialised."""
    if Sanitize.UNINITIALIZED not in lowering.sanitize or not isinstance(memory.type, ir.MemRefType):
        return
    bytes_each = element_bytes(ir.MemRefType(memory.type).element_type)
    if bytes_each is None:
        return
    emit = Emitter(op)
    i32 = ir.IntegerType.get_signless(32)
    address, bytes_ = whole_memory(emit, memory, bytes_each)
    numbers = [emit.constant(lowering.access_site(op), i32), emit.constant(image_layout.CHECK_UNKNOWN, i32)]
    emit.op("func.call", [*numbers, address, bytes_], [], callee(ACCESS))
