"""Lower calls, fences and operations without effect on CPUs; call services of the runtime.

Kernels call a service through a table of function pointers in their image.
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
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.ir.query import callee, defining_op, symbol_name

Rewrite: TypeAlias = Callable[[ir.Operation, CpuLowering], None]  # replaces the operation


def functions(kernels: ir.Operation) -> list[ir.Operation]:
    """Return the functions with a body of a gpu.module."""
    ops = (op.operation for op in kernels.regions[0].blocks[0].operations)
    return [op for op in ops if op.name == "llvm.func" and op.regions[0].blocks]


def function_around(op: ir.Operation) -> ir.Operation:
    """Return the function that contains ``op``, which is not in the initial value of a variable."""
    while op.name != "llvm.func":
        op = op.parent.operation
    return op


def erase_declarations(kernels: ir.Operation, names: Container[str]) -> None:
    """Erase the functions without a body of these names, which have no call left."""
    for op in list(kernels.regions[0].blocks[0].operations):
        function = op.operation
        if function.name == "llvm.func" and symbol_name(function) in names and not function.regions[0].blocks:
            function.erase()


def work_item(op: ir.Operation) -> ir.Value:
    """Return the last argument of the function around ``op``, of type ``gb_cpu_item *``."""
    return function_around(op).regions[0].blocks[0].arguments[-1]


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
    """Call function ``index`` of the runtime's service table; an empty ``result`` stands for no result.

    A service that ``writes_nothing`` changes no memory that a kernel can read.
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

    The declarations of device functions are erased, as nothing defines them for CPUs.
    """
    kernels = kernel_module(module)
    defined = {symbol_name(function) for function in functions(kernels)}

    def call(op: ir.Operation, _: CpuLowering) -> None:
        if "callee" not in op.attributes:
            if len(op.operands):
                raise lowering.unsupported(op, "a call through a function pointer")
        elif callee(op) in defined:
            _pass_item(op)
        elif (rewrite := _DEVICE_FUNCTIONS.get(callee(op))) is not None:
            rewrite(op, lowering)

    rewriting("lower-calls", {**_REWRITES, "llvm.call": call}).run(module, lowering)
    erase_declarations(kernels, _DEVICE_FUNCTIONS)


def _fence(op: ir.Operation, _: CpuLowering) -> None:
    LlvmBuilder(op).op("llvm.fence", [], ordering=_SEQUENTIALLY_CONSISTENT)
    replace(op)


def _erase(op: ir.Operation, _: CpuLowering) -> None:
    replace(op)


def _reciprocal(op: ir.Operation, _: CpuLowering) -> None:
    build = LlvmBuilder(op)
    one = build.value("llvm.mlir.constant", "f32", value="1.0 : f32")
    replace(op, build.binary("fdiv", one, op.operands[0]))


def _pass_item(op: ir.Operation) -> None:
    operands = [*op.operands, work_item(op)]
    attributes = {name: op.attributes[name] for name in op.attributes}
    attributes["operandSegmentSizes"] = ir.Attribute.parse(f"array<i32: {len(operands)}, 0>")
    if "arg_attrs" in attributes:
        attributes["arg_attrs"] = ir.ArrayAttr.get([*attributes["arg_attrs"], ir.DictAttr.get({})])
    attributes.pop("var_callee_type", None)
    call = LlvmBuilder(op).op("llvm.call", [r.type for r in op.results], operands, **attributes)
    replace(op, call.results[0] if len(op.results) else None)


def _place_item(op: ir.Operation, _: CpuLowering) -> None:
    """Store the ids in the work-item's record; fissioned code keeps them in registers otherwise."""
    build = LlvmBuilder(op)
    fields = (*(image_layout.ITEM_THREAD_ID + 4 * axis for axis in range(3)), image_layout.ITEM_LINEAR_ID)
    for value, field in zip(op.operands, fields, strict=True):
        build.store(build.value("llvm.trunc", "i32", value), work_item(op), field)
    replace(op)


def _print(op: ir.Operation, lowering: CpuLowering) -> None:
    """Make a variadic call of ``vprintf(format, packed)``: the layout of ``packed`` is known here."""
    form, packed = op.operands
    allocation = defining_op(packed)
    if allocation is None or allocation.name != "llvm.alloca":
        raise lowering.unsupported(op, "vprintf with arguments that were not packed in the same function")
    build = LlvmBuilder(op)
    arguments = [work_item(op), form]
    _move_to_entry(allocation)
    structure = allocation.attributes["elem_type"]
    for index, kind in enumerate(_members(str(structure.value))):
        field = build.value(
            "llvm.getelementptr",
            "!llvm.ptr",
            packed,
            rawConstantIndices=f"array<i32: 0, {index}>",
            elem_type=structure,
            noWrapFlags="0 : i32",
        )
        value = build.load(field, 0, kind)
        arguments.append(build.value(*_PROMOTED[kind], value) if kind in _PROMOTED else value)
    done = call_service(
        build, image_layout.SERVICE_PRINT, "i32", arguments, variadic="!llvm.func<i32 (ptr, ptr, ...)>"
    )
    replace(op, done.results[0])


def _move_to_entry(allocation: ir.Operation) -> None:
    """Move an alloca to the entry: in a loop each iteration would use more of the stack."""
    first = function_around(allocation).regions[0].blocks[0].operations[0].operation
    size = LlvmBuilder(first).constant(1, "i64")
    allocation.operands[0] = size
    if first != allocation:
        allocation.move_before(first)


_PROMOTED = {  # C's promotion of variadic arguments
    "i1": ("llvm.zext", "i32"),
    **dict.fromkeys(("i8", "i16"), ("llvm.sext", "i32")),
    **dict.fromkeys(("f16", "bf16", "f32"), ("llvm.fpext", "f64")),
}


def _members(structure: str) -> list[str]:
    """Return the member types of ``!llvm.struct<(i64, f64, ptr)>``, which are scalars."""
    match = re.fullmatch(r"!llvm\.struct<(?:packed )?\((.*)\)>", structure)
    inside = match[1] if match else ""
    return ["!llvm.ptr" if kind == "ptr" else kind for kind in inside.split(", ") if kind]


def _assert(op: ir.Operation, _: CpuLowering) -> None:
    message, file, line, _, _ = list(op.operands)
    build = LlvmBuilder(op)
    found = file_position(op.location)
    column = build.constant(found[2] if found else 0)
    arguments = [work_item(op), message, file, line, column]
    call_service(build, image_layout.SERVICE_ASSERT_FAIL, "", arguments)
    replace(op)


def _call_check(op: ir.Operation, _: CpuLowering) -> None:
    service = _CHECKS[callee(op)]
    call_service(LlvmBuilder(op), service, "", [work_item(op), *op.operands], writes_nothing=True)
    replace(op)


def _dynamic_bytes(op: ir.Operation, _: CpuLowering) -> None:
    build = LlvmBuilder(op)
    size = build.load(work_item(op), image_layout.ITEM_DYNAMIC_BYTES, "i32")
    replace(op, build.value("llvm.zext", "i64", size))


_CHECKS = {
    image_layout.CHECK_BOUNDS: image_layout.SERVICE_CHECK_BOUNDS,
    image_layout.CHECK_VIEW: image_layout.SERVICE_CHECK_VIEW,
    image_layout.CHECK_ACCESS: image_layout.SERVICE_CHECK_ACCESS,
    image_layout.CHECK_MEET: image_layout.SERVICE_CHECK_MEET,
    image_layout.CHECK_WAIT: image_layout.SERVICE_CHECK_WAIT,
}
_DEVICE_FUNCTIONS: dict[str, Rewrite] = {
    "vprintf": _print,
    "__assertfail": _assert,
    image_layout.PLACE_ITEM: _place_item,
    **dict.fromkeys(_CHECKS, _call_check),
    image_layout.CHECK_DYNAMIC_BYTES: _dynamic_bytes,
}
_REWRITES: dict[str, Rewrite] = {
    **dict.fromkeys(_FENCES, _fence),
    **dict.fromkeys(_NO_EFFECT, _erase),
    "nvvm.rcp.approx.ftz.f": _reciprocal,
}
