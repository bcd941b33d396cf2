"""Rows of docs/reference/coverage.md in the form in which the simulators run them for a chip."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import cache
from pathlib import Path

from kernels.operations import matrix_ops, subgroup_ops
from kernels.program import AMD_CHIPS, NVIDIA_CHIPS, Program

LANES_OF_CDNA = 64
# Written for 32 lanes: values of lanes beyond `width` are undefined, or the text contains 32.
_ONLY_32_LANES = frozenset({"gpu_shuffle_vector"})
# One workgroup runs at a time, so that those of a cluster cannot wait for each other.
_WAIT_FOR_A_CLUSTER = frozenset({"nvvm_cluster"})
# Worst errors in units in the last place that the CUDA C++ Programming Guide gives for libdevice,
# where the CPU's function is better.
_LIBDEVICE_ULPS = {"math_tan_f32": 4.0}
_SUBGROUPS = frozenset(p.name for p in subgroup_ops.PROGRAMS)
_MATRICES = frozenset(p.name for p in matrix_ops.PROGRAMS)


def form_for(program: Program, target: str) -> Program | None:
    """Return the program to run for ``target``; ``None`` if it is only compiled."""
    if target in AMD_CHIPS and program.name in _SUBGROUPS:  # they depend on the number of lanes
        wide = next((p for p in subgroup_programs() if p.name == program.name), None)
        if wide is None:
            return None
        program = wide
    if target in program.refused or not program.runs or program.name in _WAIT_FOR_A_CLUSTER:
        return None
    if target in NVIDIA_CHIPS:
        return replace(
            program, tolerance_ulp=max(program.tolerance_ulp, _LIBDEVICE_ULPS.get(program.name, 0))
        )
    if target not in AMD_CHIPS:
        return None
    return replace(program, block=LANES_OF_CDNA) if program.name in _MATRICES else program


@cache
def subgroup_programs() -> tuple[Program, ...]:
    """Return the programs of ``kernels/operations/subgroup_ops.py`` for subgroups of 64 lanes.

    They come from a copy of that module with another number of lanes, on which everything in it depends.
    """
    spec = importlib.util.find_spec("kernels.operations.subgroup_ops")
    assert spec is not None and spec.origin is not None
    text = Path(spec.origin).read_text()
    module = importlib.util.module_from_spec(spec)
    assert text.count("\nLANES = 32\n") == 1
    exec(
        compile(text.replace("\nLANES = 32\n", f"\nLANES = {LANES_OF_CDNA}\n"), spec.origin, "exec"),
        vars(module),
    )
    return tuple(
        replace(program, block=LANES_OF_CDNA) if program.name.startswith("gpu_mma") else program
        for program in module.PROGRAMS
        if program.name not in _ONLY_32_LANES
    )
