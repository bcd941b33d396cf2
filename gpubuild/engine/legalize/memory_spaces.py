"""Write the private address space by its name where a module has its number."""

from __future__ import annotations

from typing import Any

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.passes import Lowering, Pass
from gpubuild.engine.ir.query import attributions

PRIVATE = 5  # the number of private memory in the documents of the dialect, and on AMD
_NAME = "#gpu.address_space<private>"


def _name_private(module: ir.Module, _: Lowering) -> None:
    """Replace space 5 in all types, where a kernel declares private memory with that number.

    NVIDIA's and the CPU's conversions take private memory with the space's name only.
    """
    inner = (op.operation for kernels in contexts.gpu_modules(module) for op in kernels.regions[0].blocks[0])
    if not any(_declares(op) for op in inner if op.name == "gpu.func"):
        return

    def visit(op: ir.Operation) -> ir.WalkResult:
        values = [
            *op.results,
            *(value for region in op.regions for block in region for value in block.arguments),
        ]
        for value in values:
            value.set_type(_named(value.type))
        for name in op.attributes:
            attribute = op.attributes[name]
            if isinstance(attribute, ir.TypeAttr):
                op.attributes[name] = ir.TypeAttr.get(_named(attribute.value))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def _declares(function: ir.Operation) -> bool:
    if not function.regions[0].blocks:
        return False
    return any(_named(value.type) != value.type for value in attributions(function)[1])


def _named(given: Any) -> ir.Type:  # noqa: ANN401 - every kind of type
    """Return the type ``given`` with the name of the private space instead of its number."""
    if isinstance(given, ir.FunctionType):
        return ir.FunctionType.get([_named(t) for t in given.inputs], [_named(t) for t in given.results])
    if not isinstance(given, ir.MemRefType):
        return given
    space = given.memory_space
    if not isinstance(space, ir.IntegerAttr) or space.value != PRIVATE:
        return given
    return ir.MemRefType.get(given.shape, given.element_type, given.layout, ir.Attribute.parse(_NAME))


NAME_PRIVATE: Pass[Any] = Pass(name="private-space-by-name", run=_name_private)
