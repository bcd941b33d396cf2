"""Run workgroups side by side on x as one, where no work-item can notice it.

A row of a workgroup is a loop with code before and behind it for the rest of a vector, and the next row is
elsewhere in memory. If a kernel reads nothing on x but ``gpu.global_id x``, and its work-items neither wait
nor share memory, 16 workgroups of 16 x 16 give the same results as one of 256 x 16. The entry
(engine.backends.cpu.image) then passes that size to the kernel.
"""

from __future__ import annotations

from itertools import permutations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS
from gpubuild.engine.backends.cpu.fission.uniformity import axis_of, is_pure, nested
from gpubuild.engine.backends.cpu.state import BLOCK_SIZE, COALESCED, CpuLowering, gpu_kernels
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import constant_integer, defining_op

_MOST_ITEMS = 8192  # of a row: their elements of a few memrefs stay in the second cache
_KNOWN = "known_block_size"
_IDS = frozenset({"gpu.global_id", "gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim"})
# In a kernel with a loop a chunk of 4 rows may be faster than a longer row. A callee may read any id.
_DIALECTS = frozenset({"arith", "math", "memref", "vector", "complex", "index", "ub"})
_OTHERS = frozenset({"gpu.func", "gpu.return", "scf.if", "scf.index_switch", "scf.yield"})


def coalesce_workgroups(module: ir.Module, _: CpuLowering) -> None:
    """Mark the kernels whose workgroups may run as one.

    In them ``block_id x * block_dim x + thread_id x`` becomes ``global_id x``, and a known size of workgroups
    becomes one that only the runtime checks.
    """
    for kernel in gpu_kernels(module):
        if not _is_plain(kernel):
            continue
        inside = nested(kernel)
        width = _known_width(kernel)
        sums = {op for op in inside if _is_global_id(op, width)}
        if any(_depends_on_workgroup(op) and not _only_for(op, sums) for op in inside):
            continue
        for op in sums:
            emit = Emitter(op)
            position = emit.dimension("global_id", "x")
            kind = op.results[0].type
            if position.type != kind:
                position = emit.op("arith.index_cast", [position], [kind]).results[0]
            emit.replace(position)
        if _KNOWN in kernel.attributes:
            kernel.attributes[BLOCK_SIZE] = kernel.attributes[_KNOWN]
            del kernel.attributes[_KNOWN]
        kernel.attributes[COALESCED] = ir.UnitAttr.get()


def groups_text(width: str) -> str:
    """Return LLVM IR that joins ``%groups`` workgroups from ``%b`` on to the ``%bx``th of width ``%wide``.

    ``width`` is that of one. ``%groups`` is a power of two that divides the position of the first.
    """
    return f"""  %group = trunc i64 %bx64 to i32
  %room = udiv i32 {_MOST_ITEMS}, {width}
  %room64 = zext i32 %room to i64
  %row.left = sub i64 %gx64, %bx64
  %left = sub i64 %last, %b
  %fits.row = call i64 @llvm.umin.i64(i64 %row.left, i64 %left)
  %fits64 = call i64 @llvm.umin.i64(i64 %fits.row, i64 %room64)
  %fits = trunc i64 %fits64 to i32
  %fits.zeros = call i32 @llvm.ctlz.i32(i32 %fits, i1 true)
  %fits.log = sub i32 31, %fits.zeros
  %place.log = call i32 @llvm.cttz.i32(i32 %group, i1 false)
  %log = call i32 @llvm.umin.i32(i32 %fits.log, i32 %place.log)
  %log64 = zext i32 %log to i64
  %groups = shl i64 1, %log64
  %wide = shl i32 {width}, %log
  %bx = lshr i32 %group, %log
"""


def _is_plain(kernel: ir.Operation) -> bool:
    """Return whether the kernel has no workgroup memory, loops, calls or barriers."""
    entry = kernel.regions[0].blocks[0]
    kinds = ir.FunctionType(kernel.attributes["function_type"].value).inputs
    if len(kernel.regions[0].blocks) != 1 or len(entry.arguments) != len(kinds):  # more: attributions
        return False
    names = {op.name for op in nested(kernel)} - _OTHERS - _IDS
    return all(name.partition(".")[0] in _DIALECTS and name != "memref.get_global" for name in names)


def _depends_on_workgroup(op: ir.Operation) -> bool:
    """Return whether ``op`` is an id or a size on x that differs when workgroups are joined."""
    return op.name in _IDS and op.name != "gpu.global_id" and axis_of(op) == "x"


def _only_for(op: ir.Operation, sums: set[ir.Operation]) -> bool:
    """Return whether only ``sums`` use the result of ``op``."""
    pending, seen = [op], set()
    while pending:
        op = pending.pop()
        if op in sums or op in seen:
            continue
        seen.add(op)
        if not (is_pure(op) or op.name in _IDS):
            return False
        pending.extend(use.owner.operation for result in op.results for use in result.uses)
    return True


def _known_width(kernel: ir.Operation) -> int | None:
    if _KNOWN not in kernel.attributes:
        return None
    return int(ir.DenseI32ArrayAttr(kernel.attributes[_KNOWN])[0])


def _is_global_id(op: ir.Operation, width: int | None) -> bool:
    """Return whether ``op`` is ``block_id x * block_dim x + thread_id x``; block_dim may be ``width``."""
    if op.name != "arith.addi":
        return False
    for thread, before in permutations(op.operands):
        product = defining_op(before)
        if _reads_x(thread, "gpu.thread_id") and product is not None and product.name == "arith.muli":
            return any(
                _reads_x(group, "gpu.block_id")
                and (_reads_x(size, "gpu.block_dim") or (width is not None and _constant(size) == width))
                for group, size in permutations(product.operands)
            )
    return False


def _reads_x(value: ir.Value, name: str) -> bool:
    op = _uncast(value)
    return op is not None and op.name == name and axis_of(op) == "x"


def _constant(value: ir.Value) -> int | None:
    op = _uncast(value)
    return None if op is None else constant_integer(op.results[0])


def _uncast(value: ir.Value) -> ir.Operation | None:
    """Return the op that computes ``value``, before a cast from ``index``; sums wrap equally after it."""
    op = defining_op(value)
    if op is not None and op.name in CASTS and isinstance(op.operands[0].type, ir.IndexType):
        return defining_op(op.operands[0])
    return op
