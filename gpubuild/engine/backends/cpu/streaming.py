"""Streaming kernels: their time depends on memory alone, so that LLVM's usual choices are not the best."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu.fission.uniformity import collective_ops, nested, operations
from gpubuild.engine.backends.cpu.state import STREAMING, CpuLowering, kernel_module

# Attributes (name, value) of their functions. Memory was read half as fast again by vectors of 32 bytes as by
# those of 64. Of loops that copy LLVM would make calls of memcpy, and the C library's is up to four times
# slower for some distances of source and destination.
FUNCTION_ATTRIBUTES = (
    ("prefer-vector-width", "256"),
    ("no-builtin-memcpy", ""),
    ("no-builtin-memmove", ""),
)
_LOOPS = frozenset({"scf.for", "scf.while", "scf.parallel"})
_CALLS = frozenset({"func.call", "llvm.call"})


def mark_streaming(module: ir.Module, _: CpuLowering) -> None:
    """Mark the kernels that stream."""
    for op in operations(kernel_module(module).regions[0].blocks[0]):
        if op.name == "gpu.func" and "gpu.kernel" in op.attributes and streams(op):
            op.attributes[STREAMING] = ir.UnitAttr.get()


def streams(kernel: ir.Operation) -> bool:
    """Return whether work-items do little but read and write each place of global memory once.

    So there is no mathematics, no call, no loop but those that all run together, and no memref of which an
    item loads twice, since neighbours then find in a cache what others loaded.
    """
    if len(kernel.regions[0].blocks) != 1:
        return False
    inside = [inner for op in operations(kernel.regions[0].blocks[0]) for inner in nested(op)]
    together = collective_ops(inside, kernel)
    loaded: set[ir.Value] = set()
    for op in inside:
        if op.name.startswith("math.") or op.name in _CALLS or (op.name in _LOOPS and op not in together):
            return False
        if op.name.endswith("load") and isinstance(op.operands[0].type, ir.MemRefType):
            memory = op.operands[0]
            if "workgroup" in str(ir.MemRefType(memory.type).memory_space):
                continue
            if memory in loaded:
                return False
            loaded.add(memory)
    return True
