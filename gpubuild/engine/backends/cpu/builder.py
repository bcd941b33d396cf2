"""Builder: ops of the LLVM dialect, put in front of one op with its location."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout

_WRITES_NOTHING = (
    "#llvm.memory_effects<other = read, argMem = read, inaccessibleMem = readwrite, errnoMem = none, "
    "targetMem0 = none, targetMem1 = none>"
)


class Builder:
    """Makes LLVM-dialect ops before ``op``; types are given as MLIR text such as ``i32``."""

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

    def service(
        self,
        index: int,
        result: str,
        arguments: Sequence[ir.Value],
        *,
        variadic: str = "",
        writes_nothing: bool = False,
    ) -> ir.Operation:
        """Call a function of the runtime's service table; ``result`` is empty for none.

        One that ``writes_nothing`` keeps what it learns where no kernel looks, and throws nothing.
        """
        image = self.value(
            "llvm.mlir.addressof",
            "!llvm.ptr",
            global_name=ir.FlatSymbolRefAttr.get(image_layout.IMAGE_SYMBOL),
        )
        table = self.load(image, image_layout.IMAGE_SERVICES, "!llvm.ptr")
        function = self.load(table, 8 * index, "!llvm.ptr")
        operands = [function, *arguments]
        attributes = {
            "op_bundle_sizes": "array<i32>",
            "operandSegmentSizes": f"array<i32: {len(operands)}, 0>",
        }
        if writes_nothing:
            attributes["memory_effects"] = _WRITES_NOTHING
            attributes["no_unwind"] = "unit"
        if variadic:
            attributes["var_callee_type"] = variadic
        return self.op("llvm.call", [result] if result else [], operands, **attributes)


def replace(op: ir.Operation, value: ir.Value | None = None) -> None:
    """Erase ``op``, putting ``value`` in the place of its one result."""
    if value is not None:
        op.results[0].replace_all_uses_with(value)
    op.erase()
