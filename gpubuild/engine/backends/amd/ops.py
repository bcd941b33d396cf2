"""Operations of AMD GPUs: which chips lack them, broadcasts, and how the lanes of a subgroup wait.

Upstream's conversion accepts some operations that a chip lacks, and LLVM then ends the process. They were
found by compiling each operation for a chip of every generation with LLVM 22.
"""

from __future__ import annotations

import re

from mlir import ir

from gpubuild.engine.backends.amd.matrix_cores import MatrixCores
from gpubuild.engine.backends.lowering import GpuLowering
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.passes import Lowering, Pass, rewriting
from gpubuild.engine.legalize.matrices import expand_matrices
from gpubuild.engine.legalize.subgroup_shuffle import move

_LARGEST = "amdgpu.raw_buffer_atomic_fmax"
_WAIT = "amdgpu.memory_counter_wait"
_ACQUIRE, _RELEASE = 4, 5  # orderings of llvm.fence


def chip_refusal(op: ir.Operation, chip: str) -> str:
    """Return why ``chip`` does not have ``op``, or an empty string."""
    if op.name == _LARGEST:
        kind = str(op.operands[0].type)
        if not re.fullmatch(_atomic_maxima(kind), chip):
            return f"'{op.name}' of {kind} is an instruction that {chip} does not have"
    if op.name == _WAIT and "exp" in op.attributes and chip.startswith("gfx125"):
        return f"'{op.name}' of exports: {chip} has no counter of them; leave out `exp`"
    return ""


def _atomic_maxima(kind: str) -> str:
    """Return a pattern of the chips whose buffer instructions have the atomic maximum of ``kind``."""
    if kind == "f64":
        return r"gfx90a|gfx9[45]\w|gfx10\w\w|gfx125\w"
    return r"gfx1\d\w\w"


def _broadcast(op: ir.Operation, _: Lowering) -> None:
    """Expand ``gpu.subgroup_broadcast``: all lanes that are active here read the same one."""
    emit = Emitter(op)
    i32 = ir.IntegerType.get_signless(32)
    specific = len(op.operands) > 1

    def read(at: Emitter, word: ir.Value) -> tuple[ir.Value, ir.Value]:
        name = "rocdl.readlane" if specific else "rocdl.readfirstlane"
        return at.value(name, [word, *list(op.operands)[1:]], i32), word

    emit.replace(move(emit, op.operands[0], read)[0])


def _wait_in_wave(emit: Emitter, _: ir.Operation) -> None:
    """Lanes run in step and their accesses keep their order, unless the compiler moves them."""
    scope = ir.StringAttr.get("wavefront")
    _fence(emit, _RELEASE, scope)
    emit.call_intrinsic("llvm.amdgcn.wave.barrier")
    _fence(emit, _ACQUIRE, scope)


def _fence(emit: Emitter, ordering: int, scope: ir.Attribute) -> None:
    order = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), ordering)
    emit.op("llvm.fence", [], [], {"ordering": order, "syncscope": scope})


def _expand_matrices(module: ir.Module, state: GpuLowering) -> None:
    target = state.params.target
    units = MatrixCores.of(target.chip, state.capabilities.subgroup_size, target.features)
    expand_matrices(module, state, wait=_wait_in_wave, units=units)


BROADCAST = rewriting("subgroup-broadcast-to-rocdl", {"gpu.subgroup_broadcast": _broadcast})
EXPAND_MATRICES = Pass(name="expand-matrices", run=_expand_matrices)
