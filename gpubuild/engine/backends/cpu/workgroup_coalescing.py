"""Coalescing: workgroups that lie side by side on x run as one, where no work-item can tell.

A row of a workgroup is a loop of its own, with code in front of it and, where its length is no multiple of
a vector's, behind it; and the next row of memory that it touches lies elsewhere. Of a kernel that asks for
nothing on x but ``gpu.global_id x``, and whose work-items neither meet nor share memory, 16 workgroups of 16
x 16 may as well be one of 256 x 16: the entry (engine.backends.cpu.image) then tells the kernel so.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.loop_interchange import CASTS
from gpubuild.engine.backends.cpu.fission.uniformity import axis_of, is_id, is_pure, nested, operations
from gpubuild.engine.backends.cpu.state import BLOCK_SIZE, COALESCED, CpuLowering, kernel_module
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import defining_op

_MOST_ITEMS = 8192  # of a row: those of a few memrefs stay in the second cache
_KNOWN = "known_block_size"
_IDS = frozenset({"gpu.global_id", "gpu.thread_id", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim"})
# In a kernel with a loop a chunk of 4 rows may be worth more than a longer row. Calls may ask for anything.
_DIALECTS = frozenset({"arith", "math", "memref", "vector", "complex", "index", "ub"})
_OTHERS = frozenset({"gpu.func", "gpu.return", "scf.if", "scf.index_switch", "scf.yield"})
_GLOBALS = "memref.get_global"


def coalesce_workgroups(module: ir.Module, _: CpuLowering) -> None:
    """Mark the kernels of which workgroups may run as one, and change them so that they cannot tell.

    ``block_id x * block_dim x + thread_id x`` becomes ``global_id x``, and the compiler forgets a size of
    workgroups that it knew.
    """
    for kernel in operations(kernel_module(module).regions[0].blocks[0]):
        if kernel.name != "gpu.func" or "gpu.kernel" not in kernel.attributes or not _is_plain(kernel):
            continue
        inside = nested(kernel)
        width = _known_width(kernel)
        sums = {op for op in inside if _is_global_id(op, width)}
        if any(_tells(op) and not _only_for(op, sums) for op in inside):
            continue
        for op in sums:
            emit = Emitter(op)
            place = emit.dimension("global_id", "x")
            kind = op.results[0].type
            if place.type != kind:
                place = emit.op("arith.index_cast", [place], [kind]).results[0]
            emit.replace(place)
        if _KNOWN in kernel.attributes:
            kernel.attributes[BLOCK_SIZE] = kernel.attributes[_KNOWN]
            del kernel.attributes[_KNOWN]
        kernel.attributes[COALESCED] = ir.UnitAttr.get()


def groups_text(width: str) -> str:
    """LLVM IR: ``%groups`` workgroups from ``%b`` on, each ``width`` wide, are the ``%bx``th of ``%wide``.

    They are a power of two that divides the place of the first, so that it has such a number.
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
    """Return whether work-items of different workgroups have the same memory."""
    entry = kernel.regions[0].blocks[0]
    kinds = ir.FunctionType(kernel.attributes["function_type"].value).inputs
    if len(kernel.regions[0].blocks) != 1 or len(entry.arguments) != len(kinds):  # more: attributions
        return False
    return all(
        op.name in _OTHERS
        or op.name in _IDS
        or (op.name.partition(".")[0] in _DIALECTS and op.name != _GLOBALS)
        for op in nested(kernel)
    )


def _tells(op: ir.Operation) -> bool:
    """Whether ``op`` is another number for work-items of other workgroups on x, apart from their place."""
    return op.name in _IDS and op.name != "gpu.global_id" and _is_on_x(op)


def _is_on_x(op: ir.Operation) -> bool:
    return axis_of(op) == "x"


def _only_for(op: ir.Operation, sums: set[ir.Operation]) -> bool:
    """Return whether nothing but ``sums`` needs what ``op`` computes."""
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
    """Whether ``op`` is ``block_id x * block_dim x + thread_id x``; ``width`` may stand for block_dim."""
    if op.name != "arith.addi":
        return False
    for place, before in (op.operands, reversed(list(op.operands))):
        product = defining_op(before)
        thread = _uncast(place)
        if thread is None or thread.name != "gpu.thread_id" or not is_id(thread, "x"):
            continue
        if product is None or product.name != "arith.muli":
            continue
        left, right = product.operands
        if any(_is_start(*pair, width) for pair in ((left, right), (right, left))):
            return True
    return False


def _is_start(block: ir.Value, size: ir.Value, width: int | None) -> bool:
    group, extent = _uncast(block), _uncast(size)
    if group is None or group.name != "gpu.block_id" or not _is_on_x(group) or extent is None:
        return False
    if extent.name == "gpu.block_dim":
        return _is_on_x(extent)
    if extent.name != "arith.constant" or width is None:
        return False
    attribute = extent.attributes["value"]
    return isinstance(attribute, ir.IntegerAttr) and attribute.value == width


def _uncast(value: ir.Value) -> ir.Operation | None:
    """Return what computes ``value``, without casts from ``index``, which do not change how sums wrap."""
    op = defining_op(value)
    if op is not None and op.name in CASTS and isinstance(op.operands[0].type, ir.IndexType):
        return defining_op(op.operands[0])
    return op
