"""Passes of SPIR-V devices, in the order in which they run.

Upstream's conversion for NVIDIA GPUs makes intrinsics of LLVM; ``opencl.py`` defines these by OpenCL's
built-in functions. (``convert-gpu-to-llvm-spv`` would make all plain memory global, private arrays included.)
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
from gpubuild.engine.backends.spirv import address_spaces, masked_lanes, ops
from gpubuild.engine.backends.spirv.address_spaces import ADDED
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.passes import Pass, upstream
from gpubuild.engine.ir.query import kernel_functions, symbol_name
from gpubuild.engine.legalize import (
    all_reduce,
    memory_ops,
    memory_spaces,
    subgroup_reduce,
    subgroup_shuffle,
    unroll_and_jam,
    unsupported_ops,
    workarounds,
)
from gpubuild.engine.legalize.state import Capabilities, Shuffles
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.spirv import SPIRV, subgroup_size

_MOST_PARAMETERS = 255  # SPIR-V specification, section 2.17


@dataclass(slots=True, kw_only=True)
class SpirvLowering(GpuLowering):
    """The state of a lowering for SPIR-V."""

    added: dict[str, int] = field(default_factory=dict, init=False)  # parameters that the runtime adds


def start(params: CompileParams, source: SourceText) -> SpirvLowering:
    """Return the state in which the passes begin."""
    target = params.target
    capabilities = Capabilities(
        devices="OpenCL devices",
        subgroup_size=subgroup_size(target),
        shuffles=Shuffles.NAMED,
        clusters=False,
        workgroup_bytes=SPIRV.workgroup_bytes(target.chip),
        widest_all_reduce=None,
    )
    return SpirvLowering(
        source=source,
        capabilities=capabilities,
        target=target.name,
        fast_math=target.fast_math,
        params=params,
        keep_values=target.opt_level == 0,
    )


def _record_added(module: ir.Module, state: SpirvLowering) -> None:
    for kernels in contexts.gpu_modules(module):
        for kernel in kernel_functions(kernels):
            _check_count(kernel, state)
            if ADDED in kernel.attributes:
                state.added[symbol_name(kernel)] = kernel.attributes[ADDED].value
                del kernel.attributes[ADDED]


def _check_count(kernel: ir.Operation, state: SpirvLowering) -> None:
    count = len(kernel.regions[0].blocks[0].arguments) if kernel.regions[0].blocks else 0
    if count > _MOST_PARAMETERS:
        reason = f"its arguments become {count} parameters; SPIR-V allows {_MOST_PARAMETERS}"
        raise StepError(
            f"kernel @{symbol_name(kernel)} has too many arguments for SPIR-V",
            diagnostics=[about(kernel, reason, state.source)],
            hint="divide the kernel, or pass fewer memrefs: one of rank N takes 3 + 2 * N parameters",
        )


PASSES: tuple[Pass[SpirvLowering], ...] = (
    *replaceable(
        memory_spaces.NAME_PRIVATE,
        unroll_and_jam.JAM,
        *LOWER_STRUCTURES,
        unsupported_ops.checking(ops.refusal),
        ops.EXPAND_MATRICES,
        ops.DROP_PREFETCHES,
        ops.EXPAND_FLOAT_ATOMICS,
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
        workarounds.FLOOR_WIDE_INTEGERS,
        memory_ops.WIDEN_PARAMETERS,
        upstream(
            "emulate-bf16",
            "builtin.module(gpu.module(math-extend-to-supported-types{extra-types=f16 target-type=f32},"
            "arith-emulate-unsupported-floats{source-types=bf16 target-type=f32}))",
        ),
        TO_LOOPS,
        *TO_BLOCKS,
        ops.TRUNCATE_BY_COMPARISON,
        ops.CONVERT_BF16_BY_F32,  # behind canonicalisation, which would undo it
        upstream("expand-bf16", "builtin.module(gpu.module(arith-expand{include-bf16=true}))"),
        upstream(
            "convert-to-nvvm",
            "builtin.module(gpu.module(convert-vector-to-llvm,convert-index-to-llvm,convert-gpu-to-nvvm))",
        ),
        FINISH_LLVM,
    ),
    debug_scope("LineTablesOnly"),
    CALL_LIBRARIES_DIRECTLY,
    masked_lanes.SPLIT_MASKED,
    ops.INLINE_FUNCTIONS,
    ops.REQUIRE_SUBGROUPS,
    ops.REQUIRE_WORKGROUPS,
    address_spaces.USE_GENERIC_POINTERS,
    Pass(name="record-added-parameters", run=_record_added),
)
