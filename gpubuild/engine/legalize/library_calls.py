"""Library calls: declared functions of a kernel module are symbols of their own name."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.passes import Lowering, Pass

_C_INTERFACE = "_mlir_ciface_"


def call_libraries_directly(kernels: ir.Operation) -> None:
    """Let a declared function without memrefs be the symbol of its own name in a device library.

    Upstream makes it a wrapper around ``_mlir_ciface_<name>``, which passes memrefs by pointer and
    means nothing where there are none.
    """
    functions = {
        op.operation.attributes["sym_name"].value: op.operation
        for op in kernels.regions[0].blocks[0]
        if op.operation.name == "llvm.func"
    }
    for name, declared in functions.items():
        wrapper = functions.get(name.removeprefix(_C_INTERFACE)) if name.startswith(_C_INTERFACE) else None
        if wrapper is None or len(declared.regions[0].blocks):
            continue
        if declared.attributes["function_type"] == wrapper.attributes["function_type"]:
            wrapper.erase()
            declared.attributes["sym_name"] = ir.StringAttr.get(name.removeprefix(_C_INTERFACE))


def _run(module: ir.Module, _: Lowering) -> None:
    for kernels in contexts.gpu_modules(module):
        call_libraries_directly(kernels)


CALL_DIRECTLY: Pass[Lowering] = Pass(name="call-libraries-directly", run=_run)
