"""Suspicion: whether who comes to a barrier can depend on which work-item asks.

A look at the conditions around barriers, and at what they are made of. Read for every file with
barriers, so that nothing here takes time to load. Where it is not clear the answer is yes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import ITEM_IDS, is_pure
from gpubuild.engine.source.reach import sites

_ITEMS = ITEM_IDS | {"gpu.subgroup_id"}
_ITEM_REGISTERS = ("nvvm.read.ptx.sreg.tid.", "nvvm.read.ptx.sreg.laneid", "rocdl.workitem.id.")
# Who stands in these comes if the first so many operands say so.
_CONTROLS = {"scf.if": 1, "scf.index_switch": 1, "scf.for": 3, "gpu.warp_execute_on_lane_0": 1}
_WITHOUT = frozenset({"scf.execute_region", "memref.alloca_scope", *sites.CALLS})
_LAST = -1


def depends_on_items(function: ir.Operation, meets: Collection[ir.Operation]) -> bool:
    """Whether some work-items may reach an operation of ``meets`` in ``function``, and others not."""
    if function not in meets:
        return False
    inside = [op for op in _inside(function, meets) if op.name not in _WITHOUT]
    return any(map(_varies, [value for op in inside for value in _deciding(op)]))


def _inside(around: ir.Operation, meets: Collection[ir.Operation]) -> Iterator[ir.Operation]:
    """What of ``meets`` stands in ``around``, however deep, and where blocks branch."""
    work = [around]
    while work:
        for region in work.pop().regions:
            blocks = list(region.blocks)
            for block in blocks:
                for view in block.operations:
                    op = view.operation
                    if op in meets and len(op.regions) and op.name not in sites.NAMES:
                        yield op
                        work.append(op)
                if len(blocks) > 1:
                    yield _end(block)


def _deciding(op: ir.Operation) -> list[ir.Value]:
    operands = list(op.operands)
    if op.name == "scf.while":
        return [_end(list(op.regions[0].blocks)[_LAST]).operands[0]]
    if not len(op.regions):  # the end of a block
        return operands[:1] if len(op.successors) > 1 else []
    return operands[: _CONTROLS.get(op.name, len(operands))]


def _varies(value: ir.Value) -> bool:
    """Whether ``value`` is computed from numbers of a work-item, or may be."""
    seen: set[ir.Value] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        sources = _of_argument(value) if isinstance(value.owner, ir.Block) else _of_result(value)
        if sources is None:
            return True
        work += sources
    return False


def _of_result(value: ir.Value) -> list[ir.Value] | None:
    """What a result is computed from; ``None`` for numbers of a work-item, or where that is not seen."""
    op = value.owner.operation
    if op.name in _ITEMS or op.name.startswith(_ITEM_REGISTERS):
        return None
    if op.name in sites.CALLS or op.name in {"scf.while", "scf.index_switch", "scf.execute_region"}:
        return None
    number = ir.OpResult(value).result_number
    if op.name == "scf.if":
        yields = [_end(region.blocks[0]) for region in op.regions]
        return [op.operands[0], *(end.operands[number] for end in yields)]
    if op.name == "scf.for":
        return [
            *list(op.operands)[:3],
            op.operands[3 + number],
            _end(op.regions[0].blocks[0]).operands[number],
        ]
    # From memory comes nothing that is known of a work-item; of what vendors compute, all may come.
    return list(op.operands) if is_pure(op) or op.name.startswith("llvm.") else []


def _of_argument(value: ir.Value) -> list[ir.Value] | None:
    """The same for an argument of a block."""
    around = value.owner.owner.operation
    number = ir.BlockArgument(value).arg_number
    blocks = [list(region.blocks) for region in around.regions]
    if around.name == "gpu.func" and blocks[0][0] == value.owner:
        return [] if "gpu.kernel" in around.attributes else None
    if around.name == "scf.for":
        if number == 0:
            return [around.operands[0], around.operands[2]]
        return [around.operands[2 + number], _end(blocks[0][0]).operands[number - 1]]
    if around.name == "scf.while" and len(blocks[0]) == len(blocks[1]) == 1:
        if blocks[1][0] == value.owner:
            return [_end(blocks[0][0]).operands[1 + number]]
        return [around.operands[number], _end(blocks[1][0]).operands[number]]
    return None


def _end(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation
