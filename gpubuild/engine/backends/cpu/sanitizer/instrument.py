"""Add checks to the kernels of a gpu.module, for ``sanitize:`` (docs/how-to/checked.md).

Works on the memref and vector dialects, before a tier is chosen. An access whose indices are out of
bounds is reported and skipped: a load gives zero, a store does nothing. Reports are calls of functions
without a body, which lowering turns into services of the runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import WORKGROUP_BARRIERS
from gpubuild.engine.backends.cpu.sanitizer.accesses import Access, access_of, first_address, whole_memory
from gpubuild.engine.backends.cpu.sanitizer.bounds import (
    MATRIX_ACCESSES,
    Extent,
    access_extents,
    both,
    is_checked_view,
    matrix_extents,
    view_extents,
    within,
)
from gpubuild.engine.backends.cpu.sanitizer.masked_lanes import expand_lanes
from gpubuild.engine.backends.cpu.sanitizer.proven_copies import prove_kernels, take_proven
from gpubuild.engine.backends.cpu.sanitizer.races import orders_subgroup
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import locate
from gpubuild.engine.ir.query import element_bytes, following, matching, operations, symbol_name
from gpubuild.engine.legalize.memory_ops import expand_copy
from gpubuild.errors import Diagnostic, StepError
from gpubuild.targets.target import Sanitize

# Ops that masked_lanes may leave; which elements they write is not determined.
_UNKNOWN_STORES = frozenset({"vector.maskedstore", "vector.scatter", "vector.compressstore"})


def check_early(module: ir.Module, lowering: CpuLowering) -> None:
    """Check what later passes hide, and refuse what cannot be checked.

    Each ``memref.copy`` becomes loads and stores, before narrow elements are rewritten. Matrices are checked
    before they are divided among lanes. Raises ``StepError`` for kernels in the LLVM dialect, which have no
    memrefs.
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
        _declare_reports(kernels.regions[0].blocks[0])


def expand_masked_lanes(module: ir.Module, lowering: CpuLowering) -> None:
    """Split masked accesses into one access for each lane, so that each can be checked."""
    if Sanitize.BOUNDS in lowering.sanitize or lowering.checks_accesses:
        expand_lanes(kernel_module(module))


def prove_accesses(module: ir.Module, lowering: CpuLowering) -> None:
    """Mark accesses that need no check; proofs that depend on the launch make a second copy of a kernel."""
    prove_kernels(kernel_module(module), lowering.sanitize)


def insert_checks(module: ir.Module, lowering: CpuLowering) -> None:
    """Add checks to all functions of the gpu.module."""
    kernels = kernel_module(module)
    for op in matching(kernels, lambda op: op != kernels):
        if op.name in WORKGROUP_BARRIERS or orders_subgroup(op):
            if Sanitize.RACE in lowering.sanitize - take_proven(op):
                is_barrier = op.name in WORKGROUP_BARRIERS
                _call(_after(op), image_layout.CHECK_MEET if is_barrier else image_layout.CHECK_WAIT)
        elif Sanitize.BOUNDS in lowering.sanitize and is_checked_view(op):
            emit = _after(op)
            _check_extents(emit, view_extents(op, emit), lowering.access_site(op))
        elif (access := access_of(op)) is not None:
            _check_access(op, access, lowering)
        elif op.name in _UNKNOWN_STORES:
            _record_unknown(op, op.operands[0], lowering)
    _declare_reports(kernels.regions[0].blocks[0])


def keep_barriers_apart(module: ir.Module, lowering: CpuLowering) -> None:
    """Replace each barrier that is left after fission by a report with the number of its location.

    Upstream's passes may merge the barriers of two branches, which would hide an error.
    """
    for op in operations(kernel_module(module), {"gpu.barrier"}):
        if not len(op.operands):
            emit = Emitter(op)
            _call(emit, image_layout.CHECK_BARRIER, _number(emit, lowering.access_site(op)))
            op.erase()


def _declare_reports(body: ir.Block) -> None:
    """Declare the functions of reports in the block of a gpu.module, unless they are declared."""
    i32, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
    extent = [i32, i32, index, index, index, index]
    kinds = {
        image_layout.CHECK_BOUNDS: (extent, []),
        image_layout.CHECK_VIEW: (extent, []),
        image_layout.CHECK_ACCESS: ([i32, i32, index, index], []),
        image_layout.CHECK_MEET: ([], []),
        image_layout.CHECK_WAIT: ([], []),
        image_layout.CHECK_BARRIER: ([i32], []),
        image_layout.CHECK_DYNAMIC_BYTES: ([], [index]),
    }
    known = {symbol_name(op.operation) for op in body.operations}
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


def _refuse_lowered(module: ir.Operation, lowering: CpuLowering) -> None:
    for op in module.regions[0].blocks[0]:
        inner = op.operation
        if inner.name == "llvm.func" and inner.regions[0].blocks:
            location, line = locate(inner.location, lowering.source)
            raise StepError(
                f"`sanitize:` cannot check @{symbol_name(inner)}, which is in the LLVM dialect",
                diagnostics=[
                    Diagnostic(message="no memrefs to check here", location=location, source_line=line)
                ],
                hint="checks need the gpu, memref and vector dialects; leave the checked target out for this "
                "module (`modules:` in targets.yaml)",
            )


def _call(emit: Emitter, function: str, *operands: ir.Value) -> None:
    emit.op("func.call", operands, [], {"callee": ir.FlatSymbolRefAttr.get(function)})


def _number(emit: Emitter, value: int) -> ir.Value:
    return emit.constant(value, ir.IntegerType.get_signless(32))


def _after(op: ir.Operation) -> Emitter:
    """Return an emitter behind ``op``, which is no terminator, with its location."""
    return Emitter(following(op), location=op.location)


def _check_extents(emit: Emitter, extents: Sequence[Extent], site: int) -> None:
    """Report a view out of bounds. It cannot be made safe: accesses are checked by its own sizes."""
    inside = both(emit, [within(emit, extent) for extent in extents])
    if inside is None:
        return
    yes = emit.constant(1, ir.IntegerType.get_signless(1))
    outside = emit.binary("arith.xori", inside, yes)
    branch = emit.op("scf.if", [outside], [], regions=2)
    report = emit.inside(branch.regions[0].blocks.append())
    _report(report, extents, site, image_layout.CHECK_VIEW)
    report.op("scf.yield", [], [])


def _report(emit: Emitter, extents: Sequence[Extent], site: int, function: str) -> None:
    """Report every dimension to the runtime, which determines the wrong ones."""
    for extent in extents:
        count, step = (
            emit.constant(part) if isinstance(part, int) else part for part in (extent.count, extent.step)
        )
        numbers = [_number(emit, site), _number(emit, extent.dimension)]
        _call(emit, function, *numbers, extent.first, count, step, extent.size)


def _check_access(op: ir.Operation, access: Access, lowering: CpuLowering) -> None:
    site = lowering.access_site(op)
    emit = Emitter(op)
    wanted = lowering.sanitize - take_proven(op)
    extents = access_extents(access, emit) if Sanitize.BOUNDS in wanted else []
    inside = both(emit, [within(emit, extent) for extent in extents])
    if inside is not None:
        kinds = [result.type for result in op.results]
        branch = emit.op("scf.if", [inside], kinds, regions=2)
        for old, new in zip(op.results, branch.results, strict=True):
            old.replace_all_uses_with(new)
        good, bad = (region.blocks.append() for region in branch.regions)
        op.move_before(emit.inside(good).op("scf.yield", list(op.results), []))
        other = emit.inside(bad)
        _report(other, extents, site, image_layout.CHECK_BOUNDS)
        other.op("scf.yield", [_zero(other, kind) for kind in kinds], [])
    _record(op, access, lowering, site, wanted)


def _zero(emit: Emitter, kind: ir.Type) -> ir.Value:
    """Return the value of a load that is skipped."""
    element = ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind
    if isinstance(element, ir.ComplexType):
        part = ir.FloatAttr.get(ir.ComplexType(element).element_type, 0.0)
        value = {"value": ir.ArrayAttr.get([part, part])}
        return emit.op("complex.constant", [], [kind], value).results[0]
    if isinstance(element, ir.FloatType):
        zero: ir.Attribute = ir.FloatAttr.get(element, 0.0)
    elif isinstance(element, ir.IntegerType | ir.IndexType):
        zero = ir.IntegerAttr.get(element, 0)
    else:
        return emit.op("ub.poison", [], [kind], {"value": ir.Attribute.parse("#ub.poison")}).results[0]
    if isinstance(kind, ir.VectorType):
        zero = ir.DenseElementsAttr.get_splat(kind, zero)
    return emit.op("arith.constant", [], [kind], {"value": zero}).results[0]


def _record(
    op: ir.Operation, access: Access, lowering: CpuLowering, site: int, wanted: frozenset[Sanitize]
) -> None:
    """Report the access to the runtime in front of it, unless other work-items cannot see the memory."""
    # Memory outside of the workgroup may have been written before, and workgroup memory is the device's.
    other = Sanitize.UNINITIALIZED if access.in_workgroup_memory else Sanitize.HOST_MEMORY
    if not wanted & {Sanitize.RACE, other} or access.private:
        return
    if access.masked:
        if access.mode != image_layout.CHECK_READ:
            _record_unknown(op, access.memory, lowering)
        return
    bytes_each = element_bytes(ir.MemRefType(access.memory.type).element_type)
    if bytes_each is None:
        return
    mode = access.mode
    mode |= 0 if Sanitize.RACE in wanted else image_layout.CHECK_NO_RACE
    mode |= 0 if Sanitize.UNINITIALIZED in wanted else image_layout.CHECK_INITIALIZED
    emit = Emitter(op)
    address = first_address(emit, access, bytes_each)
    bytes_ = emit.binary("arith.muli", access.accessed_count(emit), emit.constant(bytes_each))
    _call(emit, image_layout.CHECK_ACCESS, _number(emit, site), _number(emit, mode), address, bytes_)


def _record_unknown(op: ir.Operation, memory: ir.Value, lowering: CpuLowering) -> None:
    """Report that any part of ``memory`` may be written: then all of it counts as initialised."""
    if Sanitize.UNINITIALIZED not in lowering.sanitize or not isinstance(memory.type, ir.MemRefType):
        return
    bytes_each = element_bytes(ir.MemRefType(memory.type).element_type)
    if bytes_each is None:
        return
    emit = Emitter(op)
    numbers = [_number(emit, n) for n in (lowering.access_site(op), image_layout.CHECK_UNKNOWN)]
    _call(emit, image_layout.CHECK_ACCESS, *numbers, *whole_memory(emit, memory, bytes_each))
