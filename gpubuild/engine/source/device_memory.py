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
from math import prod

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.memrefs import MIRROR, with_address
from gpubuild.engine.ir.query import (
    VIEWS,
    defining_op,
    element_bytes,
    following,
    matching,
    operations,
    symbol_name,
)
from gpubuild.engine.source.parallel_loops import is_result, root
from gpubuild.support.frozen import frozen

_LAUNCH = "gpu.launch_func"
_DESCRIPTOR_ONLY = VIEWS | {"memref.dim", "memref.rank", "memref.extract_strided_metadata"}
_DEALLOC = ("memref.dealloc",)
CONSTANT_COPY = "gpubuildConstant"  # of the runtime, abi/constants.c


class _Buffer:
    """A memref of the host that kernels use, and its buffer on the device."""

    def __init__(self, host: ir.Value) -> None:
        self.host = host
        self.device: ir.Value | None = None
        self.host_current = not (_is_alloc(host) or is_result(host))
        self.device_current = False
        self.on_host = False  # whether host code uses its elements
        self.traced = True  # whether all of its uses are understood


@frozen
class _Uses:
    """The buffers that an operation's regions use, on each side, and those that kernels write."""

    kernels: frozenset[int]
    written: frozenset[int]
    host: frozenset[int]


def use_device_memory(function: ir.Operation, kernels: ir.Operation) -> None:
    """Give all launches in ``function`` memory of the device; ``kernels`` is the module around both."""
    launches = operations(function, (_LAUNCH,))
    if launches:
        _Placement(function, launches, kernels).run()


class _Placement:
    def __init__(self, function: ir.Operation, launches: list[ir.Operation], module: ir.Operation) -> None:
        self._function = function
        self._module = module
        self._writes = {op: written_arguments(op, module) for op in launches}
        self._buffers: list[_Buffer] = []
        self._unreleased: list[tuple[ir.Block, ir.Value]] = []
        for launch in launches:
            for value in _memrefs(launch):
                if self._find(value) is None and not _is_device(root(value)):
                    self._buffers.append(_Buffer(root(value)))
        blocks = [region for op in matching(function, lambda op: bool(op.regions)) for region in op.regions]
        structured = all(len(list(region.blocks)) <= 1 for region in blocks)
        for buffer in self._buffers:
            buffer.traced = structured and self._classify(buffer)

    def run(self) -> None:
        traced = [buffer for buffer in self._buffers if buffer.traced]
        for buffer in traced:
            if not _is_constant(buffer.host, self._module):
                self._allocate(buffer)
        for buffer in traced:  # each at the start of the function, so in front of all else
            if _is_constant(buffer.host, self._module):
                buffer.device = _uploaded(buffer.host, self._function, self._module)
                buffer.device_current = True
        for block in self._function.regions[0].blocks:
            self._walk(block)
        for block, device in self._unreleased:  # behind the copies at the end of the block
            Emitter(list(block)[-1].operation).op("gpu.dealloc", [device], [])

    # ---- what is known about a buffer ----

    def _find(self, value: ir.Value) -> int | None:
        if not isinstance(value.type, ir.MemRefType | ir.UnrankedMemRefType):
            return None
        base = root(value)
        return next((n for n, buffer in enumerate(self._buffers) if buffer.host == base), None)

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
                elif op.name == _LAUNCH or op.name in _DESCRIPTOR_ONLY or op.name in _DEALLOC:
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
        return _is_alloc(host) or _is_constant(host, self._module)

    def _uses(self, op: ir.Operation) -> _Uses:
        kernels: set[int] = set()
        written: set[int] = set()
        host: set[int] = set()
        for inner in matching(op, lambda inner: inner != op):
            for number, value in enumerate(inner.operands):
                found = self._find(value)
                if found is None or not self._buffers[found].traced or inner.name in _DESCRIPTOR_ONLY:
                    continue
                if inner.name == _LAUNCH:
                    kernels.add(found)
                    if number in self._writes[inner]:
                        written.add(found)
                elif inner.name == "memref.copy" and not self._buffers[found].on_host:
                    kernels.add(found)  # it is copied on the device
                    written.add(found)
                else:
                    host.add(found)
        return _Uses(kernels=frozenset(kernels), written=frozenset(written), host=frozenset(host))

    # ---- the walk ----

    def _allocate(self, buffer: _Buffer) -> None:
        """Allocate on the device where the memref is defined; release it at the end of that block."""
        owner = buffer.host.owner
        block = owner if isinstance(owner, ir.Block) else owner.operation.block
        begin = block.operations[0].operation if isinstance(owner, ir.Block) else following(owner.operation)
        emit = Emitter(begin)
        buffer.device = _allocated(emit, buffer.host, mirrors=True)
        releases = [use.owner.operation for use in buffer.host.uses if use.owner.operation.name in _DEALLOC]
        if not releases:
            self._unreleased.append((block, buffer.device))

    def _walk(self, block: ir.Block) -> None:
        for op in [op.operation for op in block]:
            if op.name == _LAUNCH:
                self._launch(op)
            elif op.name == "memref.copy":
                self._copy(op)
            elif op.name in _DEALLOC:
                self._release(op)
            elif op.regions and any(True for _ in operations(op, (_LAUNCH,))):
                self._enter(op)
            elif op.regions:
                self._use_on_host(op, [v for inner in matching(op, lambda _: True) for v in inner.operands])
            elif op.name not in _DESCRIPTOR_ONLY and not op.name.startswith("gpu."):
                self._use_on_host(op, op.operands, reads_only=op.name == "memref.load")
        end = list(block)[-1].operation
        for buffer in self._buffers:
            if (
                buffer.traced
                and buffer.on_host
                and _block_of(buffer.host) == block
                and not _is_alloc(buffer.host)
            ):
                self._to_host(Emitter(end), buffer)

    def _launch(self, launch: ir.Operation) -> None:
        emit = Emitter(launch)
        written = self._writes[launch]
        local: dict[int, ir.Value] = {}
        changed: set[int] = set()  # only these are copied back: others may share memory with one of them
        for number, value in enumerate(list(launch.operands)):
            found = self._find(value)
            if found is None:
                continue
            buffer = self._buffers[found]
            if not buffer.traced and found not in local:
                local[found] = _allocated(emit, buffer.host)
                emit.op("gpu.memcpy", [local[found], buffer.host], [])
            if buffer.traced:
                self._to_device(emit, buffer)
            launch.operands[number] = _view(emit, value, buffer.host, local.get(found) or buffer.device)
            if number in written:
                changed.add(found)
                buffer.host_current, buffer.device_current = False, True
        after = Emitter(following(launch))
        for found, device in local.items():
            if found in changed:
                after.op("gpu.memcpy", [self._buffers[found].host, device], [])
            after.op("gpu.dealloc", [device], [])

    def _copy(self, op: ir.Operation) -> None:
        """Copy on the device, or from it, what is current there."""
        source, target = (self._side(value) for value in op.operands)
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
                self._to_device(emit, target)
            target.host_current, target.device_current = not onto_device, onto_device
        values = list(op.operands)
        if source is not None and (from_device or not source.on_host):
            values[0] = _view(emit, values[0], source.host, source.device)
        if target is not None and onto_device:
            values[1] = _view(emit, values[1], target.host, target.device)
        emit.op("gpu.memcpy", values[::-1], [])
        op.erase()

    def _side(self, value: ir.Value) -> _Buffer | None:
        found = self._find(value)
        return self._buffers[found] if found is not None and self._buffers[found].traced else None

    def _release(self, op: ir.Operation) -> None:
        buffer = self._side(op.operands[0])
        if buffer is None:
            return
        # `canonicalize` erases allocations of the host that have no other use.
        Emitter(op).op("gpu.dealloc", [buffer.device], [])

    def _enter(self, op: ir.Operation) -> None:
        """Walk regions with launches. What both sides use in them is current on both at each border."""
        uses = self._uses(op)
        both = [self._buffers[n] for n in sorted(uses.kernels & uses.host)]
        device = [self._buffers[n] for n in sorted(uses.kernels - uses.host)]
        host = [self._buffers[n] for n in sorted(uses.host - uses.kernels)]
        outer = [b for b in (*both, *device, *host) if not _is_inside(b.host, op)]
        emit = Emitter(op)
        for buffer in outer:
            if buffer in device or buffer in both:
                self._to_device(emit, buffer)
                buffer.device_current = True
            if buffer in host or buffer in both:
                self._to_host(emit, buffer)
                buffer.host_current = True
            if buffer in device and self._buffers.index(buffer) in uses.written:
                buffer.host_current = False
            if buffer in host:
                buffer.device_current = False
        entry = [(buffer, buffer.host_current, buffer.device_current) for buffer in outer]
        for region in op.regions:
            for block in region.blocks:
                for buffer, on_host, on_device in entry:
                    buffer.host_current, buffer.device_current = on_host, on_device
                self._walk(block)
                end = Emitter(list(block)[-1].operation)
                for buffer in both:
                    if buffer in outer:
                        self._to_host(end, buffer)
                        self._to_device(end, buffer)
        for buffer, on_host, on_device in entry:
            buffer.host_current, buffer.device_current = on_host, on_device

    def _use_on_host(self, op: ir.Operation, values: Iterable[ir.Value], *, reads_only: bool = False) -> None:
        found = {n for n in map(self._find, values) if n is not None}
        for buffer in (self._buffers[n] for n in sorted(found)):
            if buffer.traced:
                self._to_host(Emitter(op), buffer)
                if not reads_only:
                    buffer.host_current, buffer.device_current = True, False

    def _to_device(self, emit: Emitter, buffer: _Buffer) -> None:
        if not buffer.device_current:
            if buffer.host_current:
                _copy_mirror(emit, buffer.device, buffer.host)
            buffer.device_current = True

    def _to_host(self, emit: Emitter, buffer: _Buffer) -> None:
        if not buffer.host_current:
            if buffer.device_current:
                _copy_mirror(emit, buffer.host, buffer.device)
            buffer.host_current = True


def _copy_mirror(emit: Emitter, to: ir.Value | None, source: ir.Value | None) -> None:
    emit.op("gpu.memcpy", [to, source], [], {MIRROR: ir.UnitAttr.get()})


def _memrefs(launch: ir.Operation) -> list[ir.Value]:
    return [v for v in launch.operands if isinstance(v.type, ir.MemRefType)]


def written_arguments(launch: ir.Operation, module: ir.Operation) -> frozenset[int]:
    """Return the numbers of the launch's operands through which its kernel may write."""
    outer, inner = launch.attributes["kernel"].value
    kernel = next(
        op
        for op in operations(module, ("gpu.func",))
        if op.attributes["sym_name"].value == inner and op.parent.attributes["sym_name"].value == outer
    )
    arguments = list(kernel.regions[0].blocks[0].arguments)
    first = len(launch.operands) - len(arguments)
    return frozenset(first + n for n, argument in enumerate(arguments) if _may_be_written(argument))


def _may_be_written(memory: ir.Value) -> bool:
    if not isinstance(memory.type, ir.MemRefType):
        return False
    for use in memory.uses:
        op = use.owner.operation
        if op.name in VIEWS:
            if any(_may_be_written(result) for result in op.results):
                return True
        elif op.name not in ("memref.load", "memref.dim", "vector.load"):
            return True
    return False


def _global(value: ir.Value, module: ir.Operation) -> ir.Operation | None:
    """Return the ``memref.global`` that ``value`` is the address of."""
    op = defining_op(value)
    if op is None or op.name != "memref.get_global":
        return None
    name = ir.FlatSymbolRefAttr(op.attributes["name"]).value
    return next(g for g in operations(module, ("memref.global",)) if symbol_name(g) == name)


def _is_constant(value: ir.Value, module: ir.Operation) -> bool:
    found = _global(value, module)
    return found is not None and "constant" in found.attributes


def _uploaded(host: ir.Value, function: ir.Operation, module: ir.Operation) -> ir.Value:
    """Return the copy of a constant on the device, which the runtime makes at its first use."""
    held = _global(host, module)
    assert held is not None  # noqa: S101 - the caller has asked
    name = f"{symbol_name(held)}.on_devices"
    _declare(name, held, module)
    kind = ir.MemRefType(host.type)
    emit = Emitter(function.regions[0].blocks[0].operations[0].operation)
    index, word = ir.IndexType.get(), ir.IntegerType.get_signless(64)
    pointer = ir.Type.parse("!llvm.ptr")
    here = emit.value("memref.get_global", [], kind, {"name": ir.FlatSymbolRefAttr.get(symbol_name(held))})
    source = emit.value("memref.extract_aligned_pointer_as_index", [here], index)
    bytes_ = emit.constant(prod(kind.shape) * (element_bytes(kind.element_type) or 0))
    copies = emit.value("llvm.mlir.addressof", [], pointer, {"global_name": ir.FlatSymbolRefAttr.get(name)})
    copies = emit.value("arith.index_cast", [emit.value("llvm.ptrtoint", [copies], word)], index)
    callee = {"callee": ir.FlatSymbolRefAttr.get(CONSTANT_COPY)}
    address = emit.value("func.call", [copies, source, bytes_], index, callee)
    return with_address(emit, here, address)


def _declare(name: str, after: ir.Operation, module: ir.Operation) -> None:
    """Declare the runtime's function and the list of a constant's copies, once each."""
    names = {symbol_name(op.operation) for op in module.regions[0].blocks[0]}
    emit = Emitter(following(after))
    if name not in names:
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "global_type": ir.TypeAttr.get(ir.Type.parse("!llvm.ptr")),
            "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        }
        variable = emit.op("llvm.mlir.global", [], [], attributes, regions=1)
        inside = emit.inside(variable.regions[0].blocks.append())
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
    kind = ir.MemRefType(value.type)
    return (
        bool(kind.layout == ir.MemRefType.get(kind.shape, kind.element_type).layout)
        and kind.memory_space is None
    )


def _passes_on(op: ir.Operation) -> bool:
    """Return whether an operation may make another name for memory: as its result, or in another block."""
    if op.name.partition(".")[0] == "linalg":
        return False
    results = any(isinstance(r.type, ir.MemRefType | ir.UnrankedMemRefType) for r in op.results)
    blocks = bool(op.regions) or bool(op.successors)
    return results or blocks or op.name in ("scf.yield", "scf.condition", "cf.br", "cf.cond_br")


def _block_of(value: ir.Value) -> ir.Block:
    return value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block


def _is_inside(value: ir.Value, op: ir.Operation) -> bool:
    around = _block_of(value).owner
    while around is not None:
        if around.operation == op:
            return True
        around = around.operation.parent
    return False


def _allocated(emit: Emitter, host: ir.Value, *, mirrors: bool = False) -> ir.Value:
    """Allocate memory on the device for the shape of ``host``, as the same type if that has a layout."""
    kind = ir.MemRefType(host.type)
    plain = ir.MemRefType.get(kind.shape, kind.element_type)
    sizes = [
        emit.value("memref.dim", [host, emit.constant(n)], ir.IndexType.get())
        for n in range(kind.rank)
        if kind.is_dynamic_dim(n)
    ]
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
