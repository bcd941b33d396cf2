"""Warnings about host code that works on CPUs, or by chance, and not on a GPU.

Loops that stay on the host, host memory that kernels access or that the wrong operation frees, copies that
nothing waits for, and a main that takes memory, which nothing passes to it.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.query import (
    VIEWS,
    defining_op,
    host_operations,
    matching,
    operations,
    symbol_name,
    viewed_memory,
)
from gpubuild.engine.source.launch_checks import argument_values, launches
from gpubuild.errors import Diagnostic

_MAPPED = {
    "scf.parallel": ("#gpu.loop_dim_map<processor = ", ("block", "thread")),
    "scf.forall": ("#gpu.", ("block", "thread", "warp", "lane")),
}
_PASSES = {
    "scf.parallel": "convert-parallel-loops-to-gpu",
    "scf.forall": "a transform schedule with gpu.map_forall_to_blocks",
}
_MADE_BY_HOST = ("memref.alloc", "memref.alloca", "memref.get_global")
_FREED_BY = {"gpu.alloc": "gpu.dealloc", "memref.alloc": "memref.dealloc"}
_LEAVE = frozenset({"func.return", "func.call", "func.call_indirect"})
_TOKEN_TYPE = "!gpu.async.token"  # noqa: S105 - a type
# What may make host memory visible to devices: the operation, and functions, about which nothing is known.
_MAY_REGISTER = frozenset({"gpu.host_register", "func.call", "func.call_indirect", "llvm.call"})


def find_mapped_loops(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return warnings about loops in host code that are mapped to workgroups or work-items."""
    loops = filter(_is_mapped, host_operations(module))
    return [
        _warning(
            op,
            f"this '{op.name}' is mapped to the GPU, and runs on the host: no pass has turned it into a "
            f"launch (add {_PASSES[op.name]} to `passes: {{source: …}}`)",
            source,
        )
        for op in loops
    ]


def _is_mapped(op: ir.Operation) -> bool:
    if op.name not in _MAPPED or "mapping" not in op.attributes:
        return False
    prefix, words = _MAPPED[op.name]
    text = str(op.attributes["mapping"])
    return any(prefix + word in text for word in words)


def find_main_with_memory(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return a warning about a ``main`` that takes memory, unless it is there for C to call."""
    for view in module.body:
        op = view.operation
        if op.name != "func.func" or symbol_name(op) != "main" or "llvm.emit_c_interface" in op.attributes:
            continue
        inputs = op.attributes["function_type"].value.inputs
        if op.regions[0].blocks and any(isinstance(kind, ir.ShapedType) for kind in inputs):
            message = (
                "as the main of a program this gets no memory: allocate it inside, or rename the "
                "function, give it llvm.emit_c_interface and call it from a C source"
            )
            return [_warning(op, message, source)]
    return []


def find_host_memory(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return warnings about launches whose kernels get host memory that no device knows of."""
    launched = list(launches(module))
    registered = launched and {
        _global_name(op)
        for op in operations(module.operation, ("memref.get_global",))
        if _may_be_registered(op.results[0])
    }
    found = []
    for launch, kernel in launched:
        for value in argument_values(launch):
            root = viewed_memory(value)
            maker = defining_op(root)
            if maker is None or maker.name not in _MADE_BY_HOST or _may_be_registered(root):
                continue
            if maker.name == "memref.get_global" and _global_name(maker) in registered:
                continue
            what = f"@{_global_name(maker)}" if maker.name == "memref.get_global" else f"a '{maker.name}'"
            message = (
                f"{kernel} gets host memory ({what} of type {root.type}), which GPUs cannot access: use "
                "gpu.alloc and gpu.memcpy, gpu.alloc host_shared, or gpu.host_register"
            )
            found.append(_warning(launch, message, source))
    return found


def find_wrong_frees(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return warnings about memory that is not freed by the operation that belongs to its allocation."""
    found = []
    for op in host_operations(module):
        freed = op.name in _FREED_BY.values()
        maker = defining_op(viewed_memory(op.operands[-1])) if freed else None
        if maker is not None and (right := _FREED_BY.get(maker.name, op.name)) != op.name:
            message = f"this frees memory of '{maker.name}', which only '{right}' can free"
            found.append(_warning(op, message, source))
    return found


def find_unawaited(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Return warnings about copies to the host in functions that wait for nothing, and pass no token on."""
    found = []
    for function in (op for op in host_operations(module) if op.name == "func.func"):
        copies = [op for op in operations(function, ("gpu.memcpy",)) if len(op.results) and _is_to_host(op)]
        if copies and not matching(function, _may_wait):
            message = "nothing waits for this copy: write `gpu.wait [%token]` before the host uses the memory"
            found.append(_warning(copies[-1], message, source))
    return found


def _is_to_host(copy: ir.Operation) -> bool:
    target = viewed_memory(copy.operands[-2])
    maker = defining_op(target)
    if maker is None:
        return bool(target.owner.owner.operation.name == "func.func")
    return maker.name in _MADE_BY_HOST


def _may_wait(op: ir.Operation) -> bool:
    """Return whether ``op`` waits for tokens, or passes one to code that may."""
    if op.name.startswith("gpu."):
        return op.name == "gpu.wait" and not len(op.results)
    if op.name.startswith("async."):
        return True
    return op.name in _LEAVE and any(str(operand.type) == _TOKEN_TYPE for operand in op.operands)


def _may_be_registered(value: ir.Value) -> bool:
    for use in value.uses:
        op = use.owner.operation
        if op.name in _MAY_REGISTER or (op.name in VIEWS and any(map(_may_be_registered, op.results))):
            return True
    return False


def _global_name(op: ir.Operation) -> str:
    return str(op.attributes["name"].value)


def _warning(op: ir.Operation, message: str, source: SourceText) -> Diagnostic:
    return about(op, message, source, severity="warning")
