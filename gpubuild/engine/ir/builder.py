"""Builders: create operations in front of an existing one, without the bindings' generated dialects."""

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


class LlvmBuilder:
    """Creates operations of the LLVM dialect before ``op``; types may be text such as ``i32``."""

    def __init__(self, op: ir.Operation) -> None:
        self._point = ir.InsertionPoint(op)
        self._location = op.location

    def op(
        self,
        name: str,
        results: Sequence[str | ir.Type],
        operands: Sequence[ir.Value] = (),
        **attributes: str | ir.Attribute,
    ) -> ir.Operation:
        """Any op; attributes are given as objects or as text."""
        return ir.Operation.create(
            name,
            results=[ir.Type.parse(t) if isinstance(t, str) else t for t in results],
            operands=list(operands),
            attributes={k: ir.Attribute.parse(v) if isinstance(v, str) else v for k, v in attributes.items()},
            loc=self._location,
            ip=self._point,
        )

    def value(
        self, name: str, result: str | ir.Type, *operands: ir.Value, **attributes: str | ir.Attribute
    ) -> ir.Value:
        """The one result of an op."""
        return self.op(name, [result], operands, **attributes).results[0]

    def constant(self, value: int, kind: str = "i32") -> ir.Value:
        """An integer constant."""
        return self.value("llvm.mlir.constant", kind, value=f"{value} : {kind}")

    def binary(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """``llvm.<name>`` on two values of one type."""
        return self.value(f"llvm.{name}", left.type, left, right)

    def is_not_zero(self, value: ir.Value) -> ir.Value:
        """An i1 that tells whether the integer ``value`` is not zero."""
        zero = self.constant(0, str(value.type))
        return self.value("llvm.icmp", "i1", value, zero, predicate="1 : i64")

    def offset(self, pointer: ir.Value, bytes_: int) -> ir.Value:
        """``pointer`` plus a constant number of bytes."""
        if bytes_ == 0:
            return pointer
        return self.value(
            "llvm.getelementptr",
            "!llvm.ptr",
            pointer,
            rawConstantIndices=f"array<i32: {bytes_}>",
            elem_type="i8",
            noWrapFlags="0 : i32",
        )

    def load(self, pointer: ir.Value, bytes_: int, kind: str | ir.Type) -> ir.Value:
        """Load a value of ``kind`` that lies ``bytes_`` behind ``pointer``."""
        return self.value("llvm.load", kind, self.offset(pointer, bytes_), ordering="0 : i64")

    def store(self, value: ir.Value, pointer: ir.Value, bytes_: int) -> None:
        """Store ``value`` where it lies ``bytes_`` behind ``pointer``."""
        self.op("llvm.store", [], [value, self.offset(pointer, bytes_)], ordering="0 : i64")


def replace(op: ir.Operation, value: ir.Value | None = None) -> None:
    """Erase ``op``; ``value`` replaces its one result."""
    if value is not None:
        op.results[0].replace_all_uses_with(value)
    op.erase()
