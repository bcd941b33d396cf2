"""Emitter: makes new ops in front of an existing one, without the bindings' generated dialects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir


class Emitter:
    """Creates ops before ``anchor`` with its location or another, and can replace it in the end."""

    def __init__(self, anchor: ir.Operation, *, location: ir.Location | None = None) -> None:
        self._anchor = anchor
        self._location = location or anchor.location
        self._point = ir.InsertionPoint(anchor)

    def inside(self, block: ir.Block) -> Emitter:
        """An emitter at the end of ``block``, with the same location."""
        other = Emitter(self._anchor, location=self._location)
        other._point = ir.InsertionPoint(block)
        return other

    def op(
        self,
        name: str,
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute] | None = None,
        *,
        regions: int = 0,
    ) -> ir.Operation:
        """Any op, by its full name."""
        return ir.Operation.create(
            name,
            operands=list(operands),
            results=list(results),
            attributes=dict(attributes or {}),
            regions=regions,
            loc=self._location,
            ip=self._point,
        )

    def constant(self, value: int, kind: ir.Type | None = None) -> ir.Value:
        """An integer constant; of type ``index`` unless told."""
        kind = kind or ir.IndexType.get()
        return self.op("arith.constant", [], [kind], {"value": ir.IntegerAttr.get(kind, value)}).results[0]

    def binary(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """An op of two operands and a result, all of one type."""
        return self.op(name, [left, right], [left.type]).results[0]

    def dimension(self, name: str, axis: str) -> ir.Value:
        """``gpu.<name> <axis>``, such as ``gpu.thread_id x``."""
        attribute = ir.Attribute.parse(f"#gpu<dim {axis}>")
        return self.op(f"gpu.{name}", [], [ir.IndexType.get()], {"dimension": attribute}).results[0]

    def copy(self, op: ir.Operation) -> ir.Operation:
        """A copy of ``op`` with all inside it, which keeps its location and its operands."""
        return op.clone(self._point).operation

    def cast(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """A cast that must fold away when both types are lowered."""
        return self.op("builtin.unrealized_conversion_cast", [value], [kind]).results[0]

    def replace(self, value: ir.Value) -> None:
        """Use ``value`` wherever the anchor's only result was used, and erase the anchor."""
        self._anchor.results[0].replace_all_uses_with(value)
        self._anchor.erase()
