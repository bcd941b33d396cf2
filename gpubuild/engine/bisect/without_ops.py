"""Leaving out: a gpu.module without some of its operations, for the search of one that fails.

Values of operations that are gone come from calls of functions that nothing is known about, so that
what uses them stays as it was.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.query import first, matching

_FUNCTIONS = frozenset({"gpu.func", "func.func", "llvm.func"})
_MODULE = "gpu.module"
# What only names a value is not what fails; that is what uses it.
_NAMES_A_VALUE = re.compile(r"\w+\.(?:constant|mlir\.\w+|poison)")
_LAST = re.compile(
    r"\w+\.(?:\w*(?:yield|return|terminator|br|branch|switch|unreachable|condition|reduce|in_parallel)|invoke)"
)
# Types whose values a function can return on every target.
_RETURNABLE = (
    ir.ComplexType, ir.FloatType, ir.IndexType, ir.IntegerType, ir.MemRefType, ir.VectorType,
)  # fmt: skip
_RETURNABLE_TEXT = re.compile(r"!llvm\.(?:ptr|struct|array)")
_REFERENCES = frozenset({"callee", "global_name", "name"})  # attributes that name a symbol
_UNKNOWN = "gpubuild_unknown"
_NOBODY_KNOWS = '["noinline"]'


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Leave out the first ``operations`` of what functions do, then the first ``symbols`` of the module."""

    operations: int = 0
    symbols: int = 0


def operations(module: ir.Module) -> list[ir.Operation]:
    """What :class:`Cut` counts: inner operations before those around them, else in the order of the text."""

    def counts(op: ir.Operation) -> bool:
        kept = not _in_function(op) or _NAMES_A_VALUE.fullmatch(op.name) or _is_last(op)
        return not kept and all(_returnable(result.type) for result in op.results)

    return matching(module.operation, counts)


def symbols(module: ir.Module) -> list[ir.Operation]:
    """Functions and variables of the gpu.module, in order."""
    found = []
    for outer in module.body.operations:
        if outer.operation.name == _MODULE:
            found += [
                op.operation for op in outer.operation.regions[0].blocks[0] if "sym_name" in op.attributes
            ]
    return found


def leave_out(module: ir.Module, cut: Cut) -> None:
    """Do what ``cut`` says, in place."""
    unknown = _Unknown(module)
    globals_ = symbols(module)  # before functions are added
    for op in operations(module)[: cut.operations]:
        unknown.stand_for(op)
        op.erase()
    for op in globals_[: cut.symbols]:
        op.erase()


def use_of_declared(module: ir.Module, symbol: ir.Operation) -> ir.Operation | None:
    """The first operation that uses ``symbol``, if that is only declared: nobody errs who does just that."""
    if any(len(region.blocks) for region in symbol.regions) or "value" in symbol.attributes:
        return None
    wanted = f"@{symbol.attributes['sym_name'].value}"

    def uses(op: ir.Operation) -> bool:
        named = _REFERENCES & {*op.attributes}
        return _in_function(op) and any(str(op.attributes[name]) == wanted for name in named)

    return first(module.operation, uses)


def function_of(op: ir.Operation) -> str:
    """``kernel @f`` or ``@f``: the function that ``op`` lies in or is."""
    inner: ir.Operation | None = op
    while inner is not None and inner.name not in _FUNCTIONS:
        inner = inner.parent.operation if inner.parent is not None else None
    if inner is None:
        return ""
    kernel = "gpu.kernel" in inner.attributes or "kernel" in inner.attributes
    return f"{'kernel ' if kernel else ''}@{inner.attributes['sym_name'].value}"


class _Unknown:
    """Functions ``() -> T``, one for each type, that LLVM must not look into: they are weak."""

    def __init__(self, module: ir.Module) -> None:
        self._block = next(
            o.operation.regions[0].blocks[0] for o in module.body.operations if o.operation.name == _MODULE
        )
        self._names: dict[ir.Type, str] = {}

    def stand_for(self, op: ir.Operation) -> None:
        emit = Emitter(op)
        for result in op.results:
            if not list(result.uses):
                continue
            callee = {"callee": ir.FlatSymbolRefAttr.get(self._function(result.type))}
            result.replace_all_uses_with(emit.op("func.call", [], [result.type], callee).results[0])

    def _function(self, kind: ir.Type) -> str:
        if kind not in self._names:
            name = self._names[kind] = f"{_UNKNOWN}_{len(self._names)}"
            attributes = {
                "sym_name": ir.StringAttr.get(name),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [kind])),
                "llvm.linkage": ir.Attribute.parse("#llvm.linkage<weak>"),
                "passthrough": ir.Attribute.parse(_NOBODY_KNOWS),
            }
            start = ir.InsertionPoint.at_block_begin(self._block)
            function = ir.Operation.create("func.func", attributes=attributes, regions=1, ip=start)
            with ir.InsertionPoint(function.regions[0].blocks.append()):
                value = ir.Operation.create(
                    "ub.poison", results=[kind], attributes={"value": ir.Attribute.parse("#ub.poison")}
                )
                ir.Operation.create("func.return", operands=[value.results[0]])
        return self._names[kind]


def _in_function(op: ir.Operation) -> bool:
    parent = op.parent
    while parent is not None:
        if parent.operation.name in _FUNCTIONS:
            return True
        parent = parent.operation.parent
    return False


def _is_last(op: ir.Operation) -> bool:
    block = op.block.operations
    return block[len(block) - 1].operation == op and _LAST.fullmatch(op.name) is not None


def _returnable(kind: ir.Type) -> bool:
    return isinstance(kind, _RETURNABLE) or _RETURNABLE_TEXT.match(str(kind)) is not None
