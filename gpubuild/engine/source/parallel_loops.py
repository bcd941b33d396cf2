"""Make kernels of parallel loops: fuse neighbours, sum in registers, map iterations to work-items.

Upstream's passes for this map a loop by the number of its dimensions in a fixed order, fuse only
loops on buffers that are proven distinct by their allocation, and leave sums in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.query import (
    VIEWS,
    constant_integer,
    defining_op,
    enclosing,
    first,
    is_outside,
    matching,
    operations,
    terminator,
)
from gpubuild.engine.source.memory_uses import may_alias
from gpubuild.engine.source.register_tiles import tile_of
from gpubuild.support.frozen import frozen

WORK_ITEMS = 256  # of a workgroup: many enough for every GPU, and within the limit of each
WIDTH = 32  # of its rows, where loops have two dimensions or more: a subgroup of NVIDIA GPUs
_LOOP = "scf.parallel"
_ACCESSES = ("memref.load", "memref.store")  # the memref is operand 0, and operand 1
_MAY_USE_MEMORY = ("memref", "vector", "func", "gpu", "linalg")
# Dialects of the operations that a kernel may contain.
_IN_KERNELS = frozenset({"arith", "math", "memref", "scf", "affine", "index", "complex", "vector"})
_NOT_IN_KERNELS = frozenset({"memref.alloc", "memref.dealloc", "memref.copy", "memref.realloc", "scf.forall"})
_LAUNCH_SEGMENTS = (0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0)


def shared_extents(function: ir.Operation) -> list[list[tuple[int, int]]]:
    """Return the dimensions of arguments that linalg requires to be equal, as pairs of numbers.

    Operations under conditions and in loops count for nothing: they may not run.
    """
    groups: list[list[tuple[ir.Value, int]]] = []
    always = function.regions[0].blocks[0]
    for op in operations(function, ("linalg.generic",)):
        if op.block != always:
            continue
        loops: dict[int, list[tuple[ir.Value, int]]] = {}
        for value, attribute in zip(op.operands, op.attributes["indexing_maps"], strict=True):
            if isinstance(value.type, ir.MemRefType):
                for number, expression in enumerate(attribute.value.results):
                    if isinstance(expression, ir.AffineDimExpr):
                        loop = expression.position
                        loops.setdefault(loop, []).append((value, number))
        for equal in loops.values():
            members = [member for one in equal for member in (one, _extent_of(*one)) if member]
            touched = [group for group in groups if any(member in group for member in members)]
            groups = [group for group in groups if group not in touched]
            groups.append([*members, *(member for group in touched for member in group)])
    arguments = list(function.regions[0].blocks[0].arguments)
    found = []
    for group in groups:
        own = sorted({(arguments.index(v), n) for v, n in group if v in arguments})
        if len(own) > 1:
            found.append(own)
    return found


def _extent_of(value: ir.Value, dimension: int) -> tuple[ir.Value, int] | None:
    """Return the memref, and its dimension, of which an allocation has this dynamic extent."""
    op = defining_op(value)
    kind = value.type
    if op is None or op.name != "memref.alloc" or not kind.is_dynamic_dim(dimension):
        return None
    size = defining_op(op.operands[sum(kind.is_dynamic_dim(n) for n in range(dimension))])
    if size is None or size.name != "memref.dim":
        return None
    number = constant_integer(size.operands[1])
    return None if number is None else (size.operands[0], number)


def share_extents(function: ir.Operation, groups: list[list[tuple[int, int]]]) -> None:
    """Let all dimensions of a group be read from its first, so that loops over them have equal bounds."""
    arguments = list(function.regions[0].blocks[0].arguments)
    for op in operations(function, ("memref.dim",)):
        number = constant_integer(op.operands[1])
        if op.operands[0] not in arguments or number is None:
            continue
        own = (arguments.index(op.operands[0]), number)
        group = next((group for group in groups if own in group), [own])
        if group[0] != own:
            op.operands[0] = arguments[group[0][0]]
            op.operands[1] = Emitter(op).constant(group[0][1])


def fuse(function: ir.Operation) -> None:
    """Merge neighbouring parallel loops of equal bounds that share only the elements of an iteration."""
    blocks = {loop.block for loop in operations(function, (_LOOP,))}
    for block in blocks:
        previous: ir.Operation | None = None
        for op in [op.operation for op in block]:
            if op.name != _LOOP:
                if not _may_cross(op):
                    previous = None
            elif previous is not None and _fusible(previous, op):
                _merge(previous, op)
                previous = op
            else:
                previous = op


def _may_cross(op: ir.Operation) -> bool:
    """Return whether a loop may move behind ``op``: it neither reads nor writes memory."""
    return op.name.startswith("arith.") or op.name in VIEWS or op.name in (
        "memref.dim", "memref.get_global", "memref.alloc",
    )  # fmt: skip


def _fusible(before: ir.Operation, after: ir.Operation) -> bool:
    if list(before.operands) != list(after.operands) or before.results or after.results:
        return False
    # Both run in one iteration then, so what one writes and the other uses must be the same element.
    earlier, later = _accesses(before), _accesses(after)
    if earlier is None or later is None:
        return False
    for own, others in ((earlier, later), (later, earlier)):
        for memory in {access.memory for access in own if access.writes}:
            if not any(may_alias(access.memory, memory) for access in others):
                continue
            both = [access for access in (*own, *others) if may_alias(access.memory, memory)]
            if any(access.memory != memory or access.element != both[0].element for access in both):
                return False
            if not _is_own(both[0].element, len(before.regions[0].blocks[0].arguments)):
                return False
    return True


@frozen
class _Access:
    """A load or store. An index of ``element`` is a dimension of the loop, or a constant, or unknown."""

    memory: ir.Value
    writes: bool
    element: tuple[tuple[str, int] | None, ...]


def _accesses(loop: ir.Operation) -> list[_Access] | None:
    """Return the loads and stores in ``loop``; ``None`` if other operations use memory."""
    own = list(loop.regions[0].blocks[0].arguments)
    found = []
    for op in matching(loop, lambda op: op.name.partition(".")[0] in _MAY_USE_MEMORY):
        if op.name in _ACCESSES:
            at = _ACCESSES.index(op.name)
            element = tuple(_index(value, own) for value in list(op.operands)[at + 1 :])
            found.append(_Access(memory=op.operands[at], writes=at == 1, element=element))
        elif op.name != "memref.dim":
            return None
    return found


def _index(value: ir.Value, own: list[ir.Value]) -> tuple[str, int] | None:
    if value in own:
        return "dimension", own.index(value)
    constant = constant_integer(value)
    return None if constant is None else ("constant", constant)


def _is_own(element: tuple[tuple[str, int] | None, ...], rank: int) -> bool:
    """Return whether each iteration of a loop with ``rank`` dimensions has an element of its own."""
    return None not in element and all(("dimension", number) in element for number in range(rank))


def _merge(before: ir.Operation, after: ir.Operation) -> None:
    """Put the body of ``before`` in front of that of ``after``."""
    old, new = before.regions[0].blocks[0], after.regions[0].blocks[0]
    anchor = new.operations[0]
    for mine, other in zip(old.arguments, new.arguments, strict=True):
        mine.replace_all_uses_with(other)
    for op in list(old)[:-1]:
        op.operation.move_before(anchor.operation)
    before.erase()


# ---- sums in registers ----


def use_registers(function: ir.Operation) -> None:
    """Carry elements that a loop reads and writes in each iteration; drop stores before others."""
    for loop in operations(function, ("scf.for",)):
        _carry(loop)
    for loop in operations(function, (_LOOP,)):
        _forward(loop.regions[0].blocks[0])


def _carry(loop: ir.Operation) -> None:
    body = loop.regions[0].blocks[0]
    direct = [op.operation for op in body]
    stores = [op for op in direct if op.name == "memref.store"]
    candidates = [op for op in stores if all(is_outside(v, loop) for v in list(op.operands)[1:])]
    for store in candidates:
        memory, indices = store.operands[1], list(store.operands)[2:]
        aliases = [op for op in matching(loop, _touches_memory) if _touches(op, memory)]
        loads = [op for op in aliases if op.name == "memref.load" and list(op.operands) == [memory, *indices]]
        if len(aliases) != len(loads) + 1 or not loads or any(op.block != body for op in loads):
            continue
        order = {op: number for number, op in enumerate(direct)}
        if max(order[op] for op in loads) > order[store]:
            continue
        loop = _with_value(loop, store, loads)
        body = loop.regions[0].blocks[0]
        direct = [op.operation for op in body]


def _with_value(loop: ir.Operation, store: ir.Operation, loads: Sequence[ir.Operation]) -> ir.Operation:
    """Return a copy of ``loop`` that carries the element which ``store`` writes and ``loads`` read."""
    emit = Emitter(loop)
    memory, indices, value = store.operands[1], list(store.operands)[2:], store.operands[0]
    start = emit.value("memref.load", [memory, *indices], value.type)
    operands = [*loop.operands, start]
    new = emit.op(
        "scf.for",
        operands,
        [*(r.type for r in loop.results), value.type],
        dict(loop.attributes.items()),
        regions=1,
    )
    old = loop.regions[0].blocks[0]
    block = new.regions[0].blocks.append(*(a.type for a in old.arguments), value.type)
    for mine, other in zip(old.arguments, list(block.arguments)[:-1], strict=True):
        mine.replace_all_uses_with(other)
    for load in loads:
        load.results[0].replace_all_uses_with(block.arguments[-1])
        load.erase()
    value = store.operands[0]  # which a load may have been
    store.erase()
    yielded = terminator(old)
    inside = emit.inside(block)
    for op in list(old)[:-1]:
        block.append(op.operation)
    inside.op("scf.yield", [*yielded.operands, value], [])
    emit.op("memref.store", [new.results[-1], memory, *indices], [])
    for mine, other in zip(loop.results, list(new.results)[:-1], strict=True):
        mine.replace_all_uses_with(other)
    loop.erase()
    return new


def _touches_memory(op: ir.Operation) -> bool:
    return any(isinstance(v.type, ir.MemRefType) for v in op.operands) and op.name not in (
        "memref.dim", *VIEWS,
    )  # fmt: skip


def _touches(op: ir.Operation, memory: ir.Value) -> bool:
    return any(isinstance(v.type, ir.MemRefType) and may_alias(v, memory) for v in op.operands)


def _forward(block: ir.Block) -> None:
    """Pass stored elements on to loads in the same block; erase stores before another to the same element."""
    known: list[ir.Operation] = []  # stores whose element is unchanged since
    for op in [op.operation for op in block]:
        if op.name == "memref.load":
            match = next((s for s in known if list(s.operands)[1:] == list(op.operands)), None)
            if match is not None:
                op.results[0].replace_all_uses_with(match.operands[0])
                op.erase()
        elif op.name == "memref.store":
            for store in list(known):
                same = list(store.operands)[1:] == list(op.operands)[1:]
                if same and not _used_between(block, store, op):
                    known.remove(store)
                    store.erase()
                elif same or may_alias(store.operands[1], op.operands[1]):
                    known.remove(store)
            known.append(op)
        elif op.regions:
            written = [s.operands[1] for s in operations(op, ("memref.store",))]
            opaque = any(inner.name not in _ACCESSES for inner in matching(op, _touches_memory))
            known = (
                [] if opaque else [s for s in known if not any(may_alias(s.operands[1], w) for w in written)]
            )
        elif _touches_memory(op):
            known = []


def _used_between(block: ir.Block, start: ir.Operation, end: ir.Operation) -> bool:
    """Return whether an operation after ``start`` and before ``end`` may read what ``start`` stores."""
    inside = False
    for op in [op.operation for op in block]:
        if op == end:
            return False
        if inside:
            uses = matching(op, _touches_memory)
            if any(use.name != "memref.store" and _touches(use, start.operands[1]) for use in uses):
                return True
        inside = inside or op == start
    return True


# ---- launches ----


def map_to_launches(function: ir.Operation, module: str, warn: Callable[[ir.Operation, str], None]) -> None:
    """Replace each outermost parallel loop by a ``gpu.launch`` of a kernel in ``module``.

    ``warn`` is called with each loop that stays and the reason.
    """
    number = 0
    for loop in operations(function, (_LOOP,)):
        if inside_parallel(loop):
            continue
        if reason := _refusal(loop):
            warn(loop, f"this loop stays on the host: {reason}")
            continue
        _launch(loop, module, f"{module}_{number}" if number else module)
        number += 1


def inside_parallel(op: ir.Operation) -> bool:
    """Return whether ``op`` is in a loop that becomes a kernel, or in a kernel."""
    return enclosing(op.parent, (_LOOP, "gpu.launch")) is not None


def _refusal(loop: ir.Operation) -> str:
    if loop.results:
        return "its iterations are reduced to a value"

    def foreign(op: ir.Operation) -> bool:
        return op.name.partition(".")[0] not in _IN_KERNELS or op.name in _NOT_IN_KERNELS

    inner = first(loop, foreign)
    return f"kernels cannot contain '{inner.name}'" if inner is not None else ""


def _shape(extents: Sequence[int | None]) -> tuple[int, int]:
    """Return the columns and rows of a workgroup for loops of ``extents``, unknown ones None."""
    if len(extents) == 1:
        return WORK_ITEMS, 1
    most_columns, most_rows = (
        WORK_ITEMS if extent is None else 1 << max(extent - 1, 0).bit_length() for extent in extents[:-3:-1]
    )
    columns = min(WIDTH, most_columns)
    rows = min(WORK_ITEMS // columns, most_rows)
    return min(WORK_ITEMS // rows, most_columns), rows


def _launch(loop: ir.Operation, module: str, name: str) -> None:
    emit = Emitter(loop)
    rank = len(loop.regions[0].blocks[0].arguments)
    lower, upper, step = (list(loop.operands)[i * rank : (i + 1) * rank] for i in range(3))
    one = emit.constant(1)
    extents = []
    for low, high, by in zip(lower, upper, step, strict=True):
        length = high if constant_integer(low) == 0 else emit.binary("arith.subi", high, low)
        extents.append(length if constant_integer(by) == 1 else emit.binary("arith.ceildivsi", length, by))
    known = [constant_integer(extent) for extent in extents]
    columns, rows = _shape(known)
    tile = tile_of(loop, known, (columns, rows))
    whole = (columns * tile[0], rows * tile[1])  # elements of a workgroup
    groups = _groups(emit, extents, *whole)
    total = groups[0]
    for count in groups[1:]:
        total = emit.binary("arith.muli", total, count)
    attributes = {
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get(_LAUNCH_SEGMENTS),
        "workgroup_attributions": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0),
        "module": ir.FlatSymbolRefAttr.get(module),
        "function": ir.FlatSymbolRefAttr.get(name),
    }
    sizes = [total, one, one, emit.constant(columns), emit.constant(rows), one]
    launch = emit.op("gpu.launch", sizes, [], attributes, regions=1)
    block = launch.regions[0].blocks.append(*[ir.IndexType.get()] * 12)
    inside = emit.inside(block)
    group, thread_x, thread_y = block.arguments[0], block.arguments[3], block.arguments[4]
    indices = _indices(inside, group, groups, (thread_x, thread_y), whole)
    old = loop.regions[0].blocks[0]
    body = block
    if tile != (1, 1):
        body = parallel_loop(inside, [inside.constant(count) for count in tile[::-1]])
        inside = inside.inside(body)
        for number, (place, size) in enumerate(zip(reversed(body.arguments), (columns, rows), strict=True)):
            distance = inside.binary("arith.muli", place, inside.constant(size))
            indices[-1 - number] = inside.binary("arith.addi", indices[-1 - number], distance)
    guard = _guard(inside, indices, extents, whole)
    if guard is not None:
        body = inside.op("scf.if", [guard], [], regions=2).regions[0].blocks.append()
    within = inside.inside(body)
    for argument, index, low, by in zip(old.arguments, indices, lower, step, strict=True):
        scaled = index if constant_integer(by) == 1 else within.binary("arith.muli", index, by)
        value = scaled if constant_integer(low) == 0 else within.binary("arith.addi", scaled, low)
        argument.replace_all_uses_with(value)
    for op in list(old)[:-1]:
        body.append(op.operation)
    if guard is not None:
        inside.inside(body).op("scf.yield", [], [])
    if tile != (1, 1):
        inside.op("scf.reduce", [], [])
    inside.inside(block).op("gpu.terminator", [], [])
    loop.erase()


def parallel_loop(emit: Emitter, extents: Sequence[ir.Value]) -> ir.Block:
    """Create a parallel loop from zero in steps of one; return its block, which needs an ``scf.reduce``."""
    zero, one, rank = emit.constant(0), emit.constant(1), len(extents)
    segments = ir.DenseI32ArrayAttr.get([rank, rank, rank, 0])
    operands = [*[zero] * rank, *extents, *[one] * rank]
    loop = emit.op(_LOOP, operands, [], {"operandSegmentSizes": segments}, regions=1)
    return loop.regions[0].blocks.append(*[ir.IndexType.get()] * rank)


def _groups(emit: Emitter, extents: Sequence[ir.Value], columns: int, rows: int) -> list[ir.Value]:
    """Return the numbers of workgroups along each dimension of the loop."""
    groups = list(extents)
    tiles = {len(groups) - 1: columns, len(groups) - 2: rows}
    for number, size in tiles.items():
        if number >= 0 and size > 1:
            groups[number] = emit.binary("arith.ceildivsi", groups[number], emit.constant(size))
    return groups


def _indices(
    emit: Emitter,
    group: ir.Value,
    groups: Sequence[ir.Value],
    threads: tuple[ir.Value, ir.Value],
    sizes: tuple[int, int],
) -> list[ir.Value]:
    """Return the position of a work-item. Workgroups are counted in x alone, the only large dimension."""
    found = []
    for number in range(len(groups) - 1, 0, -1):
        found.append(emit.binary("arith.remsi", group, groups[number]))
        group = emit.binary("arith.divsi", group, groups[number])
    found.append(group)
    for number, (thread, size) in enumerate(zip(threads, sizes, strict=True)):
        if number < len(found):
            first_of_group = emit.binary("arith.muli", found[number], emit.constant(size))
            found[number] = emit.binary("arith.addi", first_of_group, thread)
    return found[::-1]


def _guard(
    emit: Emitter, indices: Sequence[ir.Value], extents: Sequence[ir.Value], sizes: tuple[int, int]
) -> ir.Value | None:
    """Return whether a work-item is inside the loop's bounds; None where all are."""
    found = None
    for index, extent, size in zip(reversed(indices), reversed(extents), sizes, strict=False):
        known = constant_integer(extent)
        if known is not None and known % size == 0:
            continue
        inside = emit.compare(Compare.SLT, index, extent)
        found = inside if found is None else emit.binary("arith.andi", found, inside)
    return found
