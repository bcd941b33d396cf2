"""Host places: host code says, before it calls the runtime for an operation, which operation that is.

``gpubuildPlace`` (``runtime/core/location.c``) keeps the text for error messages until the next call.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, file_position
from gpubuild.engine.ir.locations import address
from gpubuild.engine.ir.query import callee

_FUNCTION = "gpubuildPlace"
_CALLS = ("mgpu", "gpubuild")  # functions of the runtime begin so
_ANY_CALL = frozenset({"llvm.call", "llvm.invoke", "llvm.call_intrinsic"})

Names = dict[tuple[str, int, int], str]


def names(module: ir.Module) -> Names:
    """What to call each operation of the gpu dialect in host code, by its position. Before it is lowered."""
    found: Names = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        position = file_position(op.location) if op.name.startswith(("gpu.", "nvgpu.")) else None
        if position is not None:
            found.setdefault(position, f"{op.name} in @{_function_name(op)}")
        return ir.WalkResult.ADVANCE

    for top in module.body:
        if top.operation.name not in {"gpu.module", "gpu.binary"}:
            top.operation.walk(visit)
    return found


def mark(module: ir.Module, known: Names, text_digest: str) -> None:
    """Insert the calls, in place, into a module that is lowered to the LLVM dialect."""
    texts: dict[str, str] = {}  # to the symbol that holds it
    for function in list(module.body):
        if function.operation.name == "llvm.func":
            for region in function.operation.regions:
                for block in region.blocks:
                    _mark_block(block, known, text_digest, texts)
    if not texts:
        return
    lines = [f"llvm.func @{_FUNCTION}(!llvm.ptr)"]
    for text, symbol in texts.items():
        quoted = "".join(f"\\{b:02X}" for b in text.encode() + bytes(1))
        lines.append(f'llvm.mlir.global internal constant @{symbol}("{quoted}") {{addr_space = 0 : i32}}')
    made = ir.Module.parse("\n".join(lines))  # lives as long as its operations are looked at
    for op in made.body:
        module.body.append(op.operation.clone())


def _mark_block(block: ir.Block, known: Names, text_digest: str, texts: dict[str, str]) -> None:
    said = ""
    for item in list(block.operations):
        op = item.operation
        if op.name == "gpu.launch_func" or _is_of_runtime(op):
            # What passes add, such as waiting for a launch, belongs to what stands before it.
            text = _text(op, known, text_digest) or said
        elif op.name in _ANY_CALL or op == list(block.operations)[-1].operation:
            text = ""  # what others call the runtime for is not this operation
        else:
            continue
        if text != said:
            _say(op, texts.setdefault(text, f"gpubuild.place.{len(texts)}") if text else "")
            said = text


def _is_of_runtime(op: ir.Operation) -> bool:
    return op.name == "llvm.call" and callee(op).startswith(_CALLS)


def _text(op: ir.Operation, known: Names, text_digest: str) -> str:
    position = file_position(op.location)
    name = known.get(position) if position is not None else None
    if position is None or name is None:
        return ""
    if position[0] == UNNAMED_BUFFER:
        return name + address(text_digest, op)
    return f"{name} at {position[0]}:{position[1]}:{position[2]}"


def _say(before: ir.Operation, symbol: str) -> None:
    pointer = ir.Type.parse("!llvm.ptr")
    with ir.InsertionPoint(before), before.location:
        if symbol:
            attributes = {"global_name": ir.FlatSymbolRefAttr.get(symbol)}
            text = ir.Operation.create("llvm.mlir.addressof", results=[pointer], attributes=attributes)
        else:
            text = ir.Operation.create("llvm.mlir.zero", results=[pointer])
        ir.Operation.create(
            "llvm.call",
            operands=[text.results[0]],
            attributes={
                "callee": ir.FlatSymbolRefAttr.get(_FUNCTION),
                "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
                "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 0]),
            },
        )


def _function_name(op: ir.Operation) -> str:
    return next((a.attributes["sym_name"].value for a in _ancestors(op) if "sym_name" in a.attributes), "?")


def _ancestors(op: ir.Operation) -> Iterator[ir.Operation]:
    while op is not None:
        yield op
        op = op.parent
