"""Lower copies, fills and memory spaces of host code that ``gpu-to-llvm`` refuses or lowers wrongly.

That pass fills elements of 16 and 32 bits only, and of memrefs with gaps or an offset it copies and
fills the wrong bytes. Such operations become calls of the runtime (``runtime/abi/memref.c``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.host.tokens import TOKEN_TYPE, declare, is_join, is_token, local_array, mark, token_of
from gpubuild.engine.ir.builder import Compare, Emitter
from gpubuild.engine.ir.diagnostics import SourceText, about, refuse
from gpubuild.engine.ir.memrefs import MIRROR, metadata, with_address
from gpubuild.engine.ir.query import (
    element_bytes,
    host_operations,
    is_contiguous,
    scalar_bits,
    strides_and_offset,
)

_OPS = frozenset({"gpu.alloc", "gpu.dealloc", "gpu.memcpy", "gpu.memset"})
_SPACES = (0, 1)  # in which devices allocate: the default, global memory
_FUNCTIONS = {"gpu.memcpy": "gpubuildMemcpy", "gpu.memset": "gpubuildMemset"}
_MIRROR, _MIRROR_FREE = "gpubuildMirror", "gpubuildMirrorFree"


def check(module: ir.Module, source: SourceText | None = None) -> None:
    """Raise ``StepError`` for elements of unknown size and memory spaces without allocation."""
    lines = source or SourceText()
    found = [about(op, reason, lines) for op in _memory_ops(module) if (reason := _refusal(op))]
    refuse(
        "host code uses memory in a way that cannot be lowered",
        found,
        "host code allocates, copies and fills global memory: leave the memory space out "
        "or use 1; elements are integers, floats, index, complex numbers or vectors of these",
    )


def use_default_space(module: ir.Module) -> None:
    """Replace numbered memory spaces by casts to the default one, in place."""
    for op in _memory_ops(module):
        for number, operand in enumerate(op.operands):
            if _space(operand.type):
                op.operands[number] = _in_space(Emitter(op), operand, None)
        for result in op.results:
            if _space(result.type):
                _allocate_in_default_space(op)
                break


def call_runtime(module: ir.Module) -> None:
    """Replace operations that upstream refuses or lowers wrongly by calls of the runtime, in place.

    Each must be asynchronous with one dependency (see async_ops). So are allocations that stand for memory
    of the host, which the runtime may use instead.
    """
    _call_for_mirrors(module)
    used = set()
    for op in _memory_ops(module):
        if op.name in _FUNCTIONS and _needs_runtime(op):
            used.add(op.name)
            _call(op)
    for name in sorted(used):
        numbers = [ir.IndexType.get()] * 5  # to, from or element, extents, rank, bytes of an element
        declare(module, _FUNCTIONS[name], [*numbers, ir.Type.parse(TOKEN_TYPE)])


def _memory_ops(module: ir.Module) -> list[ir.Operation]:
    return [op for op in host_operations(module) if op.name in _OPS]


def _memrefs(op: ir.Operation) -> list[ir.MemRefType]:
    values = [*op.operands, *op.results]
    return [v.type for v in values if isinstance(v.type, ir.MemRefType)]


def _space(kind: ir.Type) -> int:
    """Return the number of a memref's memory space; 0 for the default and for other attributes."""
    space = kind.memory_space if isinstance(kind, ir.MemRefType) else None
    return ir.IntegerAttr(space).value if isinstance(space, ir.IntegerAttr) else 0


def _refusal(op: ir.Operation) -> str:
    for kind in _memrefs(op):
        if _space(kind) not in _SPACES:
            return f"'{op.name}' in memory space {_space(kind)}: devices allocate from memory space 1"
        if op.name in _FUNCTIONS and not element_bytes(kind.element_type):
            return f"'{op.name}' on elements of type {kind.element_type}, whose size is not known"
        if op.name in _FUNCTIONS and strides_and_offset(kind) is None:
            return f"'{op.name}' on a memref whose layout is not strides and an offset: {kind}"
    return ""


# ---- memory spaces ----


def _with(kind: ir.MemRefType, space: ir.Attribute | None) -> ir.MemRefType:
    return ir.MemRefType.get(kind.shape, kind.element_type, kind.layout, space)


def _in_space(emit: Emitter, value: ir.Value, space: ir.Attribute | None) -> ir.Value:
    kind = _with(value.type, space)
    return emit.op("memref.memory_space_cast", [value], [kind]).results[0]


def _allocate_in_default_space(op: ir.Operation) -> None:
    kinds = [r.type for r in op.results]
    wanted = kinds[0]
    kinds[0] = _with(wanted, None)
    new = Emitter(op).op(op.name, list(op.operands), kinds, dict(op.attributes.items()))
    cast = _in_space(Emitter(op), new.results[0], wanted.memory_space)
    for old, value in zip(op.results, [cast, *list(new.results)[1:]], strict=True):
        old.replace_all_uses_with(value)
    op.erase()


# ---- calls of the runtime ----


def _needs_runtime(op: ir.Operation) -> bool:
    if any(not is_contiguous(kind) for kind in _memrefs(op)):
        return True
    if op.name == "gpu.memcpy":
        return False
    kind = op.operands[-1].type
    if not isinstance(kind, ir.IntegerType | ir.FloatType):
        return True
    return scalar_bits(kind) not in (16, 32)


def _call(op: ir.Operation) -> None:
    emit = Emitter(op)
    token = token_of(op)
    to, other = (o for o in op.operands if not is_token(o))
    size = element_bytes(to.type.element_type) or 0  # unknown sizes were refused
    address, extents = described(emit, to, size)
    if op.name == "gpu.memcpy":
        second, others = described(emit, other, size)
        extents = [*extents, *others[len(others) // 2 :]]
    else:
        if 0 < scalar_bits(other.type) < 8:
            # A byte in memory; upstream aborts on storing less.
            other = emit.op("arith.extui", [other], [ir.IntegerType.get_signless(8)]).results[0]
        second = _stored(emit, op, [other], other.type)
    rank = to.type.rank
    numbers = [_stored(emit, op, extents, ir.IndexType.get()), emit.constant(rank), emit.constant(size)]
    emit.call_function(_FUNCTIONS[op.name], [address, second, *numbers, token])
    _continue(op, token)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mirror:
    """An allocation on the device that stands for memory of the host."""

    op: ir.Operation
    host: ir.Value
    is_copied_back: bool


def _call_for_mirrors(module: ir.Module) -> None:
    """Let the runtime decide whether memory of the host is used instead of an allocation."""
    allocations = [op for op in _memory_ops(module) if op.name == "gpu.alloc" and MIRROR in op.attributes]
    mirrors = [found for op in allocations if (found := _mirror(op)) is not None]
    if not mirrors:
        return
    index, token_type = ir.IndexType.get(), ir.Type.parse(TOKEN_TYPE)
    declare(module, _MIRROR, [index, index, index, token_type], [index])
    declare(module, _MIRROR_FREE, [index, index, token_type])
    of_blocks: dict[ir.Block, list[_Mirror]] = {}
    for mirror in mirrors:
        if isinstance(mirror.host.owner, ir.Block):
            of_blocks.setdefault(mirror.host.owner, []).append(mirror)
    apart = {block: _are_apart(block, found) for block, found in of_blocks.items()}
    for mirror in mirrors:
        block = mirror.host.owner
        is_apart = apart[block] if isinstance(block, ir.Block) else Emitter(mirror.op).constant(1)
        _allocate_mirror(mirror, is_apart)


def _mirror(op: ir.Operation) -> _Mirror | None:
    device = op.results[0]
    copies = [use.owner.operation for use in device.uses if use.owner.operation.name == "gpu.memcpy"]
    # The operands of a copy are tokens, its target and its source.
    found = [(list(copy.operands)[-2:], copy) for copy in copies if MIRROR in copy.attributes]
    hosts = {to if source == device else source for (to, source), _ in found}
    if len(hosts) != 1 or (host := hosts.pop()).type != device.type:
        return None  # kernels alone use it
    return _Mirror(op=op, host=host, is_copied_back=any(source == device for (_, source), _ in found))


def _are_apart(block: ir.Block, mirrors: Sequence[_Mirror]) -> ir.Value:
    """Return 1 if no argument of a function that is written overlaps another one, else 0."""
    emit = Emitter(block.operations[0].operation)
    ranges = {}
    for argument in block.arguments:
        if isinstance(argument.type, ir.MemRefType) and is_contiguous(argument.type):
            start, bytes_ = _range(emit, argument)
            ranges[argument] = start, emit.binary("arith.addi", start, bytes_)
    are_apart = emit.constant(1, ir.IntegerType.get_signless(1))
    for written in (mirror.host for mirror in mirrors if mirror.is_copied_back):
        start, end = ranges[written]
        for other, (other_start, other_end) in ranges.items():
            if other != written:
                before = emit.compare(Compare.ULE, end, other_start)
                behind = emit.compare(Compare.ULE, other_end, start)
                is_apart = emit.binary("arith.ori", before, behind)
                are_apart = emit.binary("arith.andi", are_apart, is_apart)
    return emit.value("arith.index_castui", [are_apart], ir.IndexType.get())


def _range(emit: Emitter, memref: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return the address and the bytes of a memref without gaps."""
    kind = memref.type
    size = element_bytes(kind.element_type) or 0  # unknown sizes were refused
    address, extents = described(emit, memref, size)
    bytes_ = emit.constant(size)
    for extent in extents[: kind.rank]:
        bytes_ = emit.binary("arith.muli", bytes_, extent)
    return address, bytes_


def _allocate_mirror(mirror: _Mirror, may_share: ir.Value) -> None:
    op, device = mirror.op, mirror.op.results[0]
    users = [use.owner.operation for use in device.uses]
    emit, token = Emitter(op), token_of(op)
    of_host, bytes_ = _range(emit, mirror.host)
    shared = [of_host, bytes_, may_share, token]
    address = emit.call_function(_MIRROR, shared, [ir.IndexType.get()]).results[0]
    device.replace_all_uses_with(with_address(emit, mirror.host, address))
    _continue(op, token)
    for user in users:
        if user.name == "gpu.dealloc":
            after = token_of(user)
            Emitter(user).call_function(_MIRROR_FREE, [address, of_host, after])
            _continue(user, after)


def _continue(op: ir.Operation, token: ir.Value) -> None:
    """Erase ``op``, whose work is now in the stream of ``token``."""
    result = op.results[-1]
    if any(is_join(use.owner) for use in result.uses):
        token = mark(op, token)
    result.replace_all_uses_with(token)
    op.erase()


def described(emit: Emitter, memref: ir.Value, size: int) -> tuple[ir.Value, list[ir.Value]]:
    """Return the address of a memref's first element, and its sizes and strides."""
    _, first, sizes, strides = metadata(emit, memref)
    start = emit.value("memref.extract_aligned_pointer_as_index", [memref], ir.IndexType.get())
    offset = emit.binary("arith.muli", first, emit.constant(size))
    return emit.binary("arith.addi", start, offset), [*sizes, *strides]


def _stored(emit: Emitter, op: ir.Operation, values: Sequence[ir.Value], kind: ir.Type) -> ir.Value:
    """Store ``values`` in a local array; return its address."""
    local = local_array(op, max(1, len(values)), kind)
    for number, value in enumerate(values):
        emit.op("memref.store", [value, local, emit.constant(number)], [])
    return emit.op("memref.extract_aligned_pointer_as_index", [local], [ir.IndexType.get()]).results[0]
