"""Address spaces: from those of the LLVM dialect after ``convert-gpu-to-nvvm`` to SPIR-V's storage classes.

There a plain pointer is generic; here it is private (Function), and a generic one has number 4. Private memory is
allocated as such and cast. Variables are in global memory (CrossWorkgroup), since constant memory has no generic
pointers. Parameters of kernels must be pointers to global memory, and are cast as well.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.ir.query import operations

_GLOBAL, _WORKGROUP, GENERIC = 1, 3, 4
CONSTANT = 2  # texts of printf only
_PLAIN = re.compile(r"\bptr(?:<(\d+)>)?")
_SPACES = {None: GENERIC, "0": GENERIC, "4": _GLOBAL, "5": 0}  # by the number before; others stay
_STACK = frozenset({"llvm.alloca"})


def _use_generic_pointers(module: ir.Module, _: GpuLowering) -> None:
    (kernels,) = contexts.gpu_modules(module)
    private = _pointer(0)
    for op in operations(kernels, _STACK):
        op.results[0].set_type(_pointer(5))  # becomes 0 below
    kernels.walk(_retype)
    for op in operations(kernels, _STACK):
        _cast_result(op, private)
    _place_variables(kernels)
    for op in kernels.regions[0].blocks[0].operations:
        if op.operation.name == "llvm.func" and "gpu.kernel" in op.operation.attributes:
            _take_global_pointers(op.operation)


def _retype(op: ir.Operation) -> ir.WalkResult:
    values = [*op.results, *(value for region in op.regions for block in region for value in block.arguments)]
    for value in values:
        if "ptr" in str(value.type):
            value.set_type(_mapped(value.type))
    for name in op.attributes:
        attribute = op.attributes[name]
        if isinstance(attribute, ir.TypeAttr) and "ptr" in str(attribute):
            op.attributes[name] = ir.TypeAttr.get(_mapped(attribute.value))
    return ir.WalkResult.ADVANCE


def _mapped(kind: ir.Type) -> ir.Type:
    def replaced(match: re.Match[str]) -> str:
        space = _SPACES.get(match[1], match[1])
        return f"ptr<{space}>" if space else "ptr"

    return ir.Type.parse(_PLAIN.sub(replaced, str(kind)))


def _cast_result(op: ir.Operation, kind: ir.Type) -> None:
    """Give the result of ``op`` the pointer type ``kind``, and cast it to a generic pointer for its users."""
    result = op.results[0]
    result.set_type(kind)
    users = list(result.uses)
    emit = Emitter(_following(op))
    cast = emit.value("llvm.addrspacecast", [result], _pointer(GENERIC))
    for use in users:
        use.owner.operation.operands[use.operand_number] = cast


def _following(op: ir.Operation) -> ir.Operation:
    block = list(op.block.operations)
    return block[next(i for i, other in enumerate(block) if other.operation == op) + 1].operation


def _place_variables(kernels: ir.Operation) -> None:
    moved = set()
    for op in operations(kernels, {"llvm.mlir.global"}):
        space = op.attributes["addr_space"].value if "addr_space" in op.attributes else 0
        if space in (0, GENERIC):
            moved.add(op.attributes["sym_name"].value)
            op.attributes["addr_space"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _GLOBAL)
    for op in operations(kernels, {"llvm.mlir.addressof"}):
        if ir.FlatSymbolRefAttr(op.attributes["global_name"]).value in moved:
            _cast_result(op, _pointer(_GLOBAL))


def _take_global_pointers(kernel: ir.Operation) -> None:
    if not kernel.regions[0].blocks:
        return
    block = kernel.regions[0].blocks[0]
    generic = _pointer(GENERIC)
    changed = False
    for argument in block.arguments:
        if argument.type == generic:
            users = list(argument.uses)
            argument.set_type(_pointer(_GLOBAL))
            cast = Emitter(block.operations[0].operation).value("llvm.addrspacecast", [argument], generic)
            for use in users:
                use.owner.operation.operands[use.operand_number] = cast
            changed = True
    if changed:
        kinds = ", ".join(str(argument.type) for argument in block.arguments)
        kernel.attributes["function_type"] = ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<void ({kinds})>"))


def _pointer(space: int) -> ir.Type:
    return ir.Type.parse(f"!llvm.ptr<{space}>" if space else "!llvm.ptr")


USE_GENERIC_POINTERS: Pass[GpuLowering] = Pass(name="use-generic-pointers", run=_use_generic_pointers)
