"""Private memory: arrays of a work-item, in code that will be cut at its barriers.

An array that is used between two barriers only stays one: all work-items of a loop use it one after the
other. Any other becomes a context array, like a value that is needed behind a barrier.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.context_arrays import ContextArrays
from gpubuild.engine.backends.cpu.fission.uniformity import collective_ops, nested, operations
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError, most_items
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import VIEWS, element_bytes, symbol_name
from gpubuild.engine.legalize.subgroup_reduce import workgroup_position

_ALIGNMENT = 64  # bytes
_MOST_BYTES = 8 << 20  # of a workgroup: more would not stay in any cache


def allocate_attributions(function: ir.Operation) -> None:
    """Replace the private attributions of a gpu.func by ``memref.alloca``."""
    entry = function.regions[0].blocks[0]
    kind = ir.FunctionType(function.attributes["function_type"].value)
    shared = "workgroup_attributions"
    count = function.attributes[shared].value if shared in function.attributes else 0
    first = len(kind.inputs) + count
    emit = Emitter(entry.operations[0].operation)
    for index in reversed(range(first, len(entry.arguments))):
        argument = entry.arguments[index]
        none = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
        argument.replace_all_uses_with(emit.op("memref.alloca", [], [argument.type], none).results[0])
        entry.erase_argument(index)


def place_private_memory(function: ir.Operation) -> None:
    """Give a context array to each private array that must outlive a barrier.

    Raises ``CannotFissionError`` for arrays whose size is not known.
    """
    entry = function.regions[0].blocks[0]
    if not any(op.name == "memref.alloca" for op in operations(entry)):
        return
    inside = [inner for op in operations(entry) for inner in nested(op)]
    collective = collective_ops(inside, function)
    name, count, made = symbol_name(function), most_items(function), 0
    position: ir.Value | None = None
    for op in list(operations(entry)):
        if op.name != "memref.alloca":
            continue
        order = list(operations(entry))
        places = {other: number for number, other in enumerate(order)}
        users = sorted({places[_ancestor_in(use, entry)] for use in _uses(op.results[0])})
        if not users:
            op.erase()
        elif not any(other in collective for other in order[users[0] : users[-1] + 1]):
            op.move_before(order[users[0]])
        else:
            size = _size(op)
            if count * size > _MOST_BYTES:
                raise CannotFissionError(f"{size} bytes of private memory for each work-item")
            if position is None:
                position = workgroup_position(Emitter(order[0]))
            emit = Emitter(op)
            arrays = ContextArrays(function, f"{name}.private.{made}", count * size, emit)
            made += 1
            memory = arrays.make(ir.IntegerType.get_signless(8))
            _replace(op, memory, emit.binary("arith.muli", position, emit.constant(size)), emit)


def _replace(op: ir.Operation, memory: ir.Value, at: ir.Value, emit: Emitter) -> None:
    kind = ir.MemRefType(op.results[0].type)
    space = ir.MemRefType(memory.type).memory_space
    here = ir.MemRefType.get(kind.shape, kind.element_type, None, space)
    view = emit.op("memref.view", [memory, at], [here]).results[0]
    emit.replace(emit.op("memref.memory_space_cast", [view], [kind]).results[0])


def _uses(value: ir.Value) -> list[ir.Operation]:
    """Return every op that uses ``value`` or a view of it."""
    found = []
    for use in value.uses:
        owner = use.owner.operation
        found.append(owner)
        if owner.name in VIEWS:
            found += _uses(owner.results[0])
        elif owner.name == "scf.yield" or any(
            isinstance(result.type, ir.MemRefType) for result in owner.results
        ):
            raise CannotFissionError(f"private memory in {owner.name}")
    return found


def _ancestor_in(op: ir.Operation, block: ir.Block) -> ir.Operation:
    while op.block != block:
        op = op.parent.operation
    return op


def _size(op: ir.Operation) -> int:
    """Return the bytes of the array, rounded up."""
    kind = ir.MemRefType(op.results[0].type)
    if not kind.has_static_shape or not isinstance(kind.layout, ir.AffineMapAttr):
        raise CannotFissionError("private memory of unknown size")
    if not ir.AffineMapAttr(kind.layout) == ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank)):
        raise CannotFissionError("private memory with a layout")
    is_complex = isinstance(kind.element_type, ir.ComplexType)
    size = None if is_complex else element_bytes(kind.element_type)
    if size is None:
        raise CannotFissionError(f"private memory of {kind.element_type}")
    for extent in kind.shape:
        size *= extent
    return max(size + _ALIGNMENT - 1, _ALIGNMENT) // _ALIGNMENT * _ALIGNMENT
