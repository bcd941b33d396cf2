"""Create operations before an existing one, without the bindings' generated dialect classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum

from mlir import ir

# Predicates of ``arith.cmpi``.
Compare = IntEnum("Compare", "EQ NE SLT SLE SGT SGE ULT ULE UGT UGE", start=0)


class Emitter:
    """Create operations before ``anchor``, with its location or another, and replace it in the end."""

    def __init__(self, anchor: ir.Operation, *, location: ir.Location | None = None) -> None:
        self._anchor = anchor
        self._location = location or anchor.location
        self._point = ir.InsertionPoint(anchor)

    def inside(self, block: ir.Block) -> Emitter:
        """Return an emitter at the end of ``block``, with the same location."""
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
        """Create an operation by its full name."""
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
        """Create an integer constant, of type ``index`` by default."""
        kind = kind or ir.IndexType.get()
        return self.op("arith.constant", [], [kind], {"value": ir.IntegerAttr.get(kind, value)}).results[0]

    def binary(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create an operation with two operands and a result, all of one type."""
        return self.op(name, [left, right], [left.type]).results[0]

    def compare(self, predicate: int, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create an ``arith.cmpi`` of two integers, or of vectors of them."""
        attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
        kind: ir.Type = ir.IntegerType.get_signless(1)
        if isinstance(left.type, ir.VectorType):
            kind = ir.VectorType.get(ir.VectorType(left.type).shape, kind)
        return self.op("arith.cmpi", [left, right], [kind], {"predicate": attribute}).results[0]

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """Create an ``arith.select``."""
        return self.op("arith.select", [condition, yes, no], [yes.type]).results[0]

    def dimension(self, name: str, axis: str) -> ir.Value:
        """Create ``gpu.<name> <axis>``, such as ``gpu.thread_id x``."""
        attribute = ir.Attribute.parse(f"#gpu<dim {axis}>")
        return self.op(f"gpu.{name}", [], [ir.IndexType.get()], {"dimension": attribute}).results[0]

    def copy(self, op: ir.Operation) -> ir.Operation:
        """Copy ``op`` with its regions; the copy has the location and operands of ``op``."""
        return op.clone(self._point).operation

    def cast(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """Create a cast that must fold away when both types are lowered."""
        return self.op("builtin.unrealized_conversion_cast", [value], [kind]).results[0]

    def replace(self, value: ir.Value) -> None:
        """Replace the anchor's only result by ``value``, and erase the anchor."""
        replace(self._anchor, value)


class LlvmBuilder:
    """Create operations of the LLVM dialect before ``op``; types may be text such as ``i32``."""

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
        """Create an operation; attributes are objects or text."""
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
        """Create an operation with one result, and return that."""
        return self.op(name, [result], operands, **attributes).results[0]

    def constant(self, value: int, kind: str = "i32") -> ir.Value:
        """Create an integer constant."""
        return self.value("llvm.mlir.constant", kind, value=f"{value} : {kind}")

    def binary(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create ``llvm.<name>`` on two values of one type."""
        return self.value(f"llvm.{name}", left.type, left, right)

    def is_not_zero(self, value: ir.Value) -> ir.Value:
        """Compare the integer ``value`` with zero; the result is an i1."""
        zero = self.constant(0, str(value.type))
        return self.value("llvm.icmp", "i1", value, zero, predicate="1 : i64")

    def offset(self, pointer: ir.Value, bytes_: int) -> ir.Value:
        """Add a constant number of bytes to ``pointer``."""
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
        """Load a value of ``kind`` from ``bytes_`` after ``pointer``."""
        return self.value("llvm.load", kind, self.offset(pointer, bytes_), ordering="0 : i64")

    def store(self, value: ir.Value, pointer: ir.Value, bytes_: int) -> None:
        """Store ``value`` at ``bytes_`` after ``pointer``."""
        self.op("llvm.store", [], [value, self.offset(pointer, bytes_)], ordering="0 : i64")


def replace(op: ir.Operation, value: ir.Value | None = None) -> None:
    """Erase ``op`` after replacing its only result by ``value``, if given."""
    if value is not None:
        op.results[0].replace_all_uses_with(value)
    op.erase()
