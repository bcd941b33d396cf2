"""Integers: what operations on integers give for values that are known, as their dialects define it.

Values are kept without sign, as many bits as their type has; an index has 64 bits, as on every target.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

from mlir import ir

INDEX_BITS = 64
Fold = Callable[[Sequence[int]], "int | None"]  # None: nothing is defined for these values

_DEPTH = 8  # of operations between a number and its constants
_DIALECTS = ("arith", "index", "llvm")
# The names of an operation in these dialects.
_NAMES = {
    "add": ("addi", "add", "add"), "sub": ("subi", "sub", "sub"), "mul": ("muli", "mul", "mul"),
    "and": ("andi", "and", "and"), "or": ("ori", "or", "or"), "xor": ("xori", "xor", "xor"),
    "divs": ("divsi", "divs", "sdiv"), "divu": ("divui", "divu", "udiv"),
    "rems": ("remsi", "rems", "srem"), "remu": ("remui", "remu", "urem"),
    "ceils": ("ceildivsi", "ceildivs", ""), "ceilu": ("ceildivui", "ceildivu", ""),
    "floors": ("floordivsi", "floordivs", ""),
    "shl": ("shli", "shl", "shl"), "shrs": ("shrsi", "shrs", "ashr"), "shru": ("shrui", "shru", "lshr"),
    "maxs": ("maxsi", "maxs", "intr.smax"), "maxu": ("maxui", "maxu", "intr.umax"),
    "mins": ("minsi", "mins", "intr.smin"), "minu": ("minui", "minu", "intr.umin"),
}  # fmt: skip
_BINARY = {
    f"{dialect}.{name}": meaning
    for meaning, names in _NAMES.items()
    for dialect, name in zip(_DIALECTS, names, strict=True)
    if name
}
_COMPARES = frozenset({"arith.cmpi", "index.cmp", "llvm.icmp"})
_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")  # as arith numbers them
_WITHOUT_SIGN = frozenset(
    {"arith.extui", "arith.trunci", "arith.index_castui", "index.castu", "llvm.zext", "llvm.trunc"}
)
_WITH_SIGN = frozenset({"arith.extsi", "arith.index_cast", "index.casts", "llvm.sext"})
_CONSTANTS = frozenset({"arith.constant", "index.constant", "index.bool.constant", "llvm.mlir.constant"})


def bits(kind: ir.Type) -> int:
    """How many bits a value of ``kind`` has; 0 for what is no integer."""
    if isinstance(kind, ir.IndexType):
        return INDEX_BITS
    return int(ir.IntegerType(kind).width) if isinstance(kind, ir.IntegerType) else 0


def constant(op: ir.Operation) -> int | None:
    """The value of an operation that is an integer constant."""
    if op.name not in _CONSTANTS:
        return None
    width = bits(op.results[0].type)
    value = op.attributes["value"]
    if not width or not isinstance(value, ir.IntegerAttr | ir.BoolAttr):
        return None
    return int(ir.IntegerAttr(value).value) & ((1 << width) - 1)


def number(value: ir.Value, *, depth: int = _DEPTH) -> int | None:
    """The number that ``value`` is, if it is computed from constants alone."""
    if isinstance(value.owner, ir.Block) or depth == 0:
        return None
    op = value.owner.operation
    if (known := constant(op)) is not None:
        return known
    fold = fold_of(op)
    values = [number(operand, depth=depth - 1) for operand in op.operands] if fold is not None else []
    numbers = [v for v in values if v is not None]
    return fold(numbers) if fold is not None and len(numbers) == len(values) else None


def fold_of(op: ir.Operation) -> Fold | None:
    """What ``op`` computes from known operands, if it is one that this module knows."""
    name = op.name
    if not len(op.operands) or not len(op.results):
        return None
    before, after = bits(op.operands[0].type), bits(op.results[0].type)
    if not (before and after):
        return None
    if (meaning := _BINARY.get(name)) is not None:
        return lambda v: _binary(meaning, v[0], v[1], before)
    if name in _COMPARES:
        predicate = _predicate(op)
        return lambda v: int(_compare(predicate, v[0], v[1], before))
    mask = (1 << after) - 1
    if name in _WITHOUT_SIGN:
        return lambda v: v[0] & mask
    if name in _WITH_SIGN:
        return lambda v: signed(v[0], before) & mask
    return None


def absorbs(op: ir.Operation) -> int | None:
    """The value of either operand that alone decides what ``op`` gives, which is that value again."""
    meaning = _BINARY.get(op.name)
    if meaning in {"and", "mul"}:
        return 0
    return (1 << bits(op.results[0].type)) - 1 if meaning == "or" else None


def signed(value: int, width: int) -> int:
    """The number that ``width`` bits mean with a sign."""
    return value - (1 << width) if value >> (width - 1) else value


def _binary(meaning: str, a: int, b: int, width: int) -> int | None:
    if meaning[:3] in {"div", "rem", "cei", "flo"} and b == 0:
        return None
    if meaning.startswith("sh") and b >= width:
        return None
    if meaning[-1] == "s":
        a, b = signed(a, width), b if meaning == "shrs" else signed(b, width)
    return _ARITHMETIC[meaning](a, b) & ((1 << width) - 1)


def _towards_zero(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "divu": operator.floordiv, "remu": operator.mod, "ceilu": lambda a, b: -(-a // b),
    "divs": _towards_zero, "rems": lambda a, b: a - b * _towards_zero(a, b),
    "ceils": lambda a, b: -(-a // b), "floors": operator.floordiv,
    "shl": operator.lshift, "shru": operator.rshift, "shrs": operator.rshift,
    "maxs": max, "maxu": max, "mins": min, "minu": min,
}  # fmt: skip


def _predicate(op: ir.Operation) -> str:
    if op.name == "index.cmp":
        return str(op.attributes["pred"]).rpartition(" ")[2].rstrip(">")
    return _PREDICATES[ir.IntegerAttr(op.attributes["predicate"]).value]


def _compare(predicate: str, a: int, b: int, width: int) -> bool:
    if predicate in {"eq", "ne"}:
        return (a == b) == (predicate == "eq")
    if predicate[0] == "s":
        a, b = signed(a, width), signed(b, width)
    less, equal = a < b, a == b
    return {"lt": less, "le": less or equal, "gt": not (less or equal), "ge": not less}[predicate[1:]]
