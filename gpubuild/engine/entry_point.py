"""Entry point: a ``main`` without a result gets one, because the system reads an exit code anyway."""

from __future__ import annotations

from mlir import ir


def give_main_an_exit_code(module: ir.Module) -> None:
    """Make ``func.func @main()`` return 0 as i32, in place, when nothing in the module calls it.

    Upstream's runner ignores what ``main`` leaves behind; a program's exit code would be whatever
    a register holds.
    """
    for function in module.body.operations:
        op = function.operation
        if op.name != "func.func" or op.attributes["sym_name"].value != "main":
            continue
        kind = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
        has_body = len(op.regions[0].blocks) > 0
        if kind.inputs or kind.results or not has_body or _is_referred_to(module, "main"):
            return
        number = ir.IntegerType.get_signless(32)
        op.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], [number]))
        for end in _returns(op):
            with ir.InsertionPoint(end), end.location:
                zero = ir.Operation.create(
                    "arith.constant", results=[number], attributes={"value": ir.IntegerAttr.get(number, 0)}
                )
                ir.Operation.create("func.return", operands=[zero.results[0]])
            end.erase()


def _returns(function: ir.Operation) -> list[ir.Operation]:
    blocks = function.regions[0].blocks
    last = [list(block.operations)[-1].operation for block in blocks]
    return [op for op in last if op.name == "func.return"]


def _is_referred_to(module: ir.Module, name: str) -> bool:
    wanted = ir.FlatSymbolRefAttr.get(name)
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = found or any(attribute == wanted for _, attribute in op.attributes.items())
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
