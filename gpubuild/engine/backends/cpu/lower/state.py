"""State: what the rewriting of one module keeps while it goes from op to op."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.fission import Fissions
from gpubuild.engine.backends.cpu.tiers import FunctionFacts
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.locations import address
from gpubuild.errors import Diagnostic, Location, StepError


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedVariable:
    """A variable of the workgroup, ``offset_bytes`` behind one of the work-item's pointers."""

    offset_bytes: int
    base: int = image_layout.ITEM_SHARED  # which pointer: its byte offset in gb_cpu_item


@dataclass(slots=True, kw_only=True)
class ModuleState:
    """Facts about a module under rewriting.

    ``op_names`` maps a location to the gpu-dialect op that was written there, so that messages
    can say ``gpu.all_reduce`` where only shuffles are left. ``sites`` describes every operation
    that can wait, for the runtime's messages; ``text_digest`` is that of the module's text (ir.locations).
    """

    source: SourceText
    target: str
    op_names: dict[str, str]
    text_digest: str = ""
    shared: dict[str, SharedVariable] = field(default_factory=dict)
    shared_bytes: int = 0
    defined: set[str] = field(default_factory=set)
    sites: list[str] = field(default_factory=list)
    facts: dict[str, FunctionFacts] = field(default_factory=dict)
    fissions: Fissions = field(default_factory=Fissions)
    slot_bytes: dict[str, int] = field(default_factory=dict)  # by kernel

    def written_op(self, op: ir.Operation) -> str:
        """The op of the source that ``op`` was made from; its own name when unknown."""
        return self.op_names.get(str(op.location), str(op.name))

    def place(self, op: ir.Operation) -> tuple[Location | None, str]:
        """Where ``op`` is written and the text of that line; ``None`` without a real file."""
        return locate(op.location, self.source)

    def unsupported(self, op: ir.Operation, why: str = "") -> StepError:
        """An error that names what was written and where."""
        written = self.written_op(op)
        what = f"'{written}'" + (f" (as '{op.name}')" if written != op.name else "")
        location, line = self.place(op)
        return StepError(
            f"target {self.target} cannot compile {what}: {why or 'CPU kernels do not support it'}",
            diagnostics=[
                Diagnostic(
                    message=why or f"{what} is not supported on CPUs", location=location, source_line=line
                )
            ],
            hint="leave this target out for the module (`modules:` in targets.yaml), or rewrite the kernel",
        )


@dataclass(slots=True, kw_only=True)
class FunctionState:
    """The function under rewriting; ``item`` is its argument of type ``gb_cpu_item *``."""

    module: ModuleState
    facts: FunctionFacts
    item: ir.Value

    def site(self, op: ir.Operation, *, cluster: bool = False) -> int:
        """Number ``op`` as one that waits, for the runtime's messages and for the tier."""
        written = self.module.written_op(op)
        position = _file_position(op)
        place = f" at {position}" if position else ""
        if not self.facts.waits:
            self.facts.waits = written + place
        self.facts.cluster_barrier |= cluster
        in_function = f" in @{self._written_name()}{address(self.module.text_digest, op)}"
        self.module.sites.append(written + (place or in_function))
        return len(self.module.sites) - 1

    def _written_name(self) -> str:
        """The function's name in the source: a workgroup function is a copy of its kernel."""
        done = self.module.fissions.done
        return next((k for k, f in done.items() if f.function == self.facts.name), self.facts.name)


def _file_position(op: ir.Operation) -> str:
    """``file:line:column`` when the text carries the user's locations (debug), else nothing."""
    location, _ = locate(op.location, SourceText())
    if location is None or location.file == "<input>":
        return ""
    return f"{location.file}:{location.line}:{location.column}"


_VENDOR_DIALECTS = frozenset({"nvgpu", "nvvm"})
_NAMED_DIALECTS = frozenset({"gpu", "nvgpu", "nvvm", "memref", "math", "vector", "affine", "linalg"})


def written_ops(module: ir.Operation) -> dict[str, str]:
    """Location → name of each op that others are made from, read before anything is lowered."""
    names: dict[str, str] = {}

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialect = op.name.partition(".")[0]
        if dialect in _NAMED_DIALECTS:
            # A transform puts all that it makes of one op in one place; a vendor's op is what matters there.
            if dialect in _VENDOR_DIALECTS:
                names[str(op.location)] = op.name
            names.setdefault(str(op.location), op.name)
        return ir.WalkResult.ADVANCE

    module.walk(visit)
    return names
