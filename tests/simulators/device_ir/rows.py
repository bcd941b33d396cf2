"""Which rows of the coverage table are run from what is made for a GPU, and how far they may be off."""

from __future__ import annotations

from dataclasses import replace

from kernels.operations import matrix_ops, subgroup_ops
from kernels.program import AMD_CHIPS, NVIDIA_CHIPS, Program
from simulators.device_ir import amd_rows

# One workgroup runs at a time, so that those of a cluster cannot wait for each other.
_WAIT_FOR_A_CLUSTER = frozenset({"nvvm_cluster"})
# Worst errors in units in the last place that the CUDA C++ Programming Guide gives for libdevice,
# where the CPU's function is better.
_LIBDEVICE_ULPS = {"math_tan_f32": 4.0}
_SUBGROUPS = frozenset(p.name for p in subgroup_ops.PROGRAMS)
_MATRICES = frozenset(p.name for p in matrix_ops.PROGRAMS)


def form_for(program: Program, target: str) -> Program | None:
    """The program as it is run for ``target``; ``None`` where it is compiled only."""
    if target in program.refused or not program.runs or program.name in _WAIT_FOR_A_CLUSTER:
        return None
    if target in NVIDIA_CHIPS:
        return replace(
            program, tolerance_ulp=max(program.tolerance_ulp, _LIBDEVICE_ULPS.get(program.name, 0))
        )
    if target not in AMD_CHIPS:
        return None
    if program.name in _SUBGROUPS:  # these follow from the number of lanes, which their text says
        return next((p for p in amd_rows.programs() if p.name == program.name), None)
    return replace(program, block=amd_rows.LANES) if program.name in _MATRICES else program
