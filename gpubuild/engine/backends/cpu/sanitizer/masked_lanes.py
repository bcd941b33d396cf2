"""Masked and indexed vector operations as loops over their lanes, so that each lane's access is checked.

``vector.gather`` and ``scatter``, masked loads, stores and transfers, ``expandload`` and ``compressstore``
become loops over their lanes: active lanes are checked like scalar accesses, the others are not accessed.
Lanes run in order, as the dialect defines it for lanes that store to the same element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import nested
from gpubuild.engine.backends.cpu.sanitizer.accesses import dimension
from gpubuild.engine.ir.builder import Compare, Emitter

_BYTE_BITS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lanes:
    """One op: lane ``k`` accesses ``memory`` at ``indices``, moved along the last dimension.

    By its element of ``moves``, if there are any; else by the number of lanes before it, of which a
    ``packed`` op counts those that take part. ``vector`` is what is stored, or what a load gives where a
    lane takes no part. Lanes of a ``partial`` op that are beyond the end take no part either.
    """

    memory: ir.Value
    indices: tuple[ir.Value, ...]
    mask: ir.Value
    vector: ir.Value
    loads: bool
    moves: ir.Value | None = None
    packed: bool = False
    partial: bool = False


def expand_lanes(module: ir.Operation) -> None:
    """Make loops of all such ops in the gpu.module ``module`` whose lanes can be told apart.

    Left are vectors of scalable length, and vectors of several dimensions in ops of one, which no CPU
    target compiles.
    """
    for op in nested(module):
        reader = _READERS.get(op.name)
        if reader is not None and op.parent.name != "vector.mask":
            lanes = reader(op)
            if lanes is not None:
                _expand(op, lanes)


def _read_moved(op: ir.Operation) -> _Lanes | None:
    """Read ``gather`` and ``scatter``."""
    memory, *indices, moves, mask, vector = list(op.operands)
    return _lanes(op, memory, indices, mask, vector, moves=moves)


def _read_masked(op: ir.Operation) -> _Lanes | None:
    """Loads and stores of neighbours."""
    memory, *indices, mask, vector = list(op.operands)
    if ir.VectorType(vector.type).rank != 1:
        return None
    packed = op.name in {"vector.expandload", "vector.compressstore"}
    return _lanes(op, memory, indices, mask, vector, packed=packed)


def _read_transfer(op: ir.Operation) -> _Lanes | None:
    """Masked transfers along the last dimension; convert-vector-to-scf has left no others."""
    segments = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    loads = op.name == "vector.transfer_read"
    operands = list(op.operands)
    if not segments[-1]:
        return None
    vector, memory = (operands[-2], operands[0]) if loads else (operands[0], operands[1])
    indices = operands[1:-2] if loads else operands[2:-1]
    kind = op.results[0].type if loads else vector.type
    if not isinstance(memory.type, ir.MemRefType) or ir.VectorType(kind).rank != 1:
        return None
    rank = ir.MemRefType(memory.type).rank
    along_the_last = ir.AffineMapAttr.get(ir.AffineMap.get_minor_identity(rank, 1)) if rank else None
    if op.attributes["permutation_map"] != along_the_last:
        return None
    if isinstance(ir.MemRefType(memory.type).element_type, ir.VectorType):
        return None
    if loads:
        vector = Emitter(op).op("vector.broadcast", [vector], [kind]).results[0]
    in_bounds = "in_bounds" in op.attributes and all(
        ir.BoolAttr(flag).value for flag in ir.ArrayAttr(op.attributes["in_bounds"])
    )
    return _lanes(op, memory, indices, operands[-1], vector, partial=not in_bounds)


_READERS: dict[str, Callable[[ir.Operation], _Lanes | None]] = {
    "vector.gather": _read_moved,
    "vector.scatter": _read_moved,
    "vector.maskedload": _read_masked,
    "vector.maskedstore": _read_masked,
    "vector.expandload": _read_masked,
    "vector.compressstore": _read_masked,
    "vector.transfer_read": _read_transfer,
    "vector.transfer_write": _read_transfer,
}


def _lanes(
    op: ir.Operation,
    memory: ir.Value,
    indices: list[ir.Value],
    mask: ir.Value,
    vector: ir.Value,
    *,
    moves: ir.Value | None = None,
    packed: bool = False,
    partial: bool = False,
) -> _Lanes | None:
    if not isinstance(memory.type, ir.MemRefType) or not indices or ir.VectorType(vector.type).scalable:
        return None
    return _Lanes(
        memory=memory,
        indices=tuple(indices),
        mask=mask,
        vector=vector,
        loads=bool(len(op.results)),
        moves=moves,
        packed=packed,
        partial=partial,
    )


def _expand(op: ir.Operation, lanes: _Lanes) -> None:
    emit = Emitter(op)
    shape = ir.VectorType(lanes.vector.type)
    count = 1
    for size in shape.shape:
        count *= size
    mask, vector = _in_a_row(emit, lanes.mask, count), _in_a_row(emit, lanes.vector, count)
    moves = lanes.moves and _in_a_row(emit, lanes.moves, count)
    zero, one = emit.constant(0), emit.constant(1)
    # Carried: how many lanes took part, and what has been loaded.
    carried = ([zero] if lanes.packed else []) + ([vector] if lanes.loads else [])
    kinds = [value.type for value in carried]
    loop = emit.op("scf.for", [zero, emit.constant(count), one, *carried], kinds, regions=1)
    body = loop.regions[0].blocks.append(ir.IndexType.get(), *kinds)
    inside_loop = emit.inside(body)
    lane, before, loaded = body.arguments[0], body.arguments[1 if lanes.packed else 0], body.arguments[-1]
    active = _element(inside_loop, mask, lane)
    *outer, first = lanes.indices
    move = before if moves is None else _as_index(inside_loop, _element(inside_loop, moves, lane))
    indices = [*outer, inside_loop.binary("arith.addi", first, move)]
    if lanes.partial:
        size = dimension(inside_loop, lanes.memory, len(indices) - 1)
        active = inside_loop.binary("arith.andi", active, inside_loop.compare(Compare.ULT, indices[-1], size))
    following = []
    if lanes.packed:
        following.append(inside_loop.select(active, inside_loop.binary("arith.addi", before, one), before))
    results = [loaded.type] if lanes.loads else []
    branch = inside_loop.op("scf.if", [active], results, regions=2)
    access = inside_loop.inside(branch.regions[0].blocks.append())
    if lanes.loads:
        element = _load(access, lanes.memory, indices)
        access.op("scf.yield", [_with_element(access, loaded, element, lane)], [])
        inside_loop.inside(branch.regions[1].blocks.append()).op("scf.yield", [loaded], [])
    else:
        _store(access, _element(access, vector, lane), lanes.memory, indices)
        access.op("scf.yield", [], [])
    inside_loop.op("scf.yield", [*following, *branch.results], [])
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
    """Return whether upstream's conversion aborts on a scalar access to such elements."""
    return isinstance(kind, ir.IntegerType | ir.FloatType) and kind.width < _BYTE_BITS


def _in_a_row(emit: Emitter, vector: ir.Value, count: int) -> ir.Value:
    """Return the same elements as a vector of one dimension."""
    kind = ir.VectorType(vector.type)
    if kind.rank == 1:
        return vector
    return emit.op("vector.shape_cast", [vector], [ir.VectorType.get([count], kind.element_type)]).results[0]


def _at(position: int) -> dict[str, ir.Attribute]:
    return {"static_position": ir.DenseI64ArrayAttr.get([position])}


def _at_a_value() -> dict[str, ir.Attribute]:
    return _at(ir.ShapedType.get_dynamic_size())


def _element(emit: Emitter, vector: ir.Value, lane: ir.Value) -> ir.Value:
    kind = ir.VectorType(vector.type).element_type
    return emit.op("vector.extract", [vector, lane], [kind], _at_a_value()).results[0]


def _with_element(emit: Emitter, vector: ir.Value, element: ir.Value, lane: ir.Value) -> ir.Value:
    return emit.op("vector.insert", [element, vector, lane], [vector.type], _at_a_value()).results[0]


def _as_index(emit: Emitter, number: ir.Value) -> ir.Value:
    """Numbers in a vector of indices have a sign."""
    if isinstance(number.type, ir.IndexType):
        return number
    return emit.op("arith.index_cast", [number], [ir.IndexType.get()]).results[0]
