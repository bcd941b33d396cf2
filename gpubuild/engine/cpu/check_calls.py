"""Check calls: how checked code names what it tells the runtime, until that becomes a service."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.cpu import layout
from gpubuild.engine.cpu.builder import Builder, replace
from gpubuild.engine.cpu.state import FunctionState

BOUNDS = layout.CHECK_BOUNDS
VIEW = layout.CHECK_VIEW
ACCESS = layout.CHECK_ACCESS
MEET = layout.CHECK_MEET
WAIT = layout.CHECK_WAIT
BARRIER = layout.CHECK_BARRIER
DYNAMIC_BYTES = layout.CHECK_DYNAMIC_BYTES


def callee(function: str) -> dict[str, ir.Attribute]:
    """Attributes of a ``func.call`` of ``function``."""
    return {"callee": ir.FlatSymbolRefAttr.get(function)}


def declare(body: ir.Block) -> None:
    """Declare all of them in the block of a gpu.module, where they are not yet."""
    i32, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
    extent = [i32, i32, index, index, index, index]
    kinds = {
        BOUNDS: (extent, []),
        VIEW: (extent, []),
        ACCESS: ([i32, i32, index, index], []),
        MEET: ([], []),
        WAIT: ([], []),
        BARRIER: ([i32], []),
        DYNAMIC_BYTES: ([], [index]),
    }
    known = {op.attributes["sym_name"].value for op in body.operations if "sym_name" in op.attributes}
    for name, (inputs, results) in kinds.items():
        if name in known:
            continue
        ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
            },
            loc=ir.Location.unknown(),
            ip=ir.InsertionPoint.at_block_begin(body),
        )


def _service(number: int) -> Callable[[ir.Operation, FunctionState], None]:
    def rewrite(op: ir.Operation, function: FunctionState) -> None:
        Builder(op).service(number, "", [function.item, *op.operands], writes_nothing=True)
        replace(op)

    return rewrite


def _dynamic_bytes(op: ir.Operation, function: FunctionState) -> None:
    build = Builder(op)
    size = build.load(function.item, layout.ITEM_DYNAMIC_BYTES, "i32")
    replace(op, build.value("llvm.zext", "i64", size))


def _barrier(op: ir.Operation, function: FunctionState) -> None:
    function.facts.waits = function.facts.waits or "gpu.barrier"
    Builder(op).service(layout.SERVICE_BARRIER, "", [function.item, *op.operands])
    replace(op)


REWRITES: dict[str, Callable[[ir.Operation, FunctionState], None]] = {
    BOUNDS: _service(layout.SERVICE_CHECK_BOUNDS),
    VIEW: _service(layout.SERVICE_CHECK_VIEW),
    ACCESS: _service(layout.SERVICE_CHECK_ACCESS),
    MEET: _service(layout.SERVICE_CHECK_MEET),
    WAIT: _service(layout.SERVICE_CHECK_WAIT),
    BARRIER: _barrier,
    DYNAMIC_BYTES: _dynamic_bytes,
}
