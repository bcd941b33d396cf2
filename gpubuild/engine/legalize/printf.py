"""``gpu.printf``: checks of formats, and the types of arguments; messages of ``cf.assert``.

C leaves it undefined when arguments do not fit the format, and so do GPUs: NVIDIA's would read all later
arguments from wrong offsets, CPUs would crash on ``%s``.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, file_position
from gpubuild.engine.ir.passes import Lowering, rewriting
from gpubuild.support.frozen import frozen

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0']*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|L|j|z|t|q)?(?P<letter>.?)",
    re.DOTALL,
)
_INTEGERS, _FLOATS, _ADDRESS = "diouxXc", "aAeEfFgG", "p"
_WIDE_LENGTHS = ("l", "ll", "j", "z", "t", "q")
_WORD_BITS, _DOUBLE_BITS = 32, 64
_PERCENT = "write %% for a percent sign"


def failed_assertion(op: ir.Operation) -> tuple[Emitter, str]:
    """Return an emitter in a branch for the ``cf.assert`` ``op`` that fails, and its message as a format."""
    emit = Emitter(op)
    failed = emit.binary("arith.xori", op.operands[0], emit.constant(1, ir.IntegerType.get_signless(1)))
    branch = emit.op("scf.if", [failed], [], regions=2)
    found = file_position(op.location)
    where = ":".join(map(str, found)) + ": " if found and found[0] != UNNAMED_BUFFER else ""
    text = f"{where}{_function_name(op)}: assertion failed: {op.attributes['msg'].value}"
    return emit.inside(branch.regions[0].blocks.append()), text.replace("%", "%%")


def _function_name(op: ir.Operation) -> str:
    """Return ``module: function`` around ``op``."""
    names: list[str] = []
    parent = op.parent
    while parent is not None:
        if "sym_name" in parent.attributes:
            names.insert(0, parent.attributes["sym_name"].value)
        parent = parent.operation.parent
    return ": ".join(names)


@frozen
class Conversion:
    """One value that a format needs, also for a ``*``: an integer of ``bits``, or a float."""

    text: str
    bits: int | None


def conversions(text: str) -> list[Conversion]:
    """Return the conversions of a format, in order. Raises ``ValueError`` for invalid ones."""
    found = []
    for match in _CONVERSION.finditer(text):
        letter, whole = match["letter"], match[0]
        if whole == "%%":
            continue
        if letter == "s":
            raise ValueError(f"{whole!r} asks for a string, which kernels do not have; write %d, %f or %%")
        if not letter or letter not in _INTEGERS + _FLOATS + _ADDRESS:
            raise ValueError(f"{whole!r} is no conversion of numbers ({_PERCENT})")
        stars = [match["width"], match["precision"]].count("*")
        found += [Conversion(text=whole, bits=32)] * stars
        if letter in _FLOATS:
            bits = None
        else:
            bits = 64 if match["length"] in _WIDE_LENGTHS or letter == _ADDRESS else 32
        found.append(Conversion(text=whole, bits=bits))
    return found


def refusal(op: ir.Operation) -> str:
    """Return why ``gpu.printf`` cannot be compiled, or an empty string."""
    for value in op.operands:
        if isinstance(value.type, ir.IntegerType) and ir.IntegerType(value.type).width > _DOUBLE_BITS:
            return f"'{op.name}' of {value.type}: there is no format for integers wider than 64 bits"
        if str(value.type) in {"f80", "f128"}:
            return f"'{op.name}' of {value.type}: GPUs print no floats wider than f64"
    try:
        wanted = conversions(op.attributes["format"].value)
    except ValueError as error:
        return f"'{op.name}': {error}"
    given = list(op.operands)
    if len(wanted) != len(given):
        asked = f"{len(wanted)} argument{'' if len(wanted) == 1 else 's'}"
        need = f"give {len(wanted)}, or {_PERCENT}" if wanted else _PERCENT
        return f"'{op.name}': its format asks for {asked}, and there are {len(given)} ({need})"
    for number, (conversion, value) in enumerate(zip(wanted, given, strict=True), 1):
        is_float = isinstance(value.type, ir.FloatType)
        if is_float != (conversion.bits is None):
            kind = "a float" if conversion.bits is None else "an integer"
            use = "%f" if is_float else "%lld" if _is_wide(value.type) else "%d"
            return (
                f"'{op.name}': {conversion.text!r} asks for {kind}, and argument {number} is {value.type} "
                f"(use {use})"
            )
    return ""


def _is_wide(of: ir.Type) -> bool:
    return not isinstance(of, ir.IntegerType) or ir.IntegerType(of).width > _WORD_BITS


def _promote_arguments(op: ir.Operation, _: Lowering) -> None:
    """Convert the arguments of ``gpu.printf`` to the widths of its format, as C's variadic calls do.

    Integers are extended to 32 or 64 bits with their sign; an ``i1`` is 0 or 1. A wide one for ``%d`` is
    truncated, as in C on most processors. Floats become at least f32, which the conversions widen to f64.
    Upstream passes an i8 as one byte, and NVIDIA's vprintf then reads three bytes after it.
    """
    emit = Emitter(op)
    wanted = conversions(op.attributes["format"].value)
    for number, (conversion, value) in enumerate(zip(wanted, op.operands, strict=True)):
        if conversion.bits is not None:
            op.operands[number] = _integer(emit, value, conversion.bits)
        elif ir.FloatType(value.type).width < _WORD_BITS:
            op.operands[number] = emit.value("arith.extf", [value], ir.F32Type.get())


def _integer(emit: Emitter, value: ir.Value, bits: int) -> ir.Value:
    kind = ir.IntegerType.get_signless(bits)
    if isinstance(value.type, ir.IndexType):
        if bits == _DOUBLE_BITS:
            return value
        return emit.value("arith.index_cast", [value], kind)
    given = ir.IntegerType(value.type).width
    if given == bits:
        return value
    name = "arith.trunci" if given > bits else "arith.extui" if given == 1 else "arith.extsi"
    return emit.value(name, [value], kind)


PROMOTE_ARGUMENTS = rewriting("promote-printf-arguments", {"gpu.printf": _promote_arguments})
