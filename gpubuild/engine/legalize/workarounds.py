"""Workarounds of errors in MLIR's conversions.

Signed zeros: to ``arith.minimumf`` and ``arith.maximumf`` -0.0 is less than 0.0. Upstream's ``arith-expand``
makes a comparison of each, to which both zeros are equal, and takes the second operand then.

Quotients: for ``arith.floordivsi`` of more than 64 bits ``arith-expand`` adds 2^64 - 1 instead of -1.
"""

from __future__ import annotations

import math

from mlir import ir

from gpubuild.engine.ir.builder import Compare, CompareFloats, Emitter
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.engine.ir.query import defining_op, element_type, shaped_like
from gpubuild.engine.ir.workarounds import Workaround

_SIGN = {"arith.minimumf": "arith.ori", "arith.maximumf": "arith.andi"}  # of two zeros
_ANY_SIGN = ("nsz", "fast")
_CONSTANT_BITS = 64  # of the -1 that arith-expand makes


def _keep_signed_zero(op: ir.Operation, _: Lowering) -> None:
    """Rewrite ``op`` so that ``arith-expand``, which runs later, expands it correctly."""
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
    """Combine the bits of equal operands, which differ at most in the sign of a zero."""
    emit = Emitter(op)
    kind = op.results[0].type
    integer = shaped_like(kind, ir.IntegerType.get_signless(element_type(kind).width))
    left, right = (emit.value("arith.bitcast", [value], integer) for value in op.operands)
    merged = emit.value("arith.bitcast", [emit.binary(_SIGN[op.name], left, right)], kind)
    same = emit.compare_floats(CompareFloats.EQ, *op.operands)
    attributes = {name: op.attributes[name] for name in op.attributes}
    other = emit.value(op.name, list(op.operands), kind, attributes)
    emit.replace(emit.select(same, merged, other))


def _ignores_sign(op: ir.Operation) -> bool:
    flags = str(op.attributes["fastmath"]).partition("<")[2] if "fastmath" in op.attributes else ""
    return any(word in flags for word in _ANY_SIGN)


def _number(value: ir.Value) -> float | None:
    """Return the value of a constant that is the same for all elements."""
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


def _floor(op: ir.Operation, _: Lowering) -> None:
    """Rewrite a wide quotient: one less where there is a remainder whose sign is not the divisor's."""
    kind = op.results[0].type
    element = element_type(kind)
    if not isinstance(element, ir.IntegerType) or element.width <= _CONSTANT_BITS:
        return
    emit, (left, right) = Emitter(op), op.operands
    quotient, rest = (emit.binary(f"arith.{name}", left, right) for name in ("divsi", "remsi"))
    zero = emit.binary("arith.subi", right, right)
    unequal = emit.compare(Compare.SLT, emit.binary("arith.xori", rest, right), zero)
    less = emit.binary("arith.andi", emit.compare(Compare.NE, rest, zero), unequal)
    emit.replace(emit.binary("arith.addi", quotient, emit.value("arith.extsi", [less], kind)))


FLOOR_WIDE_INTEGERS = rewriting("floor-wide-integers", {"arith.floordivsi": _floor})


WORKAROUNDS = (
    Workaround(
        name="KEEP_SIGNED_ZEROS",
        bug="arith-expand treats zeros of both signs as equal in minimumf and maximumf",
        seen="MLIR 22.1.8",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
    Workaround(
        name="FLOOR_WIDE_INTEGERS",
        bug="arith-expand adds 2^64 - 1 instead of -1 to an arith.floordivsi of more than 64 bits",
        seen="MLIR 22.1.8",
        package="xtc-mlir-python-bindings",
        remove_when="23",
    ),
)
