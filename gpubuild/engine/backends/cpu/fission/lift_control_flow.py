"""Lifting: branches between blocks become structured control flow, which fission can take on.

Upstream's ``lift-cf-to-scf`` does it, on a ``func.func``, which a kernel is made for as long as that takes.
"""

from __future__ import annotations

from mlir import ir
from mlir.passmanager import PassManager

from gpubuild.engine.backends.cpu.fission.uniformity import nested
from gpubuild.engine.backends.cpu.fission.workgroup_functions import CannotFissionError
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.workarounds import keep_narrow_casts

_PASSES = keep_narrow_casts("func.func(lift-cf-to-scf,canonicalize,cse)")
_RETURNS = {"gpu.return": "func.return", "func.return": "gpu.return"}


def has_branches(function: ir.Operation) -> bool:
    """Return whether something in ``function`` consists of several blocks."""
    return any(len(region.blocks) > 1 for op in nested(function) for region in op.regions)


def lift_branches(function: ir.Operation) -> None:
    """Make one block of the body of a gpu.func or func.func.

    Raises ``CannotFissionError`` if it cannot be.
    """
    if not has_branches(function):
        return
    if function.name == "func.func":
        _run(function)
        return
    emit = Emitter(function)
    kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
    attributes = {
        "sym_name": ir.StringAttr.get(f"{function.attributes['sym_name'].value}.lifted"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, [])),
    }
    wrapper = emit.op("func.func", [], [], attributes, regions=1)
    _move_body(function, wrapper)
    try:
        _run(wrapper)
        _move_body(wrapper, function)
    finally:
        wrapper.erase()


def _move_body(source: ir.Operation, target: ir.Operation) -> None:
    blocks = source.regions[0].blocks
    while len(blocks):
        blocks[0].append_to(target.regions[0])
    for block in target.regions[0].blocks:
        end = block.operations[len(block.operations) - 1].operation
        if end.name in _RETURNS:
            Emitter(end).op(_RETURNS[end.name], list(end.operands), [])
            end.erase()


def _run(function: ir.Operation) -> None:
    with function.context:
        try:
            PassManager.parse(_PASSES).run(function)
        except ir.MLIRError as error:
            raise CannotFissionError("branches between blocks") from error
    if has_branches(function):
        raise CannotFissionError("branches between blocks")
