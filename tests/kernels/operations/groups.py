"""All programs of operations, by dialect: the rows of docs/reference/coverage.md."""

from __future__ import annotations

from kernels.operations import (
    amd_ops,
    arith_ops,
    control_ops,
    gpu_ops,
    linalg_ops,
    math_ops,
    matrix_ops,
    memory_ops,
    rare_ops,
    small_float_ops,
    subgroup_ops,
    vector_linalg_ops,
    vector_ops,
    vector_place_ops,
    vendor_ops,
)
from kernels.program import Program

GROUPS: dict[str, list[Program]] = {
    "gpu": gpu_ops.PROGRAMS,
    "gpu: subgroups": subgroup_ops.PROGRAMS,
    "gpu: matrices": matrix_ops.PROGRAMS,
    "arith": arith_ops.PROGRAMS + rare_ops.ARITH,
    "arith: floats of 4 to 8 bits": small_float_ops.PROGRAMS,
    "math": math_ops.PROGRAMS,
    "memref": memory_ops.PROGRAMS + vector_place_ops.BOOLS + rare_ops.MEMREF,
    "scf, cf, affine, func, index, ub, complex": control_ops.PROGRAMS + rare_ops.CONTROL,
    "vector, linalg": vector_ops.PROGRAMS
    + vector_linalg_ops.PROGRAMS
    + vector_place_ops.PROGRAMS
    + linalg_ops.PROGRAMS,
    "nvgpu, nvvm, amdgpu, rocdl": vendor_ops.PROGRAMS + amd_ops.PROGRAMS,
}
