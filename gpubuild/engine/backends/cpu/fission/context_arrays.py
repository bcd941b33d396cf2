"""Context arrays keep values and private arrays of work-items that are needed behind a barrier.

A private array that is used between two barriers only stays one: the work-items of a loop use it one after
the other.
"""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine.backends.cpu.fission.item_loops import ItemLoops
from gpubuild.engine.backends.cpu.fission.uniformity import (
    all_operations,
    ancestor_in,
    collective_ops,
    operations,
)
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError, most_items
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import VIEWS, defining_op, element_bytes, symbol_name
from gpubuild.engine.legalize.workgroup import workgroup_position

_STORED = frozenset({"index", "f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64"})


class ContextArrays:
    """The context arrays of one function: variables of ``count`` elements in its module.

    For MLIR they are workgroup memory. lower/memory finds them by name, and uses memory of each thread.
    """

    def __init__(self, function: ir.Operation, prefix: str, count: int, head: Emitter) -> None:
        self.variables: list[ir.Operation] = []
        self._beside = Emitter(function)
        self._prefix = prefix
        self._count = count
        self._head = head
        self._of: dict[ir.Value, ir.Value] = {}

    def __contains__(self, value: ir.Value) -> bool:
        return value in self._of

    def erase(self) -> None:
        """Erase the variables, which must be unused."""
        for variable in self.variables:
            variable.erase()

    def holds(self, value: ir.Value, array: ir.Value) -> bool:
        """Return whether ``array`` keeps ``value``."""
        return value in self._of and self._of[value] == array

    def get(self, value: ir.Value) -> ir.Value | None:
        """Return the array that keeps one of the kernel's values, if there is one."""
        return self._of.get(value)

    def of(self, value: ir.Value) -> ir.Value:
        """Return the array that keeps one of the kernel's values; make one if there is none."""
        if value not in self._of:
            if isinstance(value.type, ir.MemRefType) and not _outlives_work_item(value):
                raise CannotFissionError(f"a value of type {value.type} is needed after a barrier")
            self._of[value] = self._make(value.type, self._count)
        return self._of[value]

    def share(self, value: ir.Value, other: ir.Value) -> None:
        """Keep ``value`` in the array of ``other``."""
        self._of[value] = self.of(other)

    def make(self, kind: ir.Type, count: int = 0) -> ir.Value:
        """Return a new array of ``count`` values of ``kind``; 0: one for each work-item.

        Raises ``CannotFissionError`` for types that memory cannot hold.
        """
        if isinstance(kind, ir.MemRefType):
            raise CannotFissionError(f"a value of type {kind} is needed after a barrier")
        return self._make(kind, count or self._count)

    def _make(self, kind: ir.Type, count: int) -> ir.Value:
        space = ir.Attribute.parse("#gpu.address_space<workgroup>")
        memory = ir.MemRefType.get([count], _stored(kind), memory_space=space)
        name = f"{self._prefix}.context.{len(self.variables)}"
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "sym_visibility": ir.StringAttr.get("private"),
            "type": ir.TypeAttr.get(memory),
            "initial_value": ir.UnitAttr.get(),
        }
        self.variables.append(self._beside.op("memref.global", [], [], attributes))
        reference = {"name": ir.FlatSymbolRefAttr.get(name)}
        return self._head.op("memref.get_global", [], [memory], reference).results[0]


def store(value: ir.Value, array: ir.Value, loops: ItemLoops, *, at: ir.Value | None = None) -> None:
    """Keep ``value`` of the loops' work-item, in its element of ``array`` or in element ``at``."""
    emit = loops.emit
    if str(value.type) == "i1":
        value = emit.op("arith.extui", [value], [ir.IntegerType.get_signless(8)]).results[0]
    emit.op("memref.store", [value, array, loops.linear if at is None else at], [])


def load(
    kind: ir.Type, array: ir.Value, loops: ItemLoops, emit: Emitter, *, at: ir.Value | None = None
) -> ir.Value:
    """Return the value of type ``kind`` that the loops' work-item keeps in ``array``."""
    index = loops.linear if at is None else at
    value: ir.Value = emit.op("memref.load", [array, index], [_stored(kind)]).results[0]
    if str(kind) == "i1":
        value = emit.op("arith.trunci", [value], [kind]).results[0]
    return value


def can_keep(kind: ir.Type) -> bool:
    """Return whether an array can keep values of ``kind`` unchanged."""
    return str(kind) in _STORED


def _stored(kind: ir.Type) -> ir.Type:
    """Return the element type of an array; a bit is stored as a byte."""
    if str(kind) == "i1":
        return ir.IntegerType.get_signless(8)
    scalar = ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind
    if isinstance(kind, ir.MemRefType) or str(scalar) in _STORED:
        return kind
    raise CannotFissionError(f"a value of type {kind} is needed after a barrier")


def _outlives_work_item(value: ir.Value) -> bool:
    """Return whether a memref is of memory that is not private."""
    op = defining_op(value)
    if op is None:
        return bool(value.owner.owner.operation.name == "gpu.func")
    if op.name == "arith.select":
        return all(map(_outlives_work_item, list(op.operands)[1:]))
    roots = ("memref.get_global", "gpu.dynamic_shared_memory")
    return op.name in roots or (op.name in VIEWS and _outlives_work_item(op.operands[0]))


_ALIGNMENT = 64  # bytes
_MOST_BYTES = 8 << 20  # of a workgroup; more would not fit in any cache


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
    """Replace each private array that is used across a barrier by a context array.

    Raises ``CannotFissionError`` for arrays whose size is not known.
    """
    entry = function.regions[0].blocks[0]
    allocations = [op for op in operations(entry) if op.name == "memref.alloca"]
    if not allocations:
        return
    collective = collective_ops(all_operations(function), function)
    name, count, made = symbol_name(function), most_items(function), 0
    position: ir.Value | None = None
    for op in allocations:
        order = list(operations(entry))
        numbers = {other: number for number, other in enumerate(order)}
        users = sorted({numbers[ancestor_in(use, entry)] for use in _uses(op.results[0])})
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
    """Return the ops that use ``value`` or a view of it."""
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


def _size(op: ir.Operation) -> int:
    """Return the bytes of the array, rounded up."""
    kind = ir.MemRefType(op.results[0].type)
    if not kind.has_static_shape or not isinstance(kind.layout, ir.AffineMapAttr):
        raise CannotFissionError("private memory of unknown size")
    if kind.layout != ir.AffineMapAttr.get(ir.AffineMap.get_identity(kind.rank)):
        raise CannotFissionError("private memory with a layout")
    is_complex = isinstance(kind.element_type, ir.ComplexType)
    size = None if is_complex else element_bytes(kind.element_type)
    if size is None:
        raise CannotFissionError(f"private memory of {kind.element_type}")
    size *= int(prod(kind.shape))
    return max(size + _ALIGNMENT - 1, _ALIGNMENT) // _ALIGNMENT * _ALIGNMENT
