"""Give kernels memory of the device, and copy at the borders between host code and kernels.

Each host memref that a kernel uses gets a buffer on the device with the same lifetime. A walk in
program order knows which of both is current and copies where the other one is used next, so that
memory that only kernels use stays on the device. Where a memref's uses are not all understood, it
is copied around each launch instead.

Where kernels can use the memory of the host, both buffers are one (``MIRROR``). That memory has the right
contents, because the host waits for all kernels before it uses memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.memrefs import MIRROR, with_address
from gpubuild.engine.ir.query import (
    VIEWS,
    defining_op,
    element_bytes,
    following,
    is_contiguous,
    is_outside,
    matching,
    operations,
    symbol_name,
    terminator,
    viewed_memory,
)
from gpubuild.engine.source.memory_uses import CONSTANT_COPY, is_result, variable, written_arguments

_LAUNCH = "gpu.launch_func"
_DESCRIPTOR_ONLY = VIEWS | {"memref.dim", "memref.rank", "memref.extract_strided_metadata"}
_DEALLOC = "memref.dealloc"


@dataclass(slots=True, eq=False)
class _Buffer:
    """A memref of the host that kernels use, and its buffer on the device."""

    host: ir.Value
    host_current: bool
    device: ir.Value | None = None
    device_current: bool = False
    on_host: bool = False  # whether host code uses its elements
    traced: bool = True  # whether all of its uses are understood

    def to_device(self, emit: Emitter) -> None:
        """Copy to the device what is current on the host only."""
        if self.host_current and not self.device_current:
            _copy_mirror(emit, self.device, self.host)
        self.device_current = True

    def to_host(self, emit: Emitter) -> None:
        """Copy to the host what is current on the device only."""
        if self.device_current and not self.host_current:
            _copy_mirror(emit, self.host, self.device)
        self.host_current = True


def use_device_memory(function: ir.Operation) -> None:
    """Give all launches in ``function`` memory of the device."""
    launches = operations(function, (_LAUNCH,))
    if launches:
        _Placement(function, launches).run()


class _Placement:
    def __init__(self, function: ir.Operation, launches: list[ir.Operation]) -> None:
        self._function = function
        self._writes = {op: written_arguments(op) for op in launches}
        self._buffers: dict[ir.Value, _Buffer] = {}  # by the memref of the host
        self._unreleased: list[tuple[ir.Block, ir.Value]] = []
        used = [value for op in launches for value in op.operands if isinstance(value.type, ir.MemRefType)]
        for host in map(viewed_memory, used):
            if not _is_device(host):
                is_new = _is_alloc(host) or is_result(host)
                self._buffers.setdefault(host, _Buffer(host=host, host_current=not is_new))
        regions = [region for op in matching(function, lambda op: bool(op.regions)) for region in op.regions]
        structured = all(len(region.blocks) <= 1 for region in regions)
        for buffer in self._buffers.values():
            buffer.traced = structured and self._classify(buffer)

    def run(self) -> None:
        traced = [buffer for buffer in self._buffers.values() if buffer.traced]
        for buffer in traced:
            if _constant(buffer.host) is None:
                self._allocate(buffer)
        for buffer in traced:  # each at the start of the function, so in front of all else
            if (constant := _constant(buffer.host)) is not None:
                buffer.device = _uploaded(constant, self._function)
                buffer.device_current = True
        for block in self._function.regions[0].blocks:
            self._walk(block)
        for block, device in self._unreleased:  # behind the copies at the end of the block
            Emitter(terminator(block)).op("gpu.dealloc", [device], [])

    # ---- what is known about a buffer ----

    def _find(self, value: ir.Value) -> _Buffer | None:
        is_memory = isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType)
        return self._buffers.get(viewed_memory(value)) if is_memory else None

    def _traced(self, value: ir.Value) -> _Buffer | None:
        found = self._find(value)
        return found if found is not None and found.traced else None

    def _classify(self, buffer: _Buffer) -> bool:
        """Return whether all uses are understood; note whether host code is among them."""
        if not self._has_own_lifetime(buffer.host) or not _is_plain(buffer.host):
            return False
        pending, understood = [buffer.host], True
        while pending:
            for use in pending.pop().uses:
                op = use.owner.operation
                if op.name in VIEWS:
                    pending += list(op.results)
                elif op.name in (_LAUNCH, _DEALLOC) or op.name in _DESCRIPTOR_ONLY:
                    continue
                elif op.name == "func.return" or not _passes_on(op):
                    buffer.on_host = buffer.on_host or op.name != "memref.copy"
                else:
                    understood = False
        buffer.on_host = buffer.on_host or not _is_alloc(buffer.host)
        return understood

    def _has_own_lifetime(self, host: ir.Value) -> bool:
        """Return whether memory lives until its block ends or a ``memref.dealloc`` of it, and has one name.

        What loops carry may be released through its base, and a variable has a name for each use.
        """
        if isinstance(host.owner, ir.Block):
            return bool(host.owner == self._function.regions[0].blocks[0])
        return _is_alloc(host) or _constant(host) is not None

    def _uses(self, op: ir.Operation) -> tuple[set[_Buffer], set[_Buffer], set[_Buffer]]:
        """Return the buffers that kernels in ``op`` use, those that they write, and those of host code."""
        kernels: set[_Buffer] = set()
        written: set[_Buffer] = set()
        host: set[_Buffer] = set()
        for inner in matching(op, lambda inner: inner != op and inner.name not in _DESCRIPTOR_ONLY):
            for number, value in enumerate(inner.operands):
                if (buffer := self._traced(value)) is None:
                    continue
                is_launch = inner.name == _LAUNCH
                on_device = inner.name == "memref.copy" and not buffer.on_host
                (kernels if is_launch or on_device else host).add(buffer)
                if on_device or (is_launch and number in self._writes[inner]):
                    written.add(buffer)
        return kernels, written, host

    # ---- the walk ----

    def _allocate(self, buffer: _Buffer) -> None:
        """Allocate on the device where the memref is defined; release it at the end of that block."""
        block, maker = _block_of(buffer.host), defining_op(buffer.host)
        begin = block.operations[0].operation if maker is None else following(maker)
        buffer.device = _allocated(Emitter(begin), buffer.host, mirrors=True)
        if not any(use.owner.operation.name == _DEALLOC for use in buffer.host.uses):
            self._unreleased.append((block, buffer.device))

    def _walk(self, block: ir.Block) -> None:
        for op in [op.operation for op in block]:
            if op.name == _LAUNCH:
                self._launch(op)
            elif op.name == "memref.copy":
                self._copy(op)
            elif op.name == _DEALLOC:
                if (buffer := self._traced(op.operands[0])) is not None:
                    # `canonicalize` erases allocations of the host that have no other use.
                    Emitter(op).op("gpu.dealloc", [buffer.device], [])
            elif op.regions and operations(op, (_LAUNCH,)):
                self._enter(op)
            elif op.regions:
                self._use_on_host(op, [v for inner in matching(op, lambda _: True) for v in inner.operands])
            elif op.name not in _DESCRIPTOR_ONLY and not op.name.startswith("gpu."):
                self._use_on_host(op, op.operands, reads_only=op.name == "memref.load")
        for buffer in self._buffers.values():
            is_returned = buffer.traced and buffer.on_host and not _is_alloc(buffer.host)
            if is_returned and _block_of(buffer.host) == block:
                buffer.to_host(Emitter(terminator(block)))

    def _launch(self, launch: ir.Operation) -> None:
        emit = Emitter(launch)
        written = self._writes[launch]  # before operands, and with them its hash, change
        local: dict[_Buffer, ir.Value] = {}
        changed: set[_Buffer] = set()  # only these are copied back: others may share memory with one of them
        for number, value in enumerate(list(launch.operands)):
            if (buffer := self._find(value)) is None:
                continue
            if buffer.traced:
                buffer.to_device(emit)
            elif buffer not in local:
                local[buffer] = _allocated(emit, buffer.host)
                emit.op("gpu.memcpy", [local[buffer], buffer.host], [])
            launch.operands[number] = _view(emit, value, buffer.host, local.get(buffer) or buffer.device)
            if number in written:
                changed.add(buffer)
                buffer.host_current, buffer.device_current = False, True
        after = Emitter(following(launch))
        for buffer, device in local.items():
            if buffer in changed:
                after.op("gpu.memcpy", [buffer.host, device], [])
            after.op("gpu.dealloc", [device], [])

    def _copy(self, op: ir.Operation) -> None:
        """Copy on the device, or from it, what is current there."""
        source, target = map(self._traced, op.operands)
        emit = Emitter(op)
        from_device = source is not None and source.device_current and not source.host_current
        onto_device = target is not None and (from_device or not target.on_host)
        if source is not None and not from_device and not source.host_current:
            source.host_current = source.on_host  # it was never written
        if not from_device and not onto_device:
            self._use_on_host(op, op.operands)
            return
        if target is not None:
            if onto_device:
                target.to_device(emit)
            target.host_current, target.device_current = not onto_device, onto_device
        values = list(op.operands)
        if source is not None and (from_device or not source.on_host):
            values[0] = _view(emit, values[0], source.host, source.device)
        if target is not None and onto_device:
            values[1] = _view(emit, values[1], target.host, target.device)
        emit.op("gpu.memcpy", values[::-1], [])
        op.erase()

    def _enter(self, op: ir.Operation) -> None:
        """Walk regions with launches. What both sides use in them is current on both at each border."""
        kernels, written, host = self._uses(op)
        emit = Emitter(op)
        outer = [one for one in self._buffers.values() if one in kernels | host and is_outside(one.host, op)]
        for buffer in outer:
            if buffer in kernels:
                buffer.to_device(emit)
            if buffer in host:
                buffer.to_host(emit)
            elif buffer in written:
                buffer.host_current = False
            if buffer not in kernels:
                buffer.device_current = False
        entry = [(buffer, buffer.host_current, buffer.device_current) for buffer in outer]

        def restore() -> None:
            for buffer, on_host, on_device in entry:
                buffer.host_current, buffer.device_current = on_host, on_device

        for block in (block for region in op.regions for block in region.blocks):
            restore()
            self._walk(block)
            end = Emitter(terminator(block))
            for buffer in outer:
                if buffer in kernels & host:
                    buffer.to_host(end)
                    buffer.to_device(end)
        restore()

    def _use_on_host(self, op: ir.Operation, values: Iterable[ir.Value], *, reads_only: bool = False) -> None:
        used = set(map(self._traced, values))
        for buffer in self._buffers.values():
            if buffer in used:
                buffer.to_host(Emitter(op))
                if not reads_only:
                    buffer.host_current, buffer.device_current = True, False


def _copy_mirror(emit: Emitter, to: ir.Value | None, source: ir.Value | None) -> None:
    emit.op("gpu.memcpy", [to, source], [], {MIRROR: ir.UnitAttr.get()})


def _constant(value: ir.Value) -> ir.Operation | None:
    """Return the constant ``memref.global`` that ``value`` is the address of."""
    found = variable(value)
    return found if found is not None and "constant" in found.attributes else None


def _uploaded(held: ir.Operation, function: ir.Operation) -> ir.Value:
    """Return the copy of a constant on the device, which the runtime makes at its first use."""
    name = f"{symbol_name(held)}.on_devices"
    _declare(name, held)
    kind = held.attributes["type"].value
    emit = Emitter(function.regions[0].blocks[0].operations[0].operation)
    index, word = ir.IndexType.get(), ir.IntegerType.get_signless(64)
    pointer = ir.Type.parse("!llvm.ptr")
    here = emit.value("memref.get_global", [], kind, {"name": ir.FlatSymbolRefAttr.get(symbol_name(held))})
    source = emit.value("memref.extract_aligned_pointer_as_index", [here], index)
    bytes_ = emit.constant(prod(kind.shape) * (element_bytes(kind.element_type) or 0))
    copies = emit.value("llvm.mlir.addressof", [], pointer, {"global_name": ir.FlatSymbolRefAttr.get(name)})
    copies = emit.value("arith.index_cast", [emit.value("llvm.ptrtoint", [copies], word)], index)
    call = emit.call_function(CONSTANT_COPY, [copies, source, bytes_], [index])
    return with_address(emit, here, call.results[0])


def _declare(name: str, after: ir.Operation) -> None:
    """Declare the runtime's function and the list of a constant's copies, once each."""
    names = {symbol_name(op.operation) for op in after.block}
    emit = Emitter(following(after))
    if name not in names:
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "global_type": ir.TypeAttr.get(ir.Type.parse("!llvm.ptr")),
            "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        }
        copies = emit.op("llvm.mlir.global", [], [], attributes, regions=1)
        inside = emit.inside(copies.regions[0].blocks.append())
        zero = inside.value("llvm.mlir.zero", [], ir.Type.parse("!llvm.ptr"))
        inside.op("llvm.return", [zero], [])
    if CONSTANT_COPY not in names:
        index = ir.IndexType.get()
        attributes = {
            "sym_name": ir.StringAttr.get(CONSTANT_COPY),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([index] * 3, [index])),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        emit.op("func.func", [], [], attributes, regions=1)


def _is_alloc(value: ir.Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name in ("memref.alloc", "memref.alloca")


def _is_device(value: ir.Value) -> bool:
    op = defining_op(value)
    return op is not None and op.name == "gpu.alloc"


def _is_plain(value: ir.Value) -> bool:
    return is_contiguous(value.type) and value.type.memory_space is None


def _passes_on(op: ir.Operation) -> bool:
    """Return whether an operation may make another name for memory: as its result, or in another block."""
    if op.name.partition(".")[0] == "linalg":
        return False
    results = any(isinstance(r.type, ir.MemRefType | ir.UnrankedMemRefType) for r in op.results)
    blocks = bool(op.regions) or bool(op.successors)
    return results or blocks or op.name in ("scf.yield", "scf.condition", "cf.br", "cf.cond_br")


def _block_of(value: ir.Value) -> ir.Block:
    return value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block


def _allocated(emit: Emitter, host: ir.Value, *, mirrors: bool = False) -> ir.Value:
    """Allocate memory on the device for the shape of ``host``, as the same type if that has a layout."""
    kind = host.type
    plain = ir.MemRefType.get(kind.shape, kind.element_type)
    sizes = [emit.extent(host, n) for n in range(kind.rank) if kind.is_dynamic_dim(n)]
    segments = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, len(sizes), 0])}
    attributes = segments | ({MIRROR: ir.UnitAttr.get()} if mirrors else {})
    device = emit.op("gpu.alloc", sizes, [plain], attributes).results[0]
    return device if plain == kind else emit.value("memref.cast", [device], kind)


def _view(emit: Emitter, value: ir.Value, host: ir.Value, device: ir.Value) -> ir.Value:
    """Return the part of ``device`` that ``value`` is of ``host``, by copies of the views between them."""
    if value == host:
        return device
    op = defining_op(value)
    assert op is not None  # noqa: S101 - a view, up to ``host``
    copy = emit.copy(op)
    copy.operands[0] = _view(Emitter(copy), op.operands[0], host, device)
    return copy.results[0]
