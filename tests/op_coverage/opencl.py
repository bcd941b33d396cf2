"""What SPIR-V kernels for OpenCL cannot do: the rows of the table that are refused, and why."""

from __future__ import annotations

from kernels.program import CPU, Program

CHIP = "spirv1.3"
_CLUSTERS = "needs clusters of workgroups"
_SMALL_ATOMICS = "OpenCL has atomic operations of 32 and 64 bits"
_WIDE = "SPIR-V has no integers of 128 bits"
_HEAP = "undefined in @k: "
_NVIDIA = "is an instruction of NVIDIA GPUs"
REFUSED = {
    "gpu_cluster_id": _CLUSTERS,
    "gpu_cluster_dim": _CLUSTERS,
    "gpu_cluster_block_id": _CLUSTERS,
    "gpu_cluster_dim_blocks": _CLUSTERS,
    "memref_atomic_addf_f16": _SMALL_ATOMICS,
    "memref_atomic_maximumf_f16": _SMALL_ATOMICS,
    "memref_atomic_addf_bf16": _SMALL_ATOMICS,
    "memref_generic_atomic_i8": _SMALL_ATOMICS,
    "memref_generic_atomic_i16": _SMALL_ATOMICS,
    "memref_generic_atomic_f16": _SMALL_ATOMICS,
    "arith_mulsi_extended_i64": _WIDE,
    "arith_mului_extended_i64": _WIDE,
    "memref_alloc": _HEAP,
    "memref_realloc": _HEAP,
    "nvvm_cluster": _NVIDIA,
    "nvvm_shfl_vote": _NVIDIA,
    "nvvm_redux": _NVIDIA,
    "nvgpu_rcp": _NVIDIA,
}


def reason(program: Program) -> str:
    """Why OpenCL devices refuse a row; empty: they run it."""
    return program.refused.get(CPU, "") or REFUSED.get(program.name, "")
