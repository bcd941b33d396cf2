"""Masked accesses of the LLVM dialect, which LLVM's code generator for SPIR-V lacks, lane by lane.

A lane that is masked off accesses a private variable instead of the memory, so that there are no branches.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir.builder import LlvmBuilder, replace
from gpubuild.engine.ir.passes import rewriting
from gpubuild.engine.ir.query import element_bytes, enclosing

_POINTER, _I64 = "!llvm.ptr", "i64"
_POINTER_BYTES = 8
_ANY_INDEX = "array<i32: -2147483648>"


class _Lanes:
    """The lanes of the vector ``kind`` at ``pointer``, a pointer or a vector of pointers, under ``mask``."""

    def __init__(self, op: ir.Operation, kind: ir.Type, pointer: ir.Value, mask: ir.Value) -> None:
        build = self._build = LlvmBuilder(op)
        self._kind, vector = kind, ir.VectorType(kind)
        self._element = vector.element_type
        self._alignment = _alignment(op, self._element)
        self.active = [self.part(mask, lane) for lane in range(vector.shape[0])]
        if isinstance(pointer.type, ir.VectorType):
            places = [self.part(pointer, lane) for lane in range(vector.shape[0])]
        elif op.name in ("llvm.intr.masked.expandload", "llvm.intr.masked.compressstore"):
            index, places = build.constant(0, _I64), []
            for active in self.active:
                places.append(self._at(pointer, index))
                index = build.binary("add", index, build.value("llvm.zext", _I64, active))
        else:
            places = [self._at(pointer, build.constant(lane, _I64)) for lane in range(vector.shape[0])]
        spare = self._spare(op)
        self._addresses = [
            build.value("llvm.select", _POINTER, active, self._plain(address), spare)
            for active, address in zip(self.active, places, strict=True)
        ]

    def _spare(self, op: ir.Operation) -> ir.Value:
        function = enclosing(op, ("llvm.func",))
        assert function is not None  # noqa: S101 - functions hold all operations of the LLVM dialect
        begin = LlvmBuilder(function.regions[0].blocks[0].operations[0].operation)
        kind = ir.TypeAttr.get(self._element)
        return begin.value("llvm.alloca", _POINTER, begin.constant(1, _I64), elem_type=kind)

    def _at(self, base: ir.Value, index: ir.Value) -> ir.Value:
        kind = ir.TypeAttr.get(self._element)
        how = {"rawConstantIndices": _ANY_INDEX, "noWrapFlags": "0 : i32"}
        return self._build.value("llvm.getelementptr", base.type, base, index, elem_type=kind, **how)

    def _plain(self, pointer: ir.Value) -> ir.Value:
        if str(pointer.type) == _POINTER:
            return pointer
        return self._build.value("llvm.addrspacecast", _POINTER, pointer)

    def part(self, vector: ir.Value, lane: int) -> ir.Value:
        kind = ir.VectorType(vector.type).element_type
        return self._build.value("llvm.extractelement", kind, vector, self._build.constant(lane))

    def load(self, otherwise: ir.Value) -> ir.Value:
        """Return the lanes that are active, and those of ``otherwise``."""
        result = otherwise
        for lane, (active, address) in enumerate(zip(self.active, self._addresses, strict=True)):
            loaded = self._build.value(
                "llvm.load", self._element, address, ordering="0 : i64", alignment=self._alignment
            )
            value = self._build.value(
                "llvm.select", self._element, active, loaded, self.part(otherwise, lane)
            )
            result = self._build.value(
                "llvm.insertelement", self._kind, result, value, self._build.constant(lane)
            )
        return result

    def store(self, value: ir.Value) -> None:
        """Store the lanes that are active."""
        for lane, address in enumerate(self._addresses):
            self._build.op(
                "llvm.store", [], [self.part(value, lane), address],
                ordering="0 : i64", alignment=self._alignment,
            )  # fmt: skip


def _alignment(op: ir.Operation, element: ir.Type) -> ir.Attribute:
    """Return the alignment of one lane; an operation may have that of the whole vector."""
    bytes_ = element_bytes(element) or _POINTER_BYTES
    given = op.attributes["alignment"].value if "alignment" in op.attributes else bytes_
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), min(given, bytes_))


def _expand_load(op: ir.Operation, _: GpuLowering) -> None:
    pointer, mask, otherwise = list(op.operands)
    replace(op, _Lanes(op, op.results[0].type, pointer, mask).load(otherwise))


def _expand_store(op: ir.Operation, _: GpuLowering) -> None:
    value, pointer, mask = list(op.operands)
    _Lanes(op, value.type, pointer, mask).store(value)
    op.erase()


SPLIT_MASKED = rewriting(
    "split-masked-accesses",
    {
        **{f"llvm.intr.masked.{name}": _expand_load for name in ("load", "gather", "expandload")},
        **{f"llvm.intr.masked.{name}": _expand_store for name in ("store", "scatter", "compressstore")},
    },
)
