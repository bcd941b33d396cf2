"""Signed zeros: ``arith.minimumf`` and ``arith.maximumf``, to which -0.0 is less than 0.0.

Upstream's ``arith-expand`` makes a comparison of each, to which both zeros are the same, and takes the second
operand where they meet.
"""

from __future__ import annotations

import math

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.engine.ir.query import defining_op, element_type
from gpubuild.engine.ir.workarounds import Workaround
from gpubuild.engine.legalize.arith_expansions import like

_OEQ = 1  # a predicate of arith.cmpf
_SIGN = {"arith.minimumf": "arith.ori", "arith.maximumf": "arith.andi"}  # of two zeros
_ANY_SIGN = ("nsz", "fast")


def _keep_signed_zero(op: ir.Operation, _: Lowering) -> None:
    """Put right what ``arith-expand``, which is to run later, will make of ``op``."""
    if _ignores_sign(op):
        return
    left, right = op.operands
    if _number(left) is not None:
        op.operands[0], op.operands[1] = right, left
    number = _number(op.operands[1])
    is_right = number == 0 and (math.copysign(1, number) > 0) == (op.name == "arith.maximumf")
    if number is None or (number == 0 and not is_right):
        _merge_signs(op)


def _merge_signs(op: ir.Operation) -> None:
    """Of equal operands take the bits of both: they differ in the sign of a zero, if at all."""
    emit = Emitter(op)
    kind = op.results[0].type
    integer = like(kind, ir.IntegerType.get_signless(element_type(kind).width))
    left, right = (emit.op("arith.bitcast", [value], [integer]).results[0] for value in op.operands)
    merged = emit.op("arith.bitcast", [emit.binary(_SIGN[op.name], left, right)], [kind]).results[0]
    predicate = {"predicate": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _OEQ)}
    bit = like(kind, ir.IntegerType.get_signless(1))
    same = emit.op("arith.cmpf", list(op.operands), [bit], predicate).results[0]
    attributes = {name: op.attributes[name] for name in op.attributes}
    other = emit.op(op.name, list(op.operands), [kind], attributes).results[0]
    emit.replace(emit.op("arith.select", [same, merged, other], [kind]).results[0])


def _ignores_sign(op: ir.Operation) -> bool:
    flags = str(op.attributes["fastmath"]).partition("<")[2] if "fastmath" in op.attributes else ""
    return any(word in flags for word in _ANY_SIGN)


def _number(value: ir.Value) -> float | None:
    """What a constant is, if it is the same for all elements."""
    op = defining_op(value)
    if op is None or op.name != "arith.constant":
        return None
    attribute = op.attributes["value"]
    if isinstance(attribute, ir.DenseElementsAttr):
        if not attribute.is_splat:
            return None
        attribute = attribute.get_splat_value()
    return float(ir.FloatAttr(attribute).value) if isinstance(attribute, ir.FloatAttr) else None


KEEP_SIGNED_ZEROS = rewriting("keep-signed-zeros", dict.fromkeys(_SIGN, _keep_signed_zero))


WORKAROUNDS = (
    Workaround(
        name="KEEP_SIGNED_ZEROS",
        bug="arith-expand takes zeros of both signs for the same in minimumf and maximumf",
        seen="MLIR 22.1.8",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
)
