"""Loop counters: loops that count in integers of another type count in ``index`` instead.

Fission rebuilds loops and computes with their counters: it knows those of type ``index`` only.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import nested, terminator
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Emitter

_INDEX_BITS = 64


def count_in_indices(function: ir.Operation) -> None:
    """Rewrite each such ``scf.for`` in ``function``, where a counter stays below the bound of its own type.

    Raises ``CannotFissionError`` for counters that no index holds.
    """
    for op in nested(function):
        if op.name == "scf.for" and not isinstance(op.operands[0].type, ir.IndexType):
            _rewrite(op)


def _rewrite(loop: ir.Operation) -> None:
    kind = loop.operands[0].type
    if kind.width > _INDEX_BITS:
        raise CannotFissionError(f"a loop that counts in {kind}")
    index = ir.IndexType.get()
    widen = "arith.index_castui" if "unsignedCmp" in loop.attributes else "arith.index_cast"
    emit = Emitter(loop)
    bounds = [_index(value, widen, emit) for value in list(loop.operands)[:3]]
    carried = list(loop.operands)[3:]
    attributes = {name: loop.attributes[name] for name in loop.attributes}
    kinds = [value.type for value in carried]
    new = emit.op("scf.for", [*bounds, *carried], kinds, attributes, regions=1)
    body = loop.regions[0].blocks[0]
    counter, *arguments = list(body.arguments)
    block = new.regions[0].blocks.append(index, *kinds, arg_locs=[loop.location] * (1 + len(kinds)))
    inside = emit.inside(block)
    for use in list(counter.uses):  # most are casts, which would be in the way of what is known of places
        user = use.owner.operation
        if user.name == widen and isinstance(user.results[0].type, ir.IndexType):
            Emitter(user).replace(block.arguments[0])
    if any(True for _ in counter.uses):
        narrow = inside.op("arith.index_cast", [block.arguments[0]], [kind]).results[0]
        counter.replace_all_uses_with(narrow)
    end = terminator(body)
    last = inside.op("scf.yield", list(end.operands), [])
    for op in [one.operation for one in body.operations]:
        if op != end:
            op.move_before(last)
    for old, value in zip(arguments, list(block.arguments)[1:], strict=True):
        old.replace_all_uses_with(value)
    for old, value in zip(loop.results, new.results, strict=True):
        old.replace_all_uses_with(value)
    loop.erase()


def _index(value: ir.Value, widen: str, emit: Emitter) -> ir.Value:
    """Convert a bound to an index; a constant stays one."""
    if not isinstance(value.owner, ir.Block) and value.owner.operation.name == "arith.constant":
        number = ir.IntegerAttr(value.owner.operation.attributes["value"]).value
        if widen == "arith.index_castui":
            number %= 1 << value.type.width
        return emit.constant(number)
    return emit.op(widen, [value], [ir.IndexType.get()]).results[0]
