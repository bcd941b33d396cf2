"""Create operations before an existing one, without the bindings' generated dialect classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum

from mlir import ir

from gpubuild.engine.ir.query import element_type, shaped_like

# Predicates of ``arith.cmpi``.
Compare = IntEnum("Compare", "EQ NE SLT SLE SGT SGE ULT ULE UGT UGE", start=0)


class CompareFloats(IntEnum):
    """Predicates of ``arith.cmpf``: false for NaN."""

    EQ = 1
    GT = 2
    NE = 6
    ORDERED = 7


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

    def value(
        self,
        name: str,
        operands: Sequence[ir.Value],
        kind: ir.Type,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Value:
        """Return the one result of an op."""
        return self.op(name, operands, [kind], attributes).results[0]

    def constant(self, value: float, kind: ir.Type | None = None) -> ir.Value:
        """Return a constant of ``kind``, which may be a vector; ``index`` by default."""
        kind = kind or ir.IndexType.get()
        scalar = element_type(kind)
        get = ir.FloatAttr.get if isinstance(scalar, ir.FloatType) else ir.IntegerAttr.get
        attribute = get(scalar, value)
        if scalar != kind:
            attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
        return self.value("arith.constant", [], kind, {"value": attribute})

    def binary(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create an operation with two operands and a result, all of one type."""
        return self.op(name, [left, right], [left.type]).results[0]

    def compare(self, predicate: int, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create an ``arith.cmpi`` of two integers, or of vectors of them."""
        return self._compare("arith.cmpi", predicate, left, right)

    def compare_floats(self, predicate: CompareFloats, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create an ``arith.cmpf`` of two floats, or of vectors of them."""
        return self._compare("arith.cmpf", predicate, left, right)

    def _compare(self, name: str, predicate: int, left: ir.Value, right: ir.Value) -> ir.Value:
        attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
        kind = shaped_like(left.type, ir.IntegerType.get_signless(1))
        return self.value(name, [left, right], kind, {"predicate": attribute})

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """Create an ``arith.select``."""
        return self.op("arith.select", [condition, yes, no], [yes.type]).results[0]

    def call_function(
        self, name: str, operands: Sequence[ir.Value], results: Sequence[ir.Type] = ()
    ) -> ir.Operation:
        """Call a function of the func dialect."""
        return self.op("func.call", operands, results, {"callee": ir.FlatSymbolRefAttr.get(name)})

    def call_intrinsic(
        self,
        name: str,
        results: Sequence[ir.Type] = (),
        operands: Sequence[ir.Value] = (),
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Operation:
        """Call an LLVM intrinsic, such as ``llvm.nvvm.activemask``."""
        named = {"intrin": ir.StringAttr.get(name), **(attributes or {})}
        return self._call("llvm.call_intrinsic", named, operands, results)

    def call(self, name: str, operands: Sequence[ir.Value], results: Sequence[ir.Type] = ()) -> ir.Operation:
        """Call a function of the LLVM dialect."""
        return self._call("llvm.call", {"callee": ir.FlatSymbolRefAttr.get(name)}, operands, results)

    def _call(
        self,
        name: str,
        callee: dict[str, ir.Attribute],
        operands: Sequence[ir.Value],
        results: Sequence[ir.Type],
    ) -> ir.Operation:
        callee["op_bundle_sizes"] = ir.DenseI32ArrayAttr.get([])
        callee["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get([len(operands), 0])
        return self.op(name, operands, results, callee)

    def extract(self, vector: ir.Value, position: Sequence[int]) -> ir.Value:
        """Return the element of a vector, or the vector of fewer dimensions, at ``position``."""
        whole = vector.type
        shape, kind = whole.shape[len(position) :], whole.element_type
        if shape:
            kind = ir.VectorType.get(shape, kind)
        return self.value("vector.extract", [vector], kind, _static(position))

    def insert(self, part: ir.Value, vector: ir.Value, position: Sequence[int]) -> ir.Value:
        """Return ``vector`` with ``part``, an element or a smaller vector, at ``position``."""
        return self.value("vector.insert", [part, vector], vector.type, _static(position))

    def loop(
        self,
        upper: ir.Value,
        carried: Sequence[ir.Value],
        body: Callable[[Emitter, ir.Value, list[ir.Value]], Sequence[ir.Value]],
        *,
        lower: ir.Value | None = None,
    ) -> list[ir.Value]:
        """Create an ``scf.for`` in steps of one and return its results.

        ``body`` gets the index and the carried values, and returns those of the next iteration.
        """
        lower = lower or self.constant(0)
        kinds = [value.type for value in carried]
        loop = self.op("scf.for", [lower, upper, self.constant(1), *carried], kinds, regions=1)
        block = loop.regions[0].blocks.append(ir.IndexType.get(), *kinds)
        inside = self.inside(block)
        index, *values = block.arguments
        inside.op("scf.yield", body(inside, index, values), [])
        return list(loop.results)

    def nest(
        self,
        memory: ir.Value,
        axes: Sequence[int],
        body: Callable[[Emitter, list[ir.Value]], None],
        indices: Sequence[ir.Value] = (),
    ) -> None:
        """Create loops over ``axes`` of ``memory``, one in another. ``body`` gets ``indices`` and theirs."""
        if not axes:
            body(self, list(indices))
            return

        def inside(at: Emitter, index: ir.Value, _: list[ir.Value]) -> list[ir.Value]:
            at.nest(memory, axes[1:], body, [*indices, index])
            return []

        self.loop(self.extent(memory, axes[0]), [], inside)

    def extent(self, memory: ir.Value, axis: int) -> ir.Value:
        """Create a ``memref.dim``."""
        return self.value("memref.dim", [memory, self.constant(axis)], ir.IndexType.get())

    def dimension(self, name: str, axis: str) -> ir.Value:
        """Create ``gpu.<name> <axis>``, such as ``gpu.thread_id x``."""
        attribute = ir.Attribute.parse(f"#gpu<dim {axis}>")
        return self.op(f"gpu.{name}", [], [ir.IndexType.get()], {"dimension": attribute}).results[0]

    def copy(self, op: ir.Operation) -> ir.Operation:
        """Copy ``op`` with its regions; the copy has the location and operands of ``op``."""
        return op.clone(self._point).operation

    def inline(self, block: ir.Block, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Copy the operations of ``block`` with ``values`` for its arguments; return what it yields."""
        known = dict(zip(block.arguments, values, strict=True))

        def renew(op: ir.Operation) -> ir.WalkResult:
            for number, operand in enumerate(op.operands):
                op.operands[number] = known.get(operand, operand)
            return ir.WalkResult.ADVANCE

        *inner, end = (view.operation for view in block)
        for op in inner:
            copy = self.copy(op)
            copy.walk(renew)
            known.update(zip(op.results, copy.results, strict=True))
        return [known.get(value, value) for value in end.operands]

    def convert_argument(self, argument: ir.BlockArgument, kind: ir.Type, cast: str) -> None:
        """Change the type of ``argument`` to ``kind``; its uses get a ``cast`` of it to the old type."""
        seen = self.op(cast, [argument], [argument.type])
        argument.replace_all_uses_except(seen.results[0], seen)
        argument.set_type(kind)

    def cast(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """Create a cast that must fold away when both types are lowered."""
        return self.op("builtin.unrealized_conversion_cast", [value], [kind]).results[0]

    def replace(self, value: ir.Value) -> None:
        """Replace the anchor's only result by ``value``, and erase the anchor."""
        replace(self._anchor, value)


def _static(position: Sequence[int]) -> dict[str, ir.Attribute]:
    return {"static_position": ir.DenseI64ArrayAttr.get(list(position))}


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

    def constant(self, value: float, kind: str | ir.Type = "i32") -> ir.Value:
        """Create a constant number, or a vector of equal ones."""
        is_vector = isinstance(kind, ir.VectorType)
        return self.value(
            "llvm.mlir.constant", kind, value=f"dense<{value}> : {kind}" if is_vector else f"{value} : {kind}"
        )

    def binary(self, name: str, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create ``llvm.<name>`` on two values of one type."""
        return self.value(f"llvm.{name}", left.type, left, right)

    def compare(self, predicate: Compare, left: ir.Value, right: ir.Value) -> ir.Value:
        """Create an ``llvm.icmp`` of two integers, or of vectors of them."""
        kind = shaped_like(left.type, ir.IntegerType.get_signless(1))
        return self.value("llvm.icmp", kind, left, right, predicate=f"{predicate.value} : i64")

    def is_not_zero(self, value: ir.Value) -> ir.Value:
        """Compare the integer ``value`` with zero; the result is an i1."""
        return self.compare(Compare.NE, value, self.constant(0, value.type))

    def select(self, condition: ir.Value, yes: ir.Value, no: ir.Value) -> ir.Value:
        """Create an ``llvm.select``."""
        return self.value("llvm.select", yes.type, condition, yes, no)

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
