"""Services: functions of the runtime that kernels call through a table in their image."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.ir.builder import LlvmBuilder

_WRITES_NOTHING = (
    "#llvm.memory_effects<other = read, argMem = read, inaccessibleMem = readwrite, errnoMem = none, "
    "targetMem0 = none, targetMem1 = none>"
)


def call_service(
    build: LlvmBuilder,
    index: int,
    result: str,
    arguments: Sequence[ir.Value],
    *,
    variadic: str = "",
    writes_nothing: bool = False,
) -> ir.Operation:
    """Call function ``index`` of the runtime's service table; ``result`` is empty for none.

    One that ``writes_nothing`` keeps what it learns where no kernel looks, and throws nothing.
    """
    image = build.value(
        "llvm.mlir.addressof",
        "!llvm.ptr",
        global_name=ir.FlatSymbolRefAttr.get(image_layout.IMAGE_SYMBOL),
    )
    table = build.load(image, image_layout.IMAGE_SERVICES, "!llvm.ptr")
    function = build.load(table, 8 * index, "!llvm.ptr")
    operands = [function, *arguments]
    attributes = {
        "op_bundle_sizes": "array<i32>",
        "operandSegmentSizes": f"array<i32: {len(operands)}, 0>",
    }
    if writes_nothing:
        attributes["memory_effects"] = _WRITES_NOTHING
        attributes["no_unwind"] = "unit"
    if variadic:
        attributes["var_callee_type"] = variadic
    return build.op("llvm.call", [result] if result else [], operands, **attributes)
