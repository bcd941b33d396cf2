"""Workgroup code: which kernels wait, and which of them fission can take on."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.context_arrays import CannotFissionError
from gpubuild.engine.backends.cpu.fission.uniformity import GROUP_IDS, GROUP_OPS, ITEM_IDS, nested, operations

_FOREIGN = frozenset({"nvvm", "nvgpu", "rocdl", "amdgpu"})  # may wait, or name a work-item in their own way
_HARMLESS = (
    GROUP_IDS
    | GROUP_OPS
    | ITEM_IDS
    | {"gpu.printf", "gpu.return", "gpu.yield", "gpu.func", "gpu.subgroup_id", "gpu.module"}
)
_PRIVATE = frozenset({"memref.alloca", "llvm.alloca"})
_CALLS = frozenset({"func.call", "llvm.call"})
_NEEDS_ITEM = _CALLS | {"cf.assert"}
# Of an access out of bounds. They are rare, and have the record say who runs themselves.
_REPORTS = frozenset({image_layout.CHECK_BOUNDS, image_layout.CHECK_VIEW})


def functions_that_wait(module: ir.Operation) -> set[str]:
    """Names of the module's functions in which a work-item may wait, or that call such."""
    calls: dict[str, set[str]] = {}
    waiting: set[str] = set()
    for function in operations(module.regions[0].blocks[0]):
        if not len(function.regions):
            continue
        name = function.attributes["sym_name"].value
        inside = nested(function)
        calls[name] = {_callee(op) for op in inside if op.name in _CALLS}
        if any(op.name in GROUP_OPS or _is_foreign(op) for op in inside):
            waiting.add(name)
    before = -1
    while before != len(waiting):
        before = len(waiting)
        waiting |= {name for name, callees in calls.items() if callees & waiting}
    return waiting


def check_kernel(kernel: ir.Operation, waiting: set[str]) -> None:
    """Raise ``CannotFissionError`` for a kernel with something in it that fission does not know."""
    blocks = kernel.regions[0].blocks
    if len(blocks) != 1:
        raise CannotFissionError("branches between blocks")
    for op in nested(kernel):
        if op.name in _PRIVATE and len(op.operands):
            raise CannotFissionError(f"private memory ({op.name})")
        if _is_foreign(op):
            raise CannotFissionError(op.name)
        if op.name in _CALLS and (callee := _callee(op)) in waiting:
            raise CannotFissionError(f"a call of @{callee}, which waits")
        if op.name == "gpu.barrier" and len(op.operands):
            raise CannotFissionError("a named barrier")


def needs_item(op: ir.Operation) -> bool:
    """Whether something in ``op`` looks at the record of the running work-item, which has to say who runs."""
    return any(inner.name in _NEEDS_ITEM and not is_report(inner) for inner in nested(op))


def is_report(op: ir.Operation) -> bool:
    """Whether ``op`` tells the runtime of an access out of bounds, which checks found to be so."""
    return op.name in _CALLS and _callee(op) in _REPORTS


def _is_foreign(op: ir.Operation) -> bool:
    if op.name in GROUP_OPS:
        return False
    dialect = op.name.partition(".")[0]
    return dialect in _FOREIGN or (dialect == "gpu" and op.name not in _HARMLESS)


def _callee(op: ir.Operation) -> str:
    return ir.FlatSymbolRefAttr(op.attributes["callee"]).value if "callee" in op.attributes else ""


def declare_place_item(body: ir.Block) -> None:
    """Declare what engine.backends.cpu.lower.calls puts stores to the work-item in the place of."""
    index = ir.IndexType.get()
    ir.Operation.create(
        "func.func",
        regions=1,
        attributes={
            "sym_name": ir.StringAttr.get(image_layout.PLACE_ITEM),
            "sym_visibility": ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get([index] * 4, [])),
        },
        loc=ir.Location.unknown(),
        ip=ir.InsertionPoint.at_block_begin(body),
    )


def calls(body: ir.Block, name: str) -> bool:
    """Whether a function of the module with this body calls the one of that name."""
    return any(
        op.name == "func.call" and ir.FlatSymbolRefAttr(op.attributes["callee"]).value == name
        for function in operations(body)
        for op in nested(function)
    )
