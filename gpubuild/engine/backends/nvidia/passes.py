"""Passes of NVIDIA GPUs, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.lowering import (
    CALL_LIBRARIES_DIRECTLY,
    EXPAND_OPERATIONS,
    EXPAND_TYPES,
    FINISH_LLVM,
    LINK_WORKGROUP_MEMORY,
    LOWER_STRUCTURES,
    TO_BLOCKS,
    TO_LOOPS,
    GpuLowering,
    debug_scope,
    flush_denormals,
    mark_kernels,
    replaceable,
)
from gpubuild.engine.backends.nvidia import ops, tensor_cores, workarounds
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Pass, upstream
from gpubuild.engine.ir.query import first
from gpubuild.engine.legalize import (
    all_reduce,
    arith_expansions,
    debug_variables,
    memory_ops,
    memory_spaces,
    subgroup_reduce,
    unroll_and_jam,
    unsupported_ops,
)
from gpubuild.engine.legalize import workarounds as generic_workarounds
from gpubuild.engine.legalize.state import Capabilities, Shuffles
from gpubuild.model.step import CompileParams
from gpubuild.targets.nvidia import NVIDIA, ptx_asked
from gpubuild.targets.target import FULL

_NVGPU = "builtin.module(gpu.module(convert-nvgpu-to-nvvm))"


@dataclass(slots=True, kw_only=True)
class NvidiaLowering(GpuLowering):
    """The state of a lowering for NVIDIA."""

    ptx_asked: int  # the version that the user asks for, times ten, such as 78; 0 for any
    ptx_needed: int = field(default=0, init=False)  # by the instructions in the module


def start(params: CompileParams, source: SourceText) -> NvidiaLowering:
    """Return the state in which the passes begin."""
    capabilities = Capabilities(
        devices="NVIDIA GPUs",
        subgroup_size=NVIDIA.subgroup_size(params.target.chip, params.target.features),
        shuffles=Shuffles.NAMED,
        dialects=frozenset({"nvvm", "nvgpu"}),
        intrinsics=frozenset({"nvvm"}),
        clusters=NVIDIA.has_clusters(params.target.chip),
        workgroup_bytes=NVIDIA.workgroup_bytes(params.target.chip),
    )
    return NvidiaLowering(
        source=source,
        capabilities=capabilities,
        target=params.target.name,
        fast_math=params.target.fast_math,
        params=params,
        debug_variables=params.target.debug == FULL,
        keep_values=params.target.opt_level == 0,
        ptx_asked=ptx_asked(params.target.features),
    )


def _find_ptx_version(module: ir.Module, state: NvidiaLowering) -> None:
    if ops.uses_own_dialects(state.source.text):
        state.ptx_needed = ops.ptx_needed(module.operation)


def _refusal(op: ir.Operation, state: NvidiaLowering) -> str:
    return ops.chip_refusal(op, state.params.target.chip, state.ptx_asked)


def _convert_nvgpu_in_loops(module: ir.Module, state: NvidiaLowering) -> None:
    """Convert nvgpu before loops become blocks where loops carry values of its types.

    Upstream's conversion handles such values in scf's ops, not in blocks of cf. It refuses matrices of gpu in
    scf's ops, so that elsewhere it runs later.
    """
    if "!nvgpu." in state.source.text and first(module.operation, _carries_nvgpu) is not None:
        contexts.run_passes(module, _NVGPU, source=state.source)


def _carries_nvgpu(op: ir.Operation) -> bool:
    return op.name.startswith("scf.") and any(str(r.type).startswith("!nvgpu.") for r in op.results)


def _attach_target(state: GpuLowering) -> str:
    target = state.params.target
    return f"builtin.module(nvvm-attach-target{{chip={target.chip} O={target.opt_level}}})"


PASSES: tuple[Pass[NvidiaLowering], ...] = (
    debug_variables.RECORD,
    Pass(name="find-ptx-version", run=_find_ptx_version),
    *replaceable(
        memory_spaces.NAME_PRIVATE,
        tensor_cores.EXPAND_MATRICES,
        unroll_and_jam.JAM,
        *LOWER_STRUCTURES,
        unsupported_ops.checking(_refusal, tensor_cores.misaligned),
        subgroup_reduce.EXPAND_SIZE,
        *EXPAND_OPERATIONS,
        ops.BROADCAST,
        tensor_cores.EXPAND_ELEMENTWISE,
        tensor_cores.BF16_PRODUCTS,
        ops.REDUCE,
        subgroup_reduce.EXPAND,
        all_reduce.WIDEN,
        all_reduce.SEPARATE,
        all_reduce.EXPAND_IN_FUNCTIONS,
        memory_ops.WIDEN_PARAMETERS,
        *EXPAND_TYPES,
        arith_expansions.extrema_to_llvm(ops.propagates_nan),
        generic_workarounds.KEEP_SIGNED_ZEROS,
        generic_workarounds.FLOOR_WIDE_INTEGERS,
        upstream("attach-target", _attach_target),
        TO_LOOPS,
        Pass(name="convert-nvgpu-in-loops", run=_convert_nvgpu_in_loops),
        *TO_BLOCKS,
        upstream(
            "convert-to-nvvm",
            "builtin.module(gpu.module(convert-nvgpu-to-nvvm,convert-vector-to-llvm,convert-index-to-llvm,"
            "convert-gpu-to-nvvm,convert-nvvm-to-llvm))",
        ),
        FINISH_LLVM,
    ),
    debug_variables.describe(workgroup_variables=True, fixed_slots=True),
    # Full debug information only on request: ptxas refuses to optimise with it.
    debug_scope("DebugDirectivesOnly"),
    mark_kernels("nvvm.kernel"),
    flush_denormals(lambda target: "ftz" in target.flags),
    LINK_WORKGROUP_MEMORY,
    ops.ALIGN_VARIABLES,
    CALL_LIBRARIES_DIRECTLY,
    workarounds.INLINE_ODD_SIGNATURES,
)  # fmt: skip
