"""Calls of the module's and CUDA's device functions, fences, and operations without effect on CPUs.

Functions in the LLVM dialect.

Services: functions of the runtime that kernels call through a table in their image.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.ir.builder import LlvmBuilder, replace
from gpubuild.engine.ir.diagnostics import file_position
from gpubuild.engine.ir.query import callee, operations, symbol_name

# Replaces an operation; it gets the function around it as well.
Rewrite: TypeAlias = Callable[[ir.Operation, ir.Operation, CpuLowering], None]


def functions(kernels: ir.Operation) -> list[ir.Operation]:
    """Return the functions with a body of a gpu.module."""
    return [
        op.operation
        for op in kernels.regions[0].blocks[0].operations
        if op.operation.name == "llvm.func" and has_body(op.operation)
    ]


def has_body(function: ir.Operation) -> bool:
    """Return whether ``function`` is more than a declaration."""
    return len(function.regions[0].blocks) > 0


def erase_declarations(kernels: ir.Operation, names: Container[str]) -> None:
    """Erase the functions without a body of these names, which nothing calls any more."""
    for op in list(kernels.regions[0].blocks[0].operations):
        function = op.operation
        if function.name == "llvm.func" and symbol_name(function) in names and not has_body(function):
            function.erase()


def work_item(function: ir.Operation) -> ir.Value:
    """Return the last argument of ``function``, of type ``gb_cpu_item *``."""
    arguments = function.regions[0].blocks[0].arguments
    return arguments[len(arguments) - 1]


_WRITES_NOTHING = (
    "#llvm.memory_effects<other = read, argMem = read, inaccessibleMem = readwrite, errnoMem = none, "
    "targetMem0 = none, targetMem1 = none>"
)


def call_service(
    build: LlvmBuilder,
    index: int,
    result: str,
    arguments: Sequence[ir.Value],
    *,
    variadic: str = "",
    writes_nothing: bool = False,
) -> ir.Operation:
    """Call function ``index`` of the runtime's service table; ``result`` is empty for none.

    One that ``writes_nothing`` keeps what it learns where no kernel looks, and throws nothing.
    """
    image = build.value(
        "llvm.mlir.addressof",
        "!llvm.ptr",
        global_name=ir.FlatSymbolRefAttr.get(image_layout.IMAGE_SYMBOL),
    )
    table = build.load(image, image_layout.IMAGE_SERVICES, "!llvm.ptr")
    function = build.load(table, 8 * index, "!llvm.ptr")
    operands = [function, *arguments]
    attributes = {
        "op_bundle_sizes": "array<i32>",
        "operandSegmentSizes": f"array<i32: {len(operands)}, 0>",
    }
    if writes_nothing:
        attributes["memory_effects"] = _WRITES_NOTHING
        attributes["no_unwind"] = "unit"
    if variadic:
        attributes["var_callee_type"] = variadic
    return build.op("llvm.call", [result] if result else [], operands, **attributes)


_FENCES = ("nvvm.memory.barrier", "nvvm.fence.sc.cluster", "nvvm.fence.proxy", "nvvm.fence.mbarrier.init")
_NO_EFFECT = ("nvvm.nanosleep", "nvvm.prefetch", "nvvm.setmaxregister", "nvvm.griddepcontrol")
_SEQUENTIALLY_CONSISTENT = "7 : i64"  # enum AtomicOrdering of the LLVM dialect


def lower_calls(module: ir.Module, lowering: CpuLowering) -> None:
    """Pass work-items on to functions of the module, and replace calls of device functions.

    Their declarations go, as nothing defines them for CPUs.
    """
    kernels = kernel_module(module)
    found = functions(kernels)
    defined = {symbol_name(function) for function in found}
    for function in found:
        for op in operations(function, _REWRITES.keys() | {"llvm.call"}):
            if op.name != "llvm.call":
                _REWRITES[op.name](op, function, lowering)
            elif "callee" not in op.attributes:
                if len(op.operands):
                    raise lowering.unsupported(op, "a call through a function pointer")
            elif callee(op) in defined:
                _pass_item(op, function)
            elif (rewrite := _DEVICE_FUNCTIONS.get(callee(op))) is not None:
                rewrite(op, function, lowering)
    erase_declarations(kernels, _DEVICE_FUNCTIONS)


def _fence(op: ir.Operation, _function: ir.Operation, _lowering: CpuLowering) -> None:
    LlvmBuilder(op).op("llvm.fence", [], ordering=_SEQUENTIALLY_CONSISTENT)
    replace(op)


def _drop(op: ir.Operation, _function: ir.Operation, _lowering: CpuLowering) -> None:
    replace(op)


def _reciprocal(op: ir.Operation, _function: ir.Operation, _lowering: CpuLowering) -> None:
    build = LlvmBuilder(op)
    one = build.value("llvm.mlir.constant", "f32", value="1.0 : f32")
    replace(op, build.binary("fdiv", one, op.operands[0]))


def _pass_item(op: ir.Operation, function: ir.Operation) -> None:
    operands = [*op.operands, work_item(function)]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["operandSegmentSizes"] = ir.Attribute.parse(f"array<i32: {len(operands)}, 0>")
    if "arg_attrs" in attributes:
        attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes["arg_attrs"], ir.DictAttr.get({})])
    attributes.pop("var_callee_type", None)
    call = LlvmBuilder(op).op("llvm.call", [r.type for r in op.results], operands, **attributes)
    replace(op, call.results[0] if len(op.results) else None)


def _place_item(op: ir.Operation, function: ir.Operation, lowering: CpuLowering) -> None:
    """The work-item's record says who runs: fissioned code keeps that in registers otherwise."""
    build = LlvmBuilder(op)
    for axis, value in enumerate(list(op.operands)[:3]):
        build.store(
            build.value("llvm.trunc", "i32", value),
            work_item(function),
            image_layout.ITEM_THREAD_ID + 4 * axis,
        )
    linear = build.value("llvm.trunc", "i32", op.operands[3])
    build.store(linear, work_item(function), image_layout.ITEM_LINEAR_ID)
    replace(op)


def _print(op: ir.Operation, function: ir.Operation, lowering: CpuLowering) -> None:
    """``vprintf(format, packed)`` becomes a variadic call: the layout of ``packed`` is known here."""
    form, packed = list(op.operands)
    build = LlvmBuilder(op)
    owner = packed.owner
    arguments = [work_item(function), form]
    if isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "llvm.alloca":
        _move_to_entry(owner.operation, function)
        kinds = _members(str(owner.operation.attributes["elem_type"].value))
        structure = owner.operation.attributes["elem_type"]
        for index, kind in enumerate(kinds):
            place = build.value(
                "llvm.getelementptr",
                "!llvm.ptr",
                packed,
                rawConstantIndices=f"array<i32: 0, {index}>",
                elem_type=structure,
                noWrapFlags="0 : i32",
            )
            arguments.append(_promote(build, build.load(place, 0, kind), kind))
    else:
        raise lowering.unsupported(op, "vprintf with arguments that were not packed on the spot")
    done = call_service(
        build, image_layout.SERVICE_PRINT, "i32", arguments, variadic="!llvm.func<i32 (ptr, ptr, ...)>"
    )
    replace(op, done.results[0])


def _move_to_entry(allocation: ir.Operation, function: ir.Operation) -> None:
    """In a loop each iteration would take more of the stack."""
    first = function.regions[0].blocks[0].operations[0].operation
    size = LlvmBuilder(first).constant(1, "i64")
    allocation.operands[0] = size
    if first != allocation:
        allocation.move_before(first)


def _promote(build: LlvmBuilder, value: ir.Value, kind: str) -> ir.Value:
    """C's promotion of variadic arguments."""
    if kind == "i1":
        return build.value("llvm.zext", "i32", value)
    if kind in {"i8", "i16"}:
        return build.value("llvm.sext", "i32", value)
    if kind in {"f16", "bf16", "f32"}:
        return build.value("llvm.fpext", "f64", value)
    return value


def _members(structure: str) -> list[str]:
    """Member types of ``!llvm.struct<(i64, f64, ptr)>``, which holds scalars only."""
    match = re.fullmatch(r"!llvm\.struct<(?:packed )?\((.*)\)>", structure)
    inside = match[1] if match else ""
    return ["!llvm.ptr" if kind == "ptr" else kind for kind in inside.split(", ") if kind]


def _assert(op: ir.Operation, function: ir.Operation, lowering: CpuLowering) -> None:
    message, file, line, _, _ = list(op.operands)
    build = LlvmBuilder(op)
    found = file_position(op.location)
    column = build.constant(found[2] if found else 0)
    call_service(
        build, image_layout.SERVICE_ASSERT_FAIL, "", [work_item(function), message, file, line, column]
    )
    replace(op)


def _check(service: int) -> Rewrite:
    """Return the rewrite of a call by which checked code reports to a service of the runtime."""

    def rewrite(op: ir.Operation, function: ir.Operation, _: CpuLowering) -> None:
        call_service(LlvmBuilder(op), service, "", [work_item(function), *op.operands], writes_nothing=True)
        replace(op)

    return rewrite


def _dynamic_bytes(op: ir.Operation, function: ir.Operation, _: CpuLowering) -> None:
    build = LlvmBuilder(op)
    size = build.load(work_item(function), image_layout.ITEM_DYNAMIC_BYTES, "i32")
    replace(op, build.value("llvm.zext", "i64", size))


_DEVICE_FUNCTIONS: dict[str, Rewrite] = {
    "vprintf": _print,
    "__assertfail": _assert,
    image_layout.PLACE_ITEM: _place_item,
    image_layout.CHECK_BOUNDS: _check(image_layout.SERVICE_CHECK_BOUNDS),
    image_layout.CHECK_VIEW: _check(image_layout.SERVICE_CHECK_VIEW),
    image_layout.CHECK_ACCESS: _check(image_layout.SERVICE_CHECK_ACCESS),
    image_layout.CHECK_MEET: _check(image_layout.SERVICE_CHECK_MEET),
    image_layout.CHECK_WAIT: _check(image_layout.SERVICE_CHECK_WAIT),
    image_layout.CHECK_DYNAMIC_BYTES: _dynamic_bytes,
}
_REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(_FENCES, _fence),
    **dict.fromkeys(_NO_EFFECT, _drop),
    "nvvm.rcp.approx.ftz.f": _reciprocal,
}
