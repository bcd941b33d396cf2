"""Find kernels worth compiling for arguments that do not overlap, and write the test for that.

Arguments may share memory, but rarely do. Without this LLVM would test for it before each vectorised loop.
Instead each launch and thread tests once, for whole memrefs, and the kernel is compiled twice: with
``noalias`` arguments for the usual case, and without. A kernel whose work-items fill a tile of workgroup
memory is also compiled for workgroups of the tile's shape: then loops over work-items become vectors, and
tiles stay in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import is_id, nested
from gpubuild.engine.backends.cpu.image_layout import MAX_BLOCK
from gpubuild.engine.backends.cpu.kernel_facts import MemrefParameter, Parameters
from gpubuild.engine.backends.cpu.nontemporal import PIECE_BYTES, WHOLE, filled, streams
from gpubuild.engine.backends.cpu.state import ALIAS_VERSIONS, CpuLowering, gpu_kernels
from gpubuild.engine.ir.query import VIEWS, defining_op, element_bytes

_LOADS = frozenset({"memref.load", "vector.load", "vector.transfer_read", "vector.maskedload"})
_HARMLESS = VIEWS | {"memref.dim"}
# With these, an access may lie outside the memref; foreign code may access any memory.
_UNBOUNDED = frozenset(
    {
        "memref.reinterpret_cast",
        "memref.extract_aligned_pointer_as_index",
        "memref.extract_strided_metadata",
        "builtin.unrealized_conversion_cast",
        "func.call",
    }
)
_FOREIGN = frozenset({"llvm", "nvvm", "nvgpu", "rocdl", "amdgpu", "ptr"})


def version_aliases(module: ir.Module, _: CpuLowering) -> None:
    """Describe the parameters of kernels that gain from a version for arguments that do not overlap."""
    for kernel in gpu_kernels(module):
        parameters = _parameters(kernel)
        if parameters is not None:
            kernel.attributes[ALIAS_VERSIONS] = parameters.attribute()


def _parameters(kernel: ir.Operation) -> Parameters | None:
    inside = nested(kernel)
    if any(op.name in _UNBOUNDED or op.name.partition(".")[0] in _FOREIGN for op in inside):
        return None
    entry = kernel.regions[0].blocks[0]
    inputs = ir.FunctionType(kernel.attributes["function_type"].value).inputs
    arguments = list(entry.arguments)[: len(inputs)]
    reached = {a: _reached(a) for a in arguments if isinstance(a.type, ir.MemRefType)}
    written = {a: any(op.name not in _LOADS for op in users) for a, users in reached.items()}
    known = "known_block_size" in kernel.attributes
    block = None if known else _likely_block(inside) or (_likely_row(inside) if streams(kernel) else None)
    if block is None and not (known and _fills_tile(inside)) and not _meet_in_a_block(reached):
        return None
    count, memrefs = 0, []
    for argument in arguments:
        kind = argument.type
        if not isinstance(kind, ir.MemRefType):
            if not isinstance(kind, ir.IndexType | ir.IntegerType | ir.FloatType | ir.VectorType):
                return None
            count += 1
            continue
        is_complex = isinstance(kind.element_type, ir.ComplexType)
        size = None if is_complex else element_bytes(kind.element_type)
        if size is None:
            return None
        try:
            strides, offset = kind.get_strides_and_offset()
        except ValueError:  # the layout is another affine map
            return None
        dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
        dense = size in WHOLE and bool(strides) and strides[-1] == 1
        sizes = (None if kind.is_dynamic_dim(i) else kind.get_dim_size(i) for i in range(kind.rank))
        memrefs.append(
            MemrefParameter(
                first=count,
                element_bytes=size,
                written=written[argument],
                filled=dense and filled(kernel, reached[argument]),
                offset=None if offset == dynamic else offset,
                sizes=tuple(sizes),
                strides=tuple(None if stride == dynamic else stride for stride in strides),
            )
        )
        count += 3 + 2 * kind.rank
    return Parameters(count=count, memrefs=tuple(memrefs), block=block)


def _reached(value: ir.Value) -> set[ir.Operation]:
    """Return the ops that use ``value`` or a view of it, other than for its shape."""
    found: set[ir.Operation] = set()
    for use in value.uses:
        op = use.owner.operation
        if op.name in _HARMLESS:
            for result in op.results:
                if isinstance(result.type, ir.MemRefType):
                    found |= _reached(result)
        else:
            found.add(op)
    return found


def _meet_in_a_block(reached: dict[ir.Value, set[ir.Operation]]) -> bool:
    """Return whether a block stores to one argument and uses another, so that LLVM may vectorise it."""
    stored: dict[ir.Block, set[ir.Value]] = {}
    used: dict[ir.Block, set[ir.Value]] = {}
    for argument, users in reached.items():
        for op in users:
            used.setdefault(op.block, set()).add(argument)
            if op.name not in _LOADS:
                stored.setdefault(op.block, set()).add(argument)
    return any(used[block] - {argument} for block, some in stored.items() for argument in some)


def _fills_tile(inside: Sequence[ir.Operation]) -> bool:
    """Return whether the kernel stores to workgroup memory, which LLVM does not know in unrolled loops."""
    return any(op.name == "memref.store" and _in_workgroup(op) for op in inside)


def _in_workgroup(store: ir.Operation) -> bool:
    return "workgroup" in str(ir.MemRefType(store.operands[1].type).memory_space)


def _likely_block(inside: Sequence[ir.Operation]) -> tuple[int, int, int] | None:
    """Return the shape of a tile of workgroup memory that is stored to at [y, x] of the work-item.

    It is the width alone for a tile with several rows for each work-item, stored to at [..., x].
    """
    for op in inside:
        if op.name != "memref.store" or len(op.operands) != 4 or not _is_thread(op.operands[3], "x"):
            continue
        kind = ir.MemRefType(op.operands[1].type)
        if not _in_workgroup(op) or not kind.has_static_shape:
            continue
        height, width = kind.shape
        width -= width == height + 1  # an unused column spreads the rows over banks
        if not _is_thread(op.operands[2], "y"):
            return width, 0, 0
        if width * height <= MAX_BLOCK:
            return width, height, 1
    return None


def _likely_row(inside: Sequence[ir.Operation]) -> tuple[int, int, int] | None:
    """Return the shape of a row of workgroup memory that is stored to at the work-item's x."""
    for op in inside:
        if op.name == "memref.store" and len(op.operands) == 3 and _is_thread(op.operands[2], "x"):
            kind = ir.MemRefType(op.operands[1].type)
            if _in_workgroup(op) and kind.has_static_shape and kind.shape[0] <= MAX_BLOCK:
                return kind.shape[0], 1, 1
    return None


def _is_thread(value: ir.Value, axis: str) -> bool:
    op = defining_op(value)
    return op is not None and op.name == "gpu.thread_id" and is_id(op, axis)


def test_of(parameters: Parameters, *, yes: str, no: str) -> str:
    """Return LLVM IR that branches to ``yes`` if no memref overlaps a written one, and the workgroup fits.

    It reads ``%arg<number>`` and ``%n<axis>``, the size of the workgroup.
    """
    lines = [line for number, memref in enumerate(parameters.memrefs) for line in _range(number, memref)]
    tests = []
    for (a, left), (b, right) in combinations(enumerate(parameters.memrefs), 2):
        if left.written or right.written:
            name = f"%apart.{a}.{b}"
            lines += [
                f"{name}.below = icmp ule i64 %m{a}.end, %m{b}.start",
                f"{name}.above = icmp ule i64 %m{b}.end, %m{a}.start",
                f"{name} = or i1 {name}.below, {name}.above",
            ]
            tests.append(name)
    for axis, extent in zip("xyz", parameters.block or (), strict=False):
        if extent:
            lines.append(f"%fits.{axis} = icmp eq i32 %n{axis}, {extent}")
            tests.append(f"%fits.{axis}")
    last = "true"
    for number, name in enumerate(tests):
        lines.append(f"%all.{number} = and i1 {last}, {name}")
        last = f"%all.{number}"
    return _text([*lines, f"br i1 {last}, label %{yes}, label %{no}"])


def test_of_size(parameters: Parameters, *, yes: str, no: str) -> str:
    """Return LLVM IR that branches to ``yes`` if filled memrefs exceed ``%cache`` bytes and are aligned.

    Their rows must start at a multiple of the size of a non-temporal store. The text follows that of
    :func:`test_of`, and reads ``%nx``, the width of a workgroup.
    """
    lines = ["%width = zext i32 %nx to i64"]
    last = "true"
    for number, memref in enumerate(parameters.memrefs):
        if not memref.filled:
            continue
        name = f"%m{number}"
        lines += [
            f"{name}.extent = sub i64 {name}.end, {name}.start",
            f"{name}.large = icmp sgt i64 {name}.extent, %cache",
            f"{name}.large.all = and i1 {last}, {name}.large",
        ]
        bits = f"{name}.base"
        for i, value in enumerate([*_steps(memref), "%width"]):
            lines += [
                f"{name}.step.{i} = mul i64 {value}, {memref.element_bytes}",
                f"{name}.places.{i} = or i64 {bits}, {name}.step.{i}",
            ]
            bits = f"{name}.places.{i}"
        lines += [
            f"{name}.rest = and i64 {bits}, {PIECE_BYTES - 1}",
            f"{name}.whole = icmp eq i64 {name}.rest, 0",
            f"{name}.direct = and i1 {name}.large.all, {name}.whole",
        ]
        last = f"{name}.direct"
    return _text([*lines, f"br i1 {last}, label %{yes}, label %{no}"])


def _text(lines: Sequence[str]) -> str:
    return "".join(f"  {line}\n" for line in lines)


def _steps(memref: MemrefParameter) -> list[str]:
    """Return the offset of a memref and the strides between its rows, in elements."""
    at = memref.first + 3 + len(memref.sizes)
    rows = [
        f"%arg{at + i}" if stride is None else str(stride) for i, stride in enumerate(memref.strides[:-1])
    ]
    return [f"%arg{memref.first + 2}" if memref.offset is None else str(memref.offset), *rows]


def facts_of_large(parameters: Parameters, width: str) -> str:
    """Return LLVM IR with assumptions that :func:`test_of_size` has tested; ``width`` is an i32."""
    lines = []
    for number, memref in enumerate(parameters.filled):
        base = f"%arg{memref.first + 1}"
        lines.append(f'call void @llvm.assume(i1 true) ["align"(ptr {base}, i64 {PIECE_BYTES})]')
        values = [(value, "i64") for value in _steps(memref)] + [(width, "i32")]
        for i, (value, kind) in enumerate(values):
            name = f"%whole.{number}.{i}"
            lines += [
                f"{name}.rest = and {kind} {value}, {PIECE_BYTES // memref.element_bytes - 1}",
                f"{name} = icmp eq {kind} {name}.rest, 0",
                f"call void @llvm.assume(i1 {name})",
            ]
    return _text(lines)


def _range(number: int, memref: MemrefParameter) -> list[str]:
    """Compute ``%m<number>.start`` and ``.end``: the addresses of the first byte and behind the last."""
    rank = len(memref.sizes)
    at = memref.first + 3
    start = str(memref.offset) if memref.offset is not None else f"%arg{memref.first + 2}"
    end = start
    lines = []
    for i, (size, stride) in enumerate(zip(memref.sizes, memref.strides, strict=True)):
        name = f"%m{number}.d{i}"
        extent = f"%arg{at + i}" if size is None else str(size)
        step = f"%arg{at + rank + i}" if stride is None else str(stride)
        lines += [
            f"{name}.last = sub i64 {extent}, 1",
            f"{name}.far = mul i64 {name}.last, {step}",
            f"{name}.back = icmp slt i64 {name}.far, 0",
            f"{name}.down = select i1 {name}.back, i64 {name}.far, i64 0",
            f"{name}.up = select i1 {name}.back, i64 0, i64 {name}.far",
            f"{name}.start = add i64 {start}, {name}.down",
            f"{name}.end = add i64 {end}, {name}.up",
        ]
        start, end = f"{name}.start", f"{name}.end"
    lines.append(f"%m{number}.base = ptrtoint ptr %arg{memref.first + 1} to i64")
    for word, value, more in (("start", start, 0), ("end", end, memref.element_bytes)):
        lines += [
            f"%m{number}.{word}.bytes = mul i64 {value}, {memref.element_bytes}",
            f"%m{number}.{word}.at = add i64 %m{number}.base, %m{number}.{word}.bytes",
            f"%m{number}.{word} = add i64 %m{number}.{word}.at, {more}",
        ]
    return lines
