"""State of a lowering for CPUs, which passes read and write, and names of attributes.

A fact about one function is an attribute on it. So dumped IR shows it, and each pass can run on a file by
itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.cpu.kernel_facts import KernelFacts
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.kernel_table import KernelEntry
from gpubuild.engine.ir.locations import address
from gpubuild.engine.ir.query import symbol_name
from gpubuild.engine.ir.resources import External
from gpubuild.engine.legalize.state import Legalization
from gpubuild.errors import Diagnostic, StepError
from gpubuild.targets.target import Sanitize

# Attributes of kernels, and of functions that run a whole workgroup.
WORKGROUP_OF = "gpubuild.workgroup_of"  # on a function that runs a workgroup: the kernel it was made of
NO_FISSION = "gpubuild.no_fission"  # on a kernel without such a function: the reason
STREAMING = "gpubuild.streaming"  # its time depends on memory alone
COALESCED = "gpubuild.coalesced"  # workgroups side by side may run as one
ALIAS_VERSIONS = "gpubuild.alias_versions"  # see alias_versioning
BLOCK_SIZE = "gpubuild.block_size"  # a former known_block_size, which the runtime still checks
# Attributes of functions in the LLVM dialect.
WAITS = "gpubuild.waits"  # the first operation at which work-items wait, for messages
CLUSTER_BARRIER = "gpubuild.cluster_barrier"

_CONTEXT_ARRAY = re.compile(r"(.*?)(?:\.shuffle|\.private\.\d+)?\.context\.\d+")
_VENDOR_DIALECTS = frozenset({"nvgpu", "nvvm"})
_NAMED_DIALECTS = frozenset({"gpu", "nvgpu", "nvvm", "memref", "math", "vector", "affine", "linalg"})


@dataclass(slots=True, kw_only=True)
class CpuLowering(Legalization):
    """The lowering of one gpu.module under way.

    ``written_ops`` maps a location to the operation of the source there, so that messages name a
    ``gpu.all_reduce`` where only shuffles are left. ``sites`` are the numbered positions in the source that
    the runtime's messages name.
    """

    written_ops: dict[str, str] = field(default_factory=dict)
    text_digest: str = ""
    sanitize: frozenset[Sanitize] = frozenset()
    debug: bool = False
    converted_by_calls: frozenset[str] = frozenset()  # 16-bit floats, see lower/half_floats.py
    probe_stack: bool = False  # a large frame touches each of its pages, and so a guard page
    sites: list[str] = field(default_factory=list)
    workgroup_bytes: int = 0  # of the variables that all kernels share
    context_bytes: dict[str, int] = field(default_factory=dict)  # by kernel
    kernels: tuple[KernelFacts, ...] = ()
    entries: tuple[KernelEntry, ...] = ()  # of the kernel table
    externals: tuple[External, ...] = ()  # variables whose data LLVM does not see

    @property
    def checks_accesses(self) -> bool:
        """Whether the runtime records each access."""
        return bool(self.sanitize & {Sanitize.RACE, Sanitize.UNINITIALIZED, Sanitize.HOST_MEMORY})

    def written_op(self, op: ir.Operation) -> str:
        """Return the name of the source's operation that ``op`` was made from; its own name when unknown."""
        return self.written_ops.get(str(op.location), str(op.name))

    def access_site(self, op: ir.Operation) -> int:
        """Return the number of the position of ``op`` in the source, for messages about accesses."""
        text = self.written_op(op) + _position(op, self.source)
        if text not in self.sites:
            self.sites.append(text)
        return self.sites.index(text)

    def barrier_site(self, op: ir.Operation, function: ir.Operation) -> int:
        """Return a number for ``op`` of ``function``, at which work-items wait."""
        written, attributes = self.written_op(op), function.attributes
        position = _position(op, SourceText())  # if the text has the user's locations (debug)
        if position.startswith(" at <input>:"):
            position = ""
        if WAITS not in attributes:
            attributes[WAITS] = ir.StringAttr.get(written + position)
        name = attributes[WORKGROUP_OF].value if WORKGROUP_OF in attributes else symbol_name(function)
        self.sites.append(written + (position or f" in @{name}{address(self.text_digest, op)}"))
        return len(self.sites) - 1

    def unsupported(self, op: ir.Operation, why: str = "") -> StepError:
        """Return an error that names the operation of the source and its location."""
        written = self.written_op(op)
        what = f"'{written}'" + (f" (as '{op.name}')" if written != op.name else "")
        location, line = locate(op.location, self.source)
        return StepError(
            f"target {self.target} cannot compile {what}: {why or 'CPU kernels do not support it'}",
            diagnostics=[
                Diagnostic(
                    message=why or f"{what} is not supported on CPUs", location=location, source_line=line
                )
            ],
            hint="leave this target out for the module (`modules:` in targets.yaml), or rewrite the kernel",
        )


def kernel_module(module: ir.Module) -> ir.Operation:
    """Return the gpu.module of a module that holds one."""
    return contexts.gpu_modules(module)[0]


def gpu_kernels(module: ir.Module) -> list[ir.Operation]:
    """Return the kernels of a module that are in the gpu dialect."""
    ops = (op.operation for op in kernel_module(module).regions[0].blocks[0])
    return [op for op in ops if op.name == "gpu.func" and "gpu.kernel" in op.attributes]


def owner_of_context_array(name: str) -> str:
    """Return the function to which a context array of this name belongs; empty for other variables."""
    found = _CONTEXT_ARRAY.fullmatch(name)  # named by fission/context_arrays
    return found[1] if found else ""


def _position(op: ir.Operation, source: SourceText) -> str:
    """Return " at file:line:column"; empty where the position is not known."""
    location, _ = locate(op.location, source)
    return f" at {location.file}:{location.line}:{location.column}" if location else ""


def record_written_ops(module: ir.Module, lowering: CpuLowering) -> None:
    """Map locations to the operations of the source, before any is lowered."""
    names = lowering.written_ops

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialect = op.name.partition(".")[0]
        if dialect in _NAMED_DIALECTS:
            # A transform gives all ops that it makes the location of the first; a vendor's op matters there.
            if dialect in _VENDOR_DIALECTS:
                names[str(op.location)] = op.name
            names.setdefault(str(op.location), op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
