"""Split masked and indexed vector operations into loops over their lanes.

``vector.gather`` and ``scatter``, masked loads, stores and transfers, ``expandload`` and ``compressstore``
become loops over their lanes: active lanes are checked like scalar accesses, the others access nothing.
Lanes run in order, as the dialect defines it for lanes that store to the same element.
"""

from __future__ import annotations

from math import prod

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import nested
from gpubuild.engine.backends.cpu.sanitizer.accesses import dimension, is_in_bounds
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.support.frozen import frozen

_BYTE_BITS = 8
_GATHERS = frozenset({"vector.gather", "vector.scatter"})
_PACKED = frozenset({"vector.expandload", "vector.compressstore"})
_MASKED = _GATHERS | _PACKED | {"vector.maskedload", "vector.maskedstore"}
_TRANSFERS = frozenset({"vector.transfer_read", "vector.transfer_write"})


@frozen
class _Lanes:
    """One op: lane ``k`` accesses ``memory`` at ``indices``, moved along the last dimension.

    It is moved by its element of ``moves``, if any; else by the number of lanes before it, of which a
    ``packed`` op counts the active ones. ``vector`` is stored, or the result of inactive lanes of a load.
    Lanes of a ``partial`` op beyond the end are not active.
    """

    memory: ir.Value
    indices: list[ir.Value]
    mask: ir.Value
    vector: ir.Value
    loads: bool
    moves: ir.Value | None = None
    packed: bool = False
    partial: bool = False


def expand_lanes(module: ir.Operation) -> None:
    """Expand all such ops in the gpu.module ``module`` that have a known number of lanes.

    Left are vectors of scalable length, and vectors of several dimensions in ops of one, which no CPU
    target compiles.
    """
    for op in nested(module):
        if op.name not in _MASKED | _TRANSFERS or op.parent.name == "vector.mask":
            continue
        lanes = _read(op) if op.name in _MASKED else _read_transfer(op)
        if lanes is None or not isinstance(lanes.memory.type, ir.MemRefType):
            continue
        vector = ir.VectorType(lanes.vector.type)
        if lanes.indices and not vector.scalable and (vector.rank == 1 or lanes.moves is not None):
            _expand(op, lanes)


def _read(op: ir.Operation) -> _Lanes:
    memory, *indices, mask, vector = list(op.operands)
    return _Lanes(
        memory=memory,
        moves=indices.pop() if op.name in _GATHERS else None,
        indices=indices,
        mask=mask,
        vector=vector,
        loads=bool(len(op.results)),
        packed=op.name in _PACKED,
    )


def _read_transfer(op: ir.Operation) -> _Lanes | None:
    """Return the lanes of a transfer along the last dimension; convert-vector-to-scf has left no others."""
    loads = op.name == "vector.transfer_read"
    operands = list(op.operands)
    if not list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))[-1]:
        return None
    vector, memory = (operands[-2], operands[0]) if loads else (operands[0], operands[1])
    kind = op.results[0].type if loads else vector.type
    if not isinstance(memory.type, ir.MemRefType) or ir.VectorType(kind).rank != 1:
        return None
    shaped = ir.MemRefType(memory.type)
    if not shaped.rank or isinstance(shaped.element_type, ir.VectorType):
        return None
    along_the_last = ir.AffineMapAttr.get(ir.AffineMap.get_minor_identity(shaped.rank, 1))
    if op.attributes["permutation_map"] != along_the_last:
        return None
    if loads:
        vector = Emitter(op).op("vector.broadcast", [vector], [kind]).results[0]
    return _Lanes(
        memory=memory,
        indices=operands[1:-2] if loads else operands[2:-1],
        mask=operands[-1],
        vector=vector,
        loads=loads,
        partial=not is_in_bounds(op),
    )


def _expand(op: ir.Operation, lanes: _Lanes) -> None:
    emit = Emitter(op)
    count = prod(ir.VectorType(lanes.vector.type).shape)
    mask, vector = _flattened(emit, lanes.mask, count), _flattened(emit, lanes.vector, count)
    moves = lanes.moves and _flattened(emit, lanes.moves, count)
    zero, one = emit.constant(0), emit.constant(1)
    # Loop-carried: the number of active lanes, and the loaded elements.
    carried = ([zero] if lanes.packed else []) + ([vector] if lanes.loads else [])
    kinds = [value.type for value in carried]
    loop = emit.op("scf.for", [zero, emit.constant(count), one, *carried], kinds, regions=1)
    body = loop.regions[0].blocks.append(ir.IndexType.get(), *kinds)
    iteration = emit.inside(body)
    lane, before, loaded = body.arguments[0], body.arguments[1 if lanes.packed else 0], body.arguments[-1]
    active = _element(iteration, mask, lane)
    *outer, first = lanes.indices
    move = before if moves is None else _as_index(iteration, _element(iteration, moves, lane))
    indices = [*outer, iteration.binary("arith.addi", first, move)]
    if lanes.partial:
        size = dimension(iteration, lanes.memory, len(indices) - 1)
        active = iteration.binary("arith.andi", active, iteration.compare(Compare.ULT, indices[-1], size))
    following = []
    if lanes.packed:
        following.append(iteration.select(active, iteration.binary("arith.addi", before, one), before))
    results = [loaded.type] if lanes.loads else []
    branch = iteration.op("scf.if", [active], results, regions=2)
    access = iteration.inside(branch.regions[0].blocks.append())
    if lanes.loads:
        element = _load(access, lanes.memory, indices)
        access.op("scf.yield", [_with_element(access, loaded, element, lane)], [])
        iteration.inside(branch.regions[1].blocks.append()).op("scf.yield", [loaded], [])
    else:
        _store(access, _element(access, vector, lane), lanes.memory, indices)
        access.op("scf.yield", [], [])
    iteration.op("scf.yield", [*following, *branch.results], [])
    if lanes.loads:
        result = loop.results[len(kinds) - 1]
        if result.type != op.results[0].type:
            result = emit.op("vector.shape_cast", [result], [op.results[0].type]).results[0]
        op.results[0].replace_all_uses_with(result)
    op.erase()


def _load(emit: Emitter, memory: ir.Value, indices: list[ir.Value]) -> ir.Value:
    kind = ir.MemRefType(memory.type).element_type
    if not _is_narrow(kind):
        return emit.op("memref.load", [memory, *indices], [kind]).results[0]
    vector = emit.op("vector.load", [memory, *indices], [ir.VectorType.get([1], kind)]).results[0]
    return emit.op("vector.extract", [vector], [kind], _at(0)).results[0]


def _store(emit: Emitter, element: ir.Value, memory: ir.Value, indices: list[ir.Value]) -> None:
    if not _is_narrow(element.type):
        emit.op("memref.store", [element, memory, *indices], [])
        return
    vector = emit.op("vector.broadcast", [element], [ir.VectorType.get([1], element.type)]).results[0]
    emit.op("vector.store", [vector, memory, *indices], [])


def _is_narrow(kind: ir.Type) -> bool:
    """Whether upstream's conversion aborts on a scalar access to such elements."""
    return isinstance(kind, ir.IntegerType | ir.FloatType) and kind.width < _BYTE_BITS


def _flattened(emit: Emitter, vector: ir.Value, count: int) -> ir.Value:
    """Return the same elements as a vector of one dimension."""
    kind = ir.VectorType(vector.type)
    if kind.rank == 1:
        return vector
    return emit.op("vector.shape_cast", [vector], [ir.VectorType.get([count], kind.element_type)]).results[0]


def _at(position: int | None = None) -> dict[str, ir.Attribute]:
    """Return the attribute of a constant position, or of one that is an operand."""
    number = ir.ShapedType.get_dynamic_size() if position is None else position
    return {"static_position": ir.DenseI64ArrayAttr.get([number])}


def _element(emit: Emitter, vector: ir.Value, lane: ir.Value) -> ir.Value:
    kind = ir.VectorType(vector.type).element_type
    return emit.op("vector.extract", [vector, lane], [kind], _at()).results[0]


def _with_element(emit: Emitter, vector: ir.Value, element: ir.Value, lane: ir.Value) -> ir.Value:
    return emit.op("vector.insert", [element, vector, lane], [vector.type], _at()).results[0]


def _as_index(emit: Emitter, number: ir.Value) -> ir.Value:
    """Convert numbers in a vector of indices, which are signed."""
    if isinstance(number.type, ir.IndexType):
        return number
    return emit.op("arith.index_cast", [number], [ir.IndexType.get()]).results[0]
