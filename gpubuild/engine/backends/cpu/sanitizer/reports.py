"""Calls by which checked code reports to the runtime.

They are of functions without a body, until lowering turns them into services of the runtime.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout

BOUNDS = image_layout.CHECK_BOUNDS
VIEW = image_layout.CHECK_VIEW
ACCESS = image_layout.CHECK_ACCESS
MEET = image_layout.CHECK_MEET
WAIT = image_layout.CHECK_WAIT
BARRIER = image_layout.CHECK_BARRIER
DYNAMIC_BYTES = image_layout.CHECK_DYNAMIC_BYTES


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
