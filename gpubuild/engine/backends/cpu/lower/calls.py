"""Calls: between the module's functions, of CUDA's device functions, and what has no work to do."""

from __future__ import annotations

import re
from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.builder import Builder, replace
from gpubuild.engine.backends.cpu.lower.state import FunctionState
from gpubuild.engine.backends.cpu.sanitizer import reports
from gpubuild.engine.ir.diagnostics import file_position

_FENCES = frozenset({"nvvm.membar", "nvvm.fence.sc.cluster", "nvvm.fence.proxy", "nvvm.fence.mbarrier.init"})
_NOTHING_TO_DO = frozenset({"nvvm.nanosleep", "nvvm.prefetch", "nvvm.setmaxregister", "nvvm.griddepcontrol"})
_SEQUENTIALLY_CONSISTENT = "7 : i64"  # enum AtomicOrdering of the LLVM dialect


def rewrite_call(op: ir.Operation, function: FunctionState) -> bool:
    """Replace a call that needs the work-item; say whether ``op`` is dealt with."""
    if op.name == "llvm.call":
        return _call(op, function)
    if op.name in _FENCES:
        Builder(op).op("llvm.fence", [], ordering=_SEQUENTIALLY_CONSISTENT)
        replace(op)
        return True
    if op.name in _NOTHING_TO_DO:
        replace(op)
        return True
    if op.name == "nvvm.rcp.approx.ftz.f":
        build = Builder(op)
        one = build.value("llvm.mlir.constant", "f32", value="1.0 : f32")
        replace(op, build.binary("fdiv", one, op.operands[0]))
        return True
    return False


def _call(op: ir.Operation, function: FunctionState) -> bool:
    if "callee" not in op.attributes:
        if len(op.operands):
            raise function.module.unsupported(op, "a call through a function pointer")
        return False
    callee = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
    if callee in function.module.defined:
        _pass_item(op, callee, function)
        return True
    rewrite = _DEVICE_FUNCTIONS.get(callee)
    if rewrite is None:
        return False
    rewrite(op, function)
    return True


def _pass_item(op: ir.Operation, callee: str, function: FunctionState) -> None:
    operands = [*op.operands, function.item]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["operandSegmentSizes"] = ir.Attribute.parse(f"array<i32: {len(operands)}, 0>")
    if "arg_attrs" in attributes:
        attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes["arg_attrs"], ir.DictAttr.get({})])
    attributes.pop("var_callee_type", None)
    call = Builder(op).op("llvm.call", [r.type for r in op.results], operands, **attributes)
    if callee not in function.facts.calls:
        function.facts.calls.append(callee)
    replace(op, call.results[0] if len(op.results) else None)


def _place_item(op: ir.Operation, function: FunctionState) -> None:
    """The work-item's record says who runs: fissioned code keeps that in registers otherwise."""
    build = Builder(op)
    for axis, value in enumerate(list(op.operands)[:3]):
        build.store(
            build.value("llvm.trunc", "i32", value), function.item, image_layout.ITEM_THREAD_ID + 4 * axis
        )
    linear = build.value("llvm.trunc", "i32", op.operands[3])
    build.store(linear, function.item, image_layout.ITEM_LINEAR_ID)
    replace(op)


def _print(op: ir.Operation, function: FunctionState) -> None:
    """``vprintf(format, packed)`` becomes a variadic call: the layout of ``packed`` is known here."""
    form, packed = list(op.operands)
    build = Builder(op)
    owner = packed.owner
    arguments = [function.item, form]
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
        raise function.module.unsupported(op, "vprintf with arguments that were not packed on the spot")
    done = build.service(
        image_layout.SERVICE_PRINT, "i32", arguments, variadic="!llvm.func<i32 (ptr, ptr, ...)>"
    )
    replace(op, done.results[0])


def _move_to_entry(allocation: ir.Operation, function: FunctionState) -> None:
    """In a loop each turn would take more of the stack."""
    first = function.item.owner.operations[0].operation
    size = Builder(first).constant(1, "i64")
    allocation.operands[0] = size
    if first != allocation:
        allocation.move_before(first)


def _promote(build: Builder, value: ir.Value, kind: str) -> ir.Value:
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


def _assert(op: ir.Operation, function: FunctionState) -> None:
    message, file, line, _, _ = list(op.operands)
    build = Builder(op)
    found = file_position(op.location)
    column = build.constant(found[2] if found else 0)
    build.service(image_layout.SERVICE_ASSERT_FAIL, "", [function.item, message, file, line, column])
    replace(op)


def _diverged(op: ir.Operation, function: FunctionState) -> None:
    build = Builder(op)
    bits, lanes = list(op.operands)
    site = build.constant(function.site(op))
    build.service(image_layout.SERVICE_DIVERGED, "", [function.item, site, bits, lanes])
    replace(op)


_DEVICE_FUNCTIONS: dict[str, Callable[[ir.Operation, FunctionState], None]] = {
    "vprintf": _print,
    "__assertfail": _assert,
    image_layout.PLACE_ITEM: _place_item,
    image_layout.DIVERGED: _diverged,
    **reports.REWRITES,
}
