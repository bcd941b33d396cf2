"""Give `arith.constant` the values of `constants:` in targets.yaml, where the source asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlir import ir

from gpubuild.engine.ir.diagnostics import SourceText, about, refuse
from gpubuild.engine.ir.query import matching
from gpubuild.errors import Diagnostic
from gpubuild.support.text import suggestion

ATTRIBUTE = "gpubuild.constant"
_CONSTANT = "arith.constant"


def set_values(module: ir.Module, constants: Iterable[str], source: SourceText) -> None:
    """Replace the values of operations with the attribute, and remove it. Raises ``StepError``.

    ``constants`` are ``NAME=VALUE``.
    """
    values = dict(text.split("=", 1) for text in constants)
    flaws: list[Diagnostic] = []
    for op in matching(module.operation, lambda op: ATTRIBUTE in op.attributes):
        flaws += [about(op, flaw, source) for flaw in _set(op, values)]
    refuse(
        "a constant has no value",
        flaws,
        "values are under `constants: {NAME: VALUE}` of the program; -D NAME=VALUE replaces them",
    )


def _set(op: ir.Operation, values: dict[str, str]) -> Iterator[str]:
    """Set the value of one operation, or yield why that cannot be done."""
    named = op.attributes[ATTRIBUTE]
    if op.name != _CONSTANT or not isinstance(named, ir.StringAttr):
        yield f'{ATTRIBUTE} = "NAME" is for {_CONSTANT}'
        return
    name = named.value
    if name not in values:
        yield f"`constants:` has no {name!r}{suggestion(name, list(values))}"
        return
    value = _value(values[name], op.results[0].type)
    if value is None:
        yield f"{name} = {values[name]} is no {op.results[0].type}"
        return
    op.attributes["value"] = value
    del op.attributes[ATTRIBUTE]


def _value(text: str, kind: ir.Type) -> ir.Attribute | None:
    """Return a value of the type ``kind``; of a vector or tensor, the value of each element."""
    if isinstance(kind, ir.ShapedType):
        element = _value(text, kind.element_type)
        return None if element is None else ir.DenseElementsAttr.get_splat(kind, element)
    try:
        if isinstance(kind, ir.FloatType):
            return ir.FloatAttr.get(kind, float(text))
        number = {"true": 1, "false": 0}[text] if text in ("true", "false") else int(text, 0)
    except ValueError:
        return None
    width = 64 if isinstance(kind, ir.IndexType) else ir.IntegerType(kind).width
    if not -(1 << width - 1) <= number < 1 << width:
        return None
    return ir.IntegerAttr.get(kind, number - (1 << width) if number >= 1 << width - 1 else number)
