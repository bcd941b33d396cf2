"""Operations of OpenCL devices: printf, the size of subgroups, and what they lack."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.backends.spirv.address_spaces import (
    CONSTANT,
    FLAG,
    add_parameters,
    parameter_variables,
)
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Compare, Emitter, LlvmBuilder, replace
from gpubuild.engine.ir.passes import Lowering, Pass, rewriting
from gpubuild.engine.ir.query import (
    callee,
    element_type,
    enclosing,
    first,
    kernel_functions,
    kernel_module,
    matching,
    operations,
    scalar_bits,
    shaped_like,
    symbol_name,
)
from gpubuild.engine.legalize import matrices, small_floats, unsupported_ops
from gpubuild.engine.legalize.printf import failed_assertion

PRINTF = "_Z18__spirv_ocl_printfPU3AS2Kcz"
_PRINTF_TYPE = f"i32 (ptr<{CONSTANT}>, ...)"
_FORMAT = "gpubuild.format."  # of a printf; its number follows
_SUBGROUP_SIZE = "intel_reqd_sub_group_size"
_KNOWN_SIZES = ("known_block_size", "gpu.known_block_size")
_ATOMICS = frozenset({"memref.atomic_rmw", "memref.generic_atomic_rmw"})
_ATOMIC_BITS = (32, 64)
_EXTENDED, _EXTENDED_BITS = frozenset({"arith.mulsi_extended", "arith.mului_extended"}), 32
_SHAPE = re.compile(r"nvvm\.read\.ptx\.sreg\.(tid|ntid)\.([xyz])")
# By kind of memref.atomic_rmw.
_FLOAT_ATOMICS = {
    0: "arith.addf", 4: "arith.maximumf", 5: "arith.maxnumf", 8: "arith.minimumf", 9: "arith.minnumf",
}  # fmt: skip
_LOWERED = "spir_kernelcc"
_LANES = frozenset({"nvvm.shfl.sync", "nvvm.read.ptx.sreg.laneid"})


def refusal(op: ir.Operation, _: GpuLowering) -> str:
    """Return why OpenCL devices cannot execute ``op``, or an empty string."""
    if op.name in _ATOMICS and scalar_bits(element_type(op.results[0].type)) not in _ATOMIC_BITS:
        return f"'{op.name}' of {op.results[0].type}: OpenCL has atomic operations of 32 and 64 bits"
    if op.name in _EXTENDED and scalar_bits(element_type(op.results[0].type)) > _EXTENDED_BITS:
        return f"'{op.name}' of {op.results[0].type}: SPIR-V has no integers of 128 bits"
    if op.name == "llvm.func" and _LOWERED in str(op.attributes.get("CConv", "")):
        return (
            f"{_LOWERED} @{symbol_name(op)} is lowered for SPIR-V; gpubuild does that, from the gpu dialect"
        )
    return ""


def _expand_assert(op: ir.Operation, _: Lowering) -> None:
    """Print a message and set the flag of failed assertions, which the runtime reads."""
    i32 = ir.IntegerType.get_signless(32)
    inside, text = failed_assertion(op)
    _print(op, inside, text + "\n", [])
    pointer = ir.Type.parse("!llvm.ptr")
    flag = inside.value("llvm.mlir.addressof", [], pointer, {"global_name": ir.FlatSymbolRefAttr.get(FLAG)})
    inside.op("llvm.store", [inside.constant(1, i32), flag], [], {"ordering": ir.Attribute.parse("0 : i64")})
    inside.op("scf.yield", [], [])
    if not any(symbol_name(o.operation) == FLAG for o in _variables(op)):
        variable = {
            "sym_name": ir.StringAttr.get(FLAG),
            "global_type": ir.TypeAttr.get(i32),
            "linkage": ir.Attribute.parse("#llvm.linkage<external>"),
            "addr_space": ir.IntegerAttr.get(i32, 0),
        }
        _at_begin(op, "llvm.mlir.global", variable)
    op.erase()


def _variables(op: ir.Operation) -> list[ir.OpView]:
    return [o for o in kernel_module(op).regions[0].blocks[0] if o.operation.name == "llvm.mlir.global"]


def _expand_printf(op: ir.Operation, _: Lowering) -> None:
    emit = Emitter(op)
    i64 = ir.IntegerType.get_signless(64)
    values = [
        emit.value("arith.index_cast", [value], i64) if isinstance(value.type, ir.IndexType) else value
        for value in op.operands
    ]
    _print(op, emit, op.attributes["format"].value, values)
    op.erase()


def _print(op: ir.Operation, emit: Emitter, text: str, values: Sequence[ir.Value]) -> None:
    """Call OpenCL's printf, whose format is in constant memory."""
    body = kernel_module(op).regions[0].blocks[0]
    pointer = ir.Type.parse(f"!llvm.ptr<{CONSTANT}>")
    number = sum(symbol_name(o.operation).startswith(_FORMAT) for o in _variables(op))
    i32 = ir.IntegerType.get_signless(32)
    variable = {
        "sym_name": ir.StringAttr.get(f"{_FORMAT}{number}"),
        "global_type": ir.TypeAttr.get(ir.Type.parse(f"!llvm.array<{len(text.encode()) + 1} x i8>")),
        "linkage": ir.Attribute.parse("#llvm.linkage<internal>"),
        "constant": ir.UnitAttr.get(),
        "value": ir.StringAttr.get(text + "\0"),
        "addr_space": ir.IntegerAttr.get(i32, CONSTANT),
    }
    _at_begin(op, "llvm.mlir.global", variable)
    kind = ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<{_PRINTF_TYPE}>"))
    if not any(symbol_name(o.operation) == PRINTF for o in body if o.operation.name == "llvm.func"):
        _at_begin(op, "llvm.func", {"sym_name": ir.StringAttr.get(PRINTF), "function_type": kind})
    name = ir.FlatSymbolRefAttr.get(f"{_FORMAT}{number}")
    address = emit.value("llvm.mlir.addressof", [], pointer, {"global_name": name})
    emit.call(PRINTF, [address, *values], [i32]).attributes["var_callee_type"] = kind


def _at_begin(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    point = ir.InsertionPoint.at_block_begin(kernel_module(op).regions[0].blocks[0])
    ir.Operation.create(name, regions=1, attributes=attributes, loc=op.location, ip=point)


def _inline_functions(module: ir.Module, state: GpuLowering) -> None:
    """Inline functions into kernels if some use what is a parameter of the kernel on OpenCL devices.

    This is workgroup memory of a size chosen at launch, the flag of failed assertions, and, where subgroups
    are used, the shape of the workgroup.
    """
    (kernels,) = contexts.gpu_modules(module)
    lanes = first(kernels, lambda op: op.name in _LANES) is not None
    passed = parameter_variables(kernels)

    def is_passed(op: ir.Operation) -> bool:
        if op.name == "llvm.mlir.addressof":
            used = ir.FlatSymbolRefAttr(op.attributes["global_name"]).value in passed
        else:
            used = lanes and _SHAPE.fullmatch(op.name) is not None
        function = enclosing(op, ("llvm.func",)) if used else None
        return function is not None and "gpu.kernel" not in function.attributes

    if first(kernels, is_passed) is None:
        return
    contexts.run_passes(module, "builtin.module(gpu.module(inline))", source=state.source)
    while unused := _uncalled(kernels):
        for function in unused:
            function.erase()


def _uncalled(kernels: ir.Operation) -> list[ir.Operation]:
    """Return the functions that are no kernels, have a body, and are not referred to."""
    named = _referred(kernels)
    return [
        op
        for op in operations(kernels, {"llvm.func"})
        if "gpu.kernel" not in op.attributes and op.regions[0].blocks and symbol_name(op) not in named
    ]


def _require_subgroups(module: ir.Module, state: GpuLowering) -> None:
    """Require subgroups of the size that the code assumes, of kernels that use lanes.

    OpenCL does not say which work-items of a workgroup with several rows form a subgroup. Such kernels run
    in workgroups of one row, whose subgroups are known; their shape is two more parameters.
    """
    (kernels,) = contexts.gpu_modules(module)
    i32 = ir.IntegerType.get_signless(32)
    size = ir.IntegerAttr.get(i32, state.capabilities.subgroup_size)
    shapes = {}
    for kernel in kernel_functions(kernels):
        if _uses_lanes(kernel, kernels):
            kernel.attributes[_SUBGROUP_SIZE] = size
            shapes[kernel] = add_parameters(kernel, [i32, i32])
    for op in matching(kernels, lambda op: _SHAPE.fullmatch(op.name) is not None):
        function = enclosing(op, ("llvm.func",))
        if function in shapes:
            _use_shape(op, *shapes[function])
        elif shapes and function is not None and "gpu.kernel" not in function.attributes:
            reason = "a function other than a kernel reads its position in a workgroup that uses subgroups"
            raise unsupported_ops.cannot_compile([(op, reason)], state)


def _uses_lanes(kernel: ir.Operation, kernels: ir.Operation) -> bool:
    """Return whether ``kernel`` or a function that it refers to uses lanes."""
    functions = {symbol_name(op): op for op in operations(kernels, {"llvm.func"})}
    seen, todo = {symbol_name(kernel)}, [kernel]
    while todo:
        function = todo.pop()
        if first(function, lambda op: op.name in _LANES) is not None:
            return True
        found = _referred(function) & functions.keys() - seen
        seen |= found
        todo += [functions[name] for name in found]
    return False


def _referred(root: ir.Operation) -> set[str]:
    """Return the names that calls and addresses in ``root`` refer to."""
    uses = [*operations(root, {"llvm.call"}), *operations(root, {"llvm.mlir.addressof"})]
    return {callee(op) or str(op.attributes.get("global_name", ""))[1:] for op in uses}


def _require_workgroup(kernel: ir.Operation, _: Lowering) -> None:
    """Require workgroups of the known size; those of kernels that use subgroups have one row."""
    known = next((kernel.attributes[name] for name in _KNOWN_SIZES if name in kernel.attributes), None)
    if known is None or "gpu.kernel" not in kernel.attributes:
        return
    sizes = list(ir.DenseI32ArrayAttr(known))
    if _SUBGROUP_SIZE in kernel.attributes:
        sizes = [prod(sizes), 1, 1]
    kernel.attributes["reqd_work_group_size"] = ir.DenseI32ArrayAttr.get(sizes)


def _use_shape(op: ir.Operation, x: ir.Value, y: ir.Value) -> None:
    """Compute a position or an extent from those of the row, and the extents ``x`` and ``y``."""
    build = LlvmBuilder(op)
    what, axis = _SHAPE.fullmatch(op.name).groups()  # type: ignore[union-attr]
    if what == "ntid" and axis in "xy":
        replace(op, x if axis == "x" else y)
        return
    kind = str(op.results[0].type)
    row = build.value(f"nvvm.read.ptx.sreg.{what}.x", kind)
    if axis == "x":
        replace(op, build.binary("urem", row, x))
    elif axis == "y":
        replace(op, build.binary("urem", build.binary("udiv", row, x), y))
    else:
        replace(op, build.binary("udiv", row, build.binary("mul", x, y)))


def _expand_float_atomic(op: ir.Operation, _: Lowering) -> None:
    """Expand an atomic operation on floats to a loop of compare-and-exchange: others are extensions."""
    function = _FLOAT_ATOMICS.get(ir.IntegerAttr(op.attributes["kind"]).value)
    if function is None:
        return
    emit = Emitter(op)
    value, memory, *indices = list(op.operands)
    atomic = emit.op("memref.generic_atomic_rmw", [memory, *indices], [value.type], regions=1)
    body = atomic.regions[0].blocks.append(value.type)
    inside = emit.inside(body)
    inside.op("memref.atomic_yield", [inside.binary(function, body.arguments[0], value)], [])
    emit.replace(atomic.results[0])


def _convert_by_f32(op: ir.Operation, _: Lowering) -> None:
    """Convert between bf16 and integers or f64 through f32: upstream's patterns know no others."""
    value, kind = op.operands[0], op.results[0].type
    given, wanted = (str(element_type(one)) for one in (value.type, kind))
    emit, wide = Emitter(op), shaped_like(kind, ir.F32Type.get())
    if op.name == "arith.extf":
        if (given, wanted) == ("bf16", "f64"):
            emit.replace(emit.value(op.name, [emit.value(op.name, [value], wide)], kind))
    elif wanted == "bf16" and given != "f32":
        if op.name == "arith.truncf":
            near = emit.value("arith.bitcast", [small_floats.f32_bits(emit, value)], wide)
        else:
            near = emit.value(op.name, [value], wide)
        emit.replace(emit.value("arith.truncf", [near], kind))


def _compare_last_bit(op: ir.Operation, _: Lowering) -> None:
    """Truncate to i1 by a comparison: LLVM makes one operation of an extension of it, with wrong types."""
    value, emit = op.operands[0], Emitter(op)
    if scalar_bits(element_type(op.results[0].type)) == 1:
        bit = emit.binary("arith.andi", value, emit.constant(1, value.type))
        emit.replace(emit.compare(Compare.NE, bit, emit.constant(0, value.type)))


def _erase(op: ir.Operation, _: Lowering) -> None:
    op.erase()


def wait(emit: Emitter, _: ir.Operation) -> None:
    """Make the lanes of a subgroup wait for each other."""
    every = emit.constant(-1, ir.IntegerType.get_signless(32))
    emit.op("nvvm.bar.warp.sync", [every], [])


def _expand_matrices(module: ir.Module, state: GpuLowering) -> None:
    matrices.expand_matrices(module, state, wait=wait)


EXPAND_FLOAT_ATOMICS = rewriting("expand-float-atomics", {"memref.atomic_rmw": _expand_float_atomic})
TRUNCATE_BY_COMPARISON = rewriting("truncate-by-comparison", {"arith.trunci": _compare_last_bit})
_CONVERSIONS = ("arith.sitofp", "arith.uitofp", "arith.extf", "arith.truncf")
CONVERT_BF16_BY_F32 = rewriting("convert-bf16-by-f32", dict.fromkeys(_CONVERSIONS, _convert_by_f32))
DROP_PREFETCHES = rewriting("drop-prefetches", {"memref.prefetch": _erase, "affine.prefetch": _erase})
EXPAND_MATRICES: Pass[GpuLowering] = Pass(name="expand-matrices", run=_expand_matrices)
EXPAND_PRINTF = rewriting("messages-to-opencl", {"gpu.printf": _expand_printf, "cf.assert": _expand_assert})
INLINE_FUNCTIONS: Pass[GpuLowering] = Pass(name="inline-functions", run=_inline_functions)
REQUIRE_WORKGROUPS = rewriting("require-workgroups", {"llvm.func": _require_workgroup})
REQUIRE_SUBGROUPS: Pass[GpuLowering] = Pass(name="require-subgroups", run=_require_subgroups)
