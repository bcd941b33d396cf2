"""Refusals: ops and types in kernels that upstream's passes or LLVM would fail on without saying why.

Some would end the process, others come out as an error about an op that the user never wrote. Each
answer here says what it is about and why; the place is added by who asks (rewrite.prepare).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mlir import ir

from gpubuild.engine.ir import llvm
from gpubuild.engine.legalize import participants, printf
from gpubuild.targets.target import Kind

# Dialects whose ops become calls or instructions that kernels do not have; who has them.
_ELSEWHERE = {
    "amx": "x86 CPUs, which kernels do not use",
    "arm_neon": "Arm CPUs, which kernels do not use",
    "arm_sme": "Arm CPUs, which kernels do not use",
    "arm_sve": "Arm CPUs, which kernels do not use",
    "mpi": "host code",
    "x86vector": "x86 CPUs, which kernels do not use",
    "xegpu": "Intel GPUs",
    "xevm": "Intel GPUs",
}
_OF_HOSTS = "is an operation of host code; kernels cannot do it"
_NO_ENGINE = "asks for an engine that copies beside the program, which no target has; use memref.copy"
_NOWHERE = {
    "affine.dma_start": _NO_ENGINE,
    "affine.dma_wait": _NO_ENGINE,
    "gpu.alloc": _OF_HOSTS,
    "gpu.dealloc": _OF_HOSTS,
    "gpu.host_register": _OF_HOSTS,
    "gpu.host_unregister": _OF_HOSTS,
    "gpu.launch_func": _OF_HOSTS,
    "gpu.memcpy": _OF_HOSTS,
    "gpu.memset": _OF_HOSTS,
    "gpu.set_default_device": _OF_HOSTS,
    "gpu.wait": _OF_HOSTS,
    "memref.dma_start": _NO_ENGINE,
    "memref.dma_wait": _NO_ENGINE,
    "rocdl.exp": "cannot be translated: LLVM has no function of one argument behind it; use math.exp",
    "vector.print": "calls functions that only host code has; use gpu.printf",
    "vector.vscale": "asks for a length that no target has; use vectors of fixed length",
}
# First words of intrinsics' names, after `llvm.`, and the kinds of target that have them.
_INTRINSICS = {
    "aarch64": (Kind.CPU, "Arm CPUs"), "amdgcn": (Kind.ROCDL, "AMD GPUs"), "arm": (Kind.CPU, "Arm CPUs"),
    "nvvm": (Kind.NVVM, "NVIDIA GPUs"), "r600": (Kind.ROCDL, "AMD GPUs"), "x86": (Kind.CPU, "x86 CPUs"),
}  # fmt: skip
# Where the name of an intrinsic is, in operations that may be one.
_INTRINSIC_NAMES = {"func.call": "callee", "llvm.call": "callee", "llvm.call_intrinsic": "intrin"}
_TENSOR_FLOAT = "tf32"  # the bindings have no class for it, either
_ATOMIC_BITS = (8, 16, 32, 64)
_WIDEST_CONVERTED = 128  # LLVM's own code for wider ones makes zero of what the float cannot hold
_WIDE_FLOATS = frozenset({"f80", "f128"})
_PARAMETER_CLASSES = (
    ir.ComplexType, ir.FloatType, ir.IndexType, ir.IntegerType, ir.MemRefType, ir.UnrankedMemRefType,
    ir.VectorType,
)  # fmt: skip
_NO_PARAMETERS = re.compile(r"tensor<|tuple<|!gpu\.|!async\.|!shape\.")
_PRIVATE = "#gpu.address_space<private>"
_AMD_PRIVATE = 5
_WORKGROUPS = "workgroup_attributions"  # of a gpu.func: how many; private ones come behind
_WORKGROUP_SPACES = frozenset({"#gpu.address_space<workgroup>", "3 : i64", "3"})
_AMD_SPACES = range(10)
_FUNCTIONS = frozenset({"gpu.func", "func.func"})


def refusal(op: ir.Operation, kind: Kind, subgroup_size: int) -> str:
    """Why ``op`` cannot be compiled for a target of ``kind``, or an empty string."""
    name = op.name
    if who := _ELSEWHERE.get(name.partition(".")[0]):
        return f"'{name}' is an operation of {who}"
    if reason := _NOWHERE.get(name):
        return f"'{name}' {reason}"
    if name in _INTRINSIC_NAMES and (reason := _intrinsic_refusal(op, kind)):
        return reason
    if (own := _BY_NAME.get(name)) and (reason := own(op)):
        return reason
    if name == "gpu.all_reduce" and kind is not Kind.ROCDL and (reason := _reduction_refusal(op)):
        return reason
    if name == "gpu.printf":
        return printf.printf_refusal(op)
    if reason := participants.refusal(op, subgroup_size):
        return reason
    if name == "memref.global" and kind is Kind.ROCDL and _PRIVATE in str(op.attributes["type"]):
        return f"'{name}' in private memory, which AMD GPUs have no variables in; use memref.alloca"
    if name in _FUNCTIONS:
        return _function_refusal(op, kind)
    for value in op.results:  # operands are results of others, or come into a function
        if reason := _type_refusal(value.type, kind):
            return f"'{name}' of {value.type}, {reason}"
    return ""


def _function_refusal(op: ir.Operation, kind: Kind) -> str:
    is_kernel = "gpu.kernel" in op.attributes or "kernel" in op.attributes
    types = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs
    for number, given in enumerate(types, 1):
        if is_kernel and not isinstance(given, _PARAMETER_CLASSES) and _NO_PARAMETERS.match(str(given)):
            return (
                f"parameter {number} of the kernel is of type {given}, which a launch cannot pass; "
                "pass memory (memref) or numbers"
            )
        if is_kernel and isinstance(given, ir.FloatType) and ir.FloatType(given).width < _ATOMIC_BITS[0]:
            what = f"parameter {number} of the kernel is of type {given}"
            return f"{what}; pass its bits as i8 and use arith.bitcast"
        if reason := _type_refusal(given, kind):
            return f"parameter {number} is of type {given}, {reason}"
    return _attribution_refusal(op, len(types), kind)


def _attribution_refusal(op: ir.Operation, parameters: int, kind: Kind) -> str:
    """Upstream puts private memory of AMD's kernels into space 5, and that of all others into none."""
    if _WORKGROUPS not in op.attributes or not len(op.regions[0].blocks):
        return ""
    arguments = list(op.regions[0].blocks[0].arguments)
    for value in arguments[parameters + op.attributes[_WORKGROUPS].value :]:
        space = ir.MemRefType(value.type).memory_space
        number = ir.IntegerAttr(space).value if isinstance(space, ir.IntegerAttr) else 0
        if (space is None or number) and number != (_AMD_PRIVATE if kind is Kind.ROCDL else 0):
            return (
                f"private memory of type {value.type}: write {_PRIVATE} for its space, as all targets have it"
            )
    return ""


def _conversion_refusal(op: ir.Operation) -> str:
    integer = getattr(op.operands[0].type, "element_type", op.operands[0].type)
    if integer.width > _WIDEST_CONVERTED:
        return f"'{op.name}' of {integer}: integers of at most {_WIDEST_CONVERTED} bits become floats"
    return ""


def _allocation_refusal(op: ir.Operation) -> str:
    space = str(ir.MemRefType(op.results[0].type).memory_space)
    if space in _WORKGROUP_SPACES:
        return (
            f"'{op.name}' in workgroup memory, which is not allocated while a kernel runs: use a workgroup "
            "attribution, memref.global, or gpu.dynamic_shared_memory"
        )
    return ""


def _type_refusal(given: ir.Type, kind: Kind) -> str:
    if isinstance(given, ir.ShapedType | ir.ComplexType):
        element = str(getattr(given, "element_type", ""))
    else:
        element = str(given)
    if element == _TENSOR_FLOAT:
        return "which is a format that tensor cores round f32 to, and none that values are kept in; use f32"
    if isinstance(given, ir.VectorType):
        if ir.VectorType(given).scalable:
            return "whose length no target knows; use a vector of fixed length"
        return ""
    if isinstance(given, ir.MemRefType):
        return _memory_refusal(ir.MemRefType(given), kind)
    if type(given) is ir.Type and str(given) in _WIDE_FLOATS and kind is not Kind.CPU:
        return "which GPUs have no arithmetic for"
    return ""


def _memory_refusal(memory: ir.MemRefType, kind: Kind) -> str:
    layout = memory.layout
    if not isinstance(layout, ir.StridedLayoutAttr):
        try:
            memory.get_strides_and_offset()
        except RuntimeError:
            return "whose layout has no strides; write the element's place as an index of a plain memref"
    space = memory.memory_space
    if space is None:
        return ""
    if not isinstance(space, ir.IntegerAttr):
        strange = isinstance(space, ir.StringAttr | ir.DictAttr | ir.ArrayAttr)
        return "whose memory space is no #gpu.address_space and no number" if strange else ""
    if kind is Kind.ROCDL and ir.IntegerAttr(space).value not in _AMD_SPACES:
        return "whose memory space AMD GPUs do not have (they have 0 to 9)"
    return ""


def _intrinsic_refusal(op: ir.Operation, kind: Kind) -> str:
    where = _INTRINSIC_NAMES[op.name]
    name = str(op.attributes[where].value) if where in op.attributes else ""
    if where != "intrin" and not name.startswith(llvm.PREFIX):
        return ""
    owner, who = _INTRINSICS.get(name.removeprefix(llvm.PREFIX).partition(".")[0], (kind, ""))
    if owner is not kind:
        return f"intrinsic {name!r} is an instruction of {who}"
    # What is called may also have a name of an earlier LLVM, which is known once the IR is read.
    return llvm.unknown(name) if where == "intrin" and not llvm.is_known(name) else ""


def _atomic_refusal(op: ir.Operation) -> str:
    element = op.results[0].type
    if isinstance(element, ir.IntegerType):
        bits = ir.IntegerType(element).width
    elif isinstance(element, ir.FloatType):
        bits = ir.FloatType(element).width
        if bits == _ATOMIC_BITS[0] and op.name == "memref.atomic_rmw":
            return f"'{op.name}' of {element}: use memref.generic_atomic_rmw, which does it in integers"
    else:
        return ""
    if bits in _ATOMIC_BITS:
        return ""
    return f"'{op.name}' of {element}: targets have atomic operations of 8, 16, 32 and 64 bits"


def _reduction_refusal(op: ir.Operation) -> str:
    element = op.operands[0].type
    if isinstance(element, ir.IntegerType) and ir.IntegerType(element).width > _ATOMIC_BITS[-1]:
        return (
            f"'{op.name}' of {element}: it is done for at most 64 bits; gpu.subgroup_reduce takes wider "
            "integers, whose results then go through workgroup memory"
        )
    return ""


_BY_NAME: dict[str, Callable[[ir.Operation], str]] = {
    "arith.sitofp": _conversion_refusal,
    "arith.uitofp": _conversion_refusal,
    "memref.alloc": _allocation_refusal,
    "memref.atomic_rmw": _atomic_refusal,
    "memref.generic_atomic_rmw": _atomic_refusal,
}
