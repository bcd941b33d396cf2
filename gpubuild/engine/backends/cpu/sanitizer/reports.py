"""What checked code reports to the runtime: numbered places in the source, and the calls that report.

The calls are of functions without a body, until lowering turns them into services of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.builder import Builder, replace
from gpubuild.engine.backends.cpu.lower.state import FunctionState
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.targets.target import Sanitize

BOUNDS = image_layout.CHECK_BOUNDS
VIEW = image_layout.CHECK_VIEW
ACCESS = image_layout.CHECK_ACCESS
MEET = image_layout.CHECK_MEET
WAIT = image_layout.CHECK_WAIT
BARRIER = image_layout.CHECK_BARRIER
DYNAMIC_BYTES = image_layout.CHECK_DYNAMIC_BYTES


@dataclass(slots=True, kw_only=True)
class Checks:
    """What is checked, and the places in the source that checks report, by number."""

    wanted: frozenset[Sanitize]
    source: SourceText
    names: dict[str, str]
    sites: list[str] = field(default_factory=list)

    def site(self, op: ir.Operation) -> int:
        """The number of the place that ``op`` was written at."""
        written = self.names.get(str(op.location), op.name)
        location, _ = locate(op.location, self.source)
        place = f" at {location.file}:{location.line}:{location.column}" if location else ""
        text = f"{written}{place}"
        if text not in self.sites:
            self.sites.append(text)
        return self.sites.index(text)

    @property
    def bounds(self) -> bool:
        """Whether indices are compared with sizes."""
        return Sanitize.BOUNDS in self.wanted

    @property
    def accesses(self) -> bool:
        """Whether each access is reported to the runtime."""
        return bool(self.wanted & {Sanitize.RACE, Sanitize.UNINITIALIZED})


def callee(function: str) -> dict[str, ir.Attribute]:
    """Attributes of a ``func.call`` of ``function``."""
    return {"callee": ir.FlatSymbolRefAttr.get(function)}


def declare(body: ir.Block) -> None:
    """Declare all of them in the block of a gpu.module, where they are not yet."""
    i32, index = ir.IntegerType.get_signless(32), ir.IndexType.get()
    extent = [i32, i32, index, index, index, index]
    kinds = {
        BOUNDS: (extent, []),
        VIEW: (extent, []),
        ACCESS: ([i32, i32, index, index], []),
        MEET: ([], []),
        WAIT: ([], []),
        BARRIER: ([i32], []),
        DYNAMIC_BYTES: ([], [index]),
    }
    known = {op.attributes["sym_name"].value for op in body.operations if "sym_name" in op.attributes}
    for name, (inputs, results) in kinds.items():
        if name in known:
            continue
        ir.Operation.create(
            "func.func",
            regions=1,
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
            },
            loc=ir.Location.unknown(),
            ip=ir.InsertionPoint.at_block_begin(body),
        )


def _service(number: int) -> Callable[[ir.Operation, FunctionState], None]:
    def rewrite(op: ir.Operation, function: FunctionState) -> None:
        Builder(op).service(number, "", [function.item, *op.operands], writes_nothing=True)
        replace(op)

    return rewrite


def _dynamic_bytes(op: ir.Operation, function: FunctionState) -> None:
    build = Builder(op)
    size = build.load(function.item, image_layout.ITEM_DYNAMIC_BYTES, "i32")
    replace(op, build.value("llvm.zext", "i64", size))


def _barrier(op: ir.Operation, function: FunctionState) -> None:
    function.facts.waits = function.facts.waits or "gpu.barrier"
    Builder(op).service(image_layout.SERVICE_BARRIER, "", [function.item, *op.operands])
    replace(op)


REWRITES: dict[str, Callable[[ir.Operation, FunctionState], None]] = {
    BOUNDS: _service(image_layout.SERVICE_CHECK_BOUNDS),
    VIEW: _service(image_layout.SERVICE_CHECK_VIEW),
    ACCESS: _service(image_layout.SERVICE_CHECK_ACCESS),
    MEET: _service(image_layout.SERVICE_CHECK_MEET),
    WAIT: _service(image_layout.SERVICE_CHECK_WAIT),
    BARRIER: _barrier,
    DYNAMIC_BYTES: _dynamic_bytes,
}
