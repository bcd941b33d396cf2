"""Find what C and Python can call: functions with ``llvm.emit_c_interface``, and kernels."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.host.interface import Argument, Function, Interface, Kernel, Kind, Result
from gpubuild.engine.ir.query import (
    defining_op,
    is_contiguous,
    kernel_functions,
    strides_and_offset,
    symbol_name,
    terminator,
    viewed_memory,
)
from gpubuild.engine.source.memory_uses import is_written

ATTRIBUTE = "llvm.emit_c_interface"
_DYNAMIC = ir.ShapedType.get_dynamic_size()
_SCALARS = ("i1", "i8", "i16", "i32", "i64", "index", "f16", "bf16", "f32", "f64")
_ELEMENTS = {*_SCALARS, "complex<f32>", "complex<f64>"}
_SMALL_FLOATS = (
    "f8E5M2", "f8E4M3", "f8E3M4", "f8E4M3FN", "f8E5M2FNUZ", "f8E4M3FNUZ", "f8E4M3B11FNUZ", "f8E8M0FNU",
)  # fmt: skip
_OWNERS = {"memref.alloc": "caller", "memref.get_global": "library"}
_GLOBAL_SPACES = ("", "1", "1 : i64", "#gpu.address_space<global>")
_UNRANKED = ": write a function for each rank, which calls this one with the result of memref.cast"
_TAKES = "takes"
_RETURNS = "returns"


def describe(module: ir.Module, names: dict[str, list[str]]) -> Interface | None:
    """Return the records of exported functions and of kernels, if there are any.

    ``names`` are those of arguments in the source, by function or MODULE::KERNEL.
    """
    top = [op.operation for op in module.body]
    functions = [
        _describe(op, names.get(symbol_name(op), []))
        for op in top
        if op.name == "func.func" and ATTRIBUTE in op.attributes and op.regions[0].blocks
    ]
    kernels = [
        _describe_kernel(symbol_name(inner), op, names)
        for inner in top
        if inner.name == "gpu.module"
        for op in kernel_functions(inner)
        if op.name == "gpu.func"
    ]
    return Interface(functions=functions, kernels=kernels) if functions or kernels else None


def _describe_kernel(module: str, op: ir.Operation, names: dict[str, list[str]]) -> Kernel:
    kind = op.attributes["function_type"].value
    reasons: list[str] = []
    known = names.get(f"{module}::{symbol_name(op)}", [])
    values = list(op.regions[0].blocks[0].arguments)[: len(kind.inputs)]
    arguments = _arguments(values, known, reasons)
    for argument in arguments:
        if argument["type"]["space"] not in _GLOBAL_SPACES:
            reasons.append(f"{_TAKES} {argument['type']['text']}")
    return Kernel(
        module=module,
        name=symbol_name(op),
        text=str(kind),
        reason=reasons[0] if reasons else "",
        arguments=arguments,
    )


def _arguments(values: Sequence[ir.BlockArgument], names: list[str], reasons: list[str]) -> list[Argument]:
    return [
        Argument(
            name=(names[number] if number < len(names) else "") or f"argument{number}",
            type=_kind(value.type, _TAKES, reasons),
            written=isinstance(value.type, ir.MemRefType) and is_written(value),
        )
        for number, value in enumerate(values)
    ]


def _describe(op: ir.Operation, names: list[str]) -> Function:
    block = op.regions[0].blocks[0]
    kind = op.attributes["function_type"].value
    reasons: list[str] = []
    arguments = _arguments(list(block.arguments), names, reasons)
    returned = [list(end.operands) for end in _returns(op)]
    results = [
        Result(type=_kind(type_, _RETURNS, reasons), owner=_owner([values[number] for values in returned]))
        for number, type_ in enumerate(kind.results)
    ]
    if any(item["owner"] == "device" for item in results):
        reasons.append("returns device memory of gpu.alloc")
    return Function(
        name=symbol_name(op),
        text=str(kind),
        reason=reasons[0] if reasons else "",
        arguments=arguments,
        results=results,
    )


def _returns(op: ir.Operation) -> list[ir.Operation]:
    ends = map(terminator, op.regions[0].blocks)
    return [end for end in ends if end.name == "func.return"]


def _kind(type_: ir.Type, verb: str, reasons: list[str]) -> Kind:
    """Describe a type; add to ``reasons`` if callers cannot pass it."""
    text = str(type_)
    if not isinstance(type_, ir.MemRefType):
        if text not in _ELEMENTS:
            unranked = isinstance(type_, ir.UnrankedMemRefType)
            reasons.append(f"{verb} {text}{_UNRANKED if unranked else ''}")
        return Kind(text=text, element=text, sizes=None, strides=[], offset=0, contiguous=True, space="")
    element = str(type_.element_type)
    strides: list[int | None] = []
    offset: int | None = 0
    if element not in _ELEMENTS and element not in _SMALL_FLOATS:
        reasons.append(f"{verb} a memref of {element}")
    if (layout := strides_and_offset(type_)) is None:
        reasons.append(f"{verb} {text}, whose layout has no strides")
    else:
        strides, offset = [_static(stride) for stride in layout[0]], _static(layout[1])
    return Kind(
        text=text,
        element=element,
        sizes=[_static(size) for size in type_.shape],
        strides=strides,
        offset=offset,
        contiguous=is_contiguous(type_),
        space=str(type_.memory_space or ""),
    )


def _static(value: int) -> int | None:
    return None if value == _DYNAMIC else value


def _owner(values: list[ir.Value]) -> str:
    """Return to which part the memory of a result belongs, if each return statement agrees on it."""
    owners = {_origin(value) for value in values}
    return owners.pop() if len(owners) == 1 else ""


def _origin(value: ir.Value) -> str:
    value = viewed_memory(value)
    op = defining_op(value)
    if op is None:
        block = value.owner
        is_entry = block.owner.operation.name == "func.func" and block == block.region.blocks[0]
        return "argument" if is_entry else ""
    return "device" if op.name == "gpu.alloc" else _OWNERS.get(op.name, "")
