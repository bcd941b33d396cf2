"""Passes of SPIR-V devices, in the order in which they run.

Upstream's conversion for NVIDIA GPUs makes intrinsics of LLVM; ``opencl.ll`` defines these by OpenCL's built-in
functions. (``convert-gpu-to-llvm-spv`` would make all plain memory global, private arrays included.)
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.backends.lowering import (
    CALL_LIBRARIES_DIRECTLY,
    EXPAND_OPERATIONS,
    EXPAND_TYPES,
    FINISH_LLVM,
    LOWER_STRUCTURES,
    TO_BLOCKS,
    TO_LOOPS,
    GpuLowering,
    debug_scope,
    replaceable,
)
from gpubuild.engine.backends.spirv import address_spaces, ops
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Pass, upstream
from gpubuild.engine.legalize import (
    all_reduce,
    matrices,
    memory_spaces,
    subgroup_reduce,
    subgroup_shuffle,
    unsupported_ops,
    workarounds,
)
from gpubuild.engine.legalize.state import Capabilities, Shuffles
from gpubuild.model.step import CompileParams
from gpubuild.targets.spirv import SPIRV


def start(params: CompileParams, source: SourceText) -> GpuLowering:
    """Return the state in which the passes begin."""
    target = params.target
    capabilities = Capabilities(
        devices="OpenCL devices",
        subgroup_size=SPIRV.subgroup_size(target.chip, target.features),
        shuffles=Shuffles.NAMED,
        clusters=False,
        workgroup_bytes=SPIRV.workgroup_bytes(target.chip),
        widest_all_reduce=None,
    )
    return GpuLowering(
        source=source,
        capabilities=capabilities,
        target=target.name,
        fast_math=target.fast_math,
        params=params,
        keep_values=target.opt_level == 0,
    )


PASSES: tuple[Pass[GpuLowering], ...] = (
    *replaceable(
        memory_spaces.NAME_PRIVATE,
        *LOWER_STRUCTURES,
        matrices.EXPAND,
        unsupported_ops.checking(ops.refusal),
        subgroup_reduce.EXPAND_SIZE,
        *EXPAND_OPERATIONS,
        subgroup_shuffle.EXPAND_BROADCAST,
        ops.EXPAND_PRINTF,
        subgroup_reduce.EXPAND,
        all_reduce.WIDEN,
        all_reduce.SEPARATE,
        all_reduce.EXPAND,
        *EXPAND_TYPES,
        workarounds.KEEP_SIGNED_ZEROS,
        TO_LOOPS,
        TO_BLOCKS,
        upstream(
            "convert-to-nvvm",
            "builtin.module(gpu.module(convert-vector-to-llvm,convert-index-to-llvm,convert-gpu-to-nvvm))",
        ),
        FINISH_LLVM,
    ),
    debug_scope("LineTablesOnly"),
    CALL_LIBRARIES_DIRECTLY,
    address_spaces.USE_GENERIC_POINTERS,
    ops.REQUIRE_SUBGROUPS,
)
