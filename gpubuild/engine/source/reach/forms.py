"""Forms: the nodes of operations with regions, and of calls."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.source.reach import affine, integers, sites
from gpubuild.engine.source.reach.decode import Code
from gpubuild.engine.source.reach.nodes import Computed, Copied, Definition, Known, Region, Step
from gpubuild.engine.source.reach.structured import Execute, Loop, Nest, Pick, While

_MASK = (1 << integers.INDEX_BITS) - 1


def _regions(code: Code, op: ir.Operation) -> tuple[Region | None, ...]:
    return tuple(code.region(region) if len(region.blocks) else None for region in op.regions)


def _copied(code: Code, value: ir.Value) -> Definition:
    return Copied(slot=code.slot(value))


def _if(code: Code, op: ir.Operation) -> Step:
    condition = code.slot(op.operands[0])
    return Pick(
        at=code.frame(op),
        selector=Copied(slot=condition),
        condition=condition,
        cases={1: 0},
        default=1,
        ways=_regions(code, op),
    )


def _affine_if(code: Code, op: ir.Operation) -> Step | None:
    inside = affine.set_of(op.attributes["condition"])
    if inside is None:
        return None
    return Pick(
        at=code.frame(op),
        selector=_mapped(code, list(op.operands), inside),
        condition=-1,
        cases={1: 0},
        default=1,
        ways=_regions(code, op),
    )


def _first_lane(code: Code, op: ir.Operation) -> Step | None:
    if len(op.operands) > 1 or len(op.results):
        return None
    condition = code.slot(op.operands[0])
    return Pick(
        at=code.frame(op),
        selector=Copied(slot=condition),
        condition=condition,
        cases={0: 0},
        default=1,
        ways=(*_regions(code, op), None),
    )


def _index_switch(code: Code, op: ir.Operation) -> Step:
    condition = code.slot(op.operands[0])
    return Pick(
        at=code.frame(op),
        selector=Copied(slot=condition),
        condition=condition,
        cases={int(value) & _MASK: way + 1 for way, value in enumerate(list(op.attributes["cases"]))},
        default=0,
        ways=_regions(code, op),
    )


def _for(code: Code, op: ir.Operation) -> Step:
    lower, upper, step, *initial = list(op.operands)
    return Loop(
        at=code.frame(op),
        bounds=(_copied(code, lower), _copied(code, upper), _copied(code, step)),
        unsigned="unsignedCmp" in op.attributes,
        width=integers.bits(lower.type),
        initial=tuple(code.handed(value) for value in initial),
        body=code.region(op.regions[0]),
    )


def _affine_for(code: Code, op: ir.Operation) -> Step:
    lower, upper, _ = list(op.attributes["operandSegmentSizes"])
    operands = list(op.operands)
    attributes = op.attributes
    return Loop(
        at=code.frame(op),
        bounds=(
            _mapped(code, operands[:lower], affine.bound_of(attributes["lowerBoundMap"], least=False)),
            _mapped(code, operands[lower:][:upper], affine.bound_of(attributes["upperBoundMap"], least=True)),
            Known(value=int(ir.IntegerAttr(attributes["step"]).value)),
        ),
        unsigned=False,
        width=integers.INDEX_BITS,
        initial=tuple(code.handed(value) for value in operands[lower + upper :]),
        body=code.region(op.regions[0]),
    )


def _mapped(code: Code, operands: list[ir.Value], fold: integers.Fold) -> Definition:
    slots = tuple(code.slot(operand) for operand in operands)
    return Computed(number=code.number(), operands=slots, fold=fold, absorbs=None)


def _parallel(code: Code, op: ir.Operation) -> Step:
    depth = next(iter(op.attributes["operandSegmentSizes"]))
    slots = [code.slot(operand) for operand in list(op.operands)[: 3 * depth]]
    return Nest(
        at=code.frame(op),
        bounds=tuple((slots[i], slots[depth + i], slots[2 * depth + i]) for i in range(depth)),
        body=code.region(op.regions[0]),
    )


def _while(code: Code, op: ir.Operation) -> Step:
    before, after = op.regions
    condition = list(list(before.blocks)[-1].operations)[-1].operation
    return While(
        at=code.frame(op),
        initial=tuple(code.handed(operand) for operand in op.operands),
        before=code.region(before),
        after=code.region(after),
        condition=code.slot(condition.operands[0]),
    )


def _execute(code: Code, op: ir.Operation) -> Step:
    body = code.region(op.regions[0])
    return Execute(at=code.frame(op), callee="", arguments=(), body=lambda: body)


def _call(code: Code, op: ir.Operation) -> Step | None:
    callee = sites.callee_of(op)
    function = code.function(callee)
    if function is None:
        return None
    return Execute(
        at=code.frame(op),
        callee=callee,
        arguments=tuple(code.handed(operand) for operand in op.operands),
        body=lambda: code.region(function.regions[0]),
    )


STEPS: dict[str, Callable[[Code, ir.Operation], Step | None]] = {
    "affine.for": _affine_for,
    "affine.if": _affine_if,
    "gpu.warp_execute_on_lane_0": _first_lane,
    "memref.alloca_scope": _execute,
    "scf.execute_region": _execute,
    "scf.for": _for,
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.parallel": _parallel,
    "scf.while": _while,
    **dict.fromkeys(sites.CALLS, _call),
}
