"""Operations of OpenCL devices: printf, the size of subgroups, and what they lack."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.backends.spirv.address_spaces import CONSTANT
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, rewriting
from gpubuild.engine.ir.query import first, kernel_functions, kernel_module, symbol_name

_PRINTF = "_Z18__spirv_ocl_printfPU3AS2Kcz"
_PRINTF_TYPE = f"i32 (ptr<{CONSTANT}>, ...)"
_FORMAT = "gpubuild.format."  # of a printf; its number follows
_SUBGROUP_SIZE = "intel_reqd_sub_group_size"
_LANES = frozenset({"nvvm.shfl.sync", "nvvm.read.ptx.sreg.laneid"})


def refusal(op: ir.Operation, _: GpuLowering) -> str:
    """Return why OpenCL devices cannot execute ``op``, or an empty string."""
    if op.name == "cf.assert":
        return "'cf.assert' cannot end a program from an OpenCL kernel; write a flag and check it on the host"
    return ""


def _expand_printf(op: ir.Operation, _: Lowering) -> None:
    """Call OpenCL's printf, whose format is in constant memory."""
    body = kernel_module(op).regions[0].blocks[0]
    pointer = ir.Type.parse(f"!llvm.ptr<{CONSTANT}>")
    text = op.attributes["format"].value
    names = [symbol_name(o.operation) for o in body if o.operation.name == "llvm.mlir.global"]
    number = sum(name.startswith(_FORMAT) for name in names)
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
    if not any(symbol_name(o.operation) == _PRINTF for o in body if o.operation.name == "llvm.func"):
        kind = ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<{_PRINTF_TYPE}>"))
        _at_begin(op, "llvm.func", {"sym_name": ir.StringAttr.get(_PRINTF), "function_type": kind})
    emit = Emitter(op)
    name = ir.FlatSymbolRefAttr.get(f"{_FORMAT}{number}")
    address = emit.value("llvm.mlir.addressof", [], pointer, {"global_name": name})
    call = emit.call(_PRINTF, [address, *op.operands], [i32])
    call.attributes["var_callee_type"] = ir.TypeAttr.get(ir.Type.parse(f"!llvm.func<{_PRINTF_TYPE}>"))
    op.erase()


def _at_begin(op: ir.Operation, name: str, attributes: dict[str, ir.Attribute]) -> None:
    point = ir.InsertionPoint.at_block_begin(kernel_module(op).regions[0].blocks[0])
    ir.Operation.create(name, regions=1, attributes=attributes, loc=op.location, ip=point)


def _require_subgroups(module: ir.Module, state: GpuLowering) -> None:
    """Require subgroups of the size that the code assumes, of all kernels of a module that uses lanes."""
    (kernels,) = contexts.gpu_modules(module)
    if first(kernels, lambda op: op.name in _LANES) is None:
        return
    size = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), state.capabilities.subgroup_size)
    for kernel in kernel_functions(kernels):
        kernel.attributes[_SUBGROUP_SIZE] = size


EXPAND_PRINTF = rewriting("printf-to-opencl", {"gpu.printf": _expand_printf})
REQUIRE_SUBGROUPS: Pass[GpuLowering] = Pass(name="require-subgroups", run=_require_subgroups)
