"""Passes of legalization that the CPU takes: it acts as an NVIDIA GPU whose lanes are work-items."""

from __future__ import annotations

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Pass
from gpubuild.engine.legalize import (
    all_reduce,
    arith_expansions,
    atomics,
    booleans,
    composite_memory_ops,
    descriptor_parameters,
    e8m0_floats,
    fast_math,
    matrices,
    printf,
    small_floats,
    softmax,
    subgroup_reduce,
    subgroup_shuffle,
    subgroups,
    unsupported_ops,
    upstream_patterns,
    vectors,
    workarounds,
)
from gpubuild.engine.legalize.state import Capabilities, Legalization, Shuffles
from gpubuild.model.step import CompileParams

CAPABILITIES = Capabilities(
    devices="CPUs",
    subgroup_size=image_layout.SUBGROUP,
    shuffles=Shuffles.MEMORY,
    dialects=frozenset({"nvvm", "nvgpu"}),
    intrinsics=frozenset({"aarch64", "arm", "x86"}),
    wide_floats=True,
)
# Before the sanitizer looks at accesses.
PLAIN_MEMORY: tuple[Pass[Legalization], ...] = (
    composite_memory_ops.EXPAND_CASTS,
    composite_memory_ops.EXPAND_REALLOC,
)
LEGALIZE: tuple[Pass[Legalization], ...] = (
    matrices.EXPAND,
    *PLAIN_MEMORY,
    booleans.lower_structured("gpu.module"),
    unsupported_ops.checking(),
    fast_math.SET_FLAGS,
    subgroups.EXPAND_SIZE,
    subgroups.EXPAND_IDS,
    subgroup_shuffle.EXPAND_SHUFFLES,
    subgroup_shuffle.EXPAND_BROADCAST,
    printf.PROMOTE_ARGUMENTS,
    booleans.USE_BYTES,
    composite_memory_ops.EXPAND_COPIES,
    vectors.SPLIT_ACCESSES,
    vectors.EXPAND_POSITIONS,
    arith_expansions.WIDEN_CONTRACT_FACTORS,
    arith_expansions.EXPAND_MATH,
    arith_expansions.ROUND_INTEGERS_ONCE,
    arith_expansions.EXPAND_COMPLEX_BITCAST,
    softmax.EXPAND_SOFTMAX,
    atomics.EXPAND_PRODUCTS,
    atomics.USE_INTEGERS,
    subgroup_reduce.EXPAND,
    all_reduce.WIDEN,
    subgroups.EXPAND_EXECUTE_ON_LANE_0,
    descriptor_parameters.TAKE_POINTERS,
    e8m0_floats.EXPAND_SCALING,
    small_floats.EMULATE,
    small_floats.EXPAND_CONVERSIONS,
    e8m0_floats.EXPAND_CONVERSIONS,
    upstream_patterns.LOWER_VECTORS,
)
PASSES = (*LEGALIZE, workarounds.KEEP_SIGNED_ZEROS)


def start(params: CompileParams, source: SourceText) -> Legalization:
    """Return the state in which the passes begin."""
    return Legalization(
        source=source,
        capabilities=CAPABILITIES,
        target=params.target.name,
        fast_math=params.target.fast_math,
    )
