"""Every op of the table for NVIDIA chips, in the PTX text that ships: run here, compared with NumPy.

Each kernel runs twice, with the first and with the last work-item of a workgroup first.
"""

from __future__ import annotations

import pytest
from kernels.operations.groups import GROUPS
from kernels.program import NVIDIA_CHIPS, Program, module_text
from op_coverage import compiling
from op_coverage.compiling import chip_of
from simulators.device_ir.compiling import ptx_text
from simulators.device_ir.runner import each_in_child
from simulators.device_ir.test_programs import RIGHT, coarse_mathematics, each_of, module_of, programs_of
from simulators.ptx.translate import device_ir


def outcomes(ptx: str, chip: str, programs: list[Program]) -> dict[str, str]:
    """By program."""
    return {p.name: said for p, said in each_in_child(each_of(device_ir(ptx), chip), programs)}


@pytest.mark.parametrize(
    ("group", "target"), [(g, t) for g in GROUPS for t in NVIDIA_CHIPS if programs_of(g, t)]
)
def test_ptx_gives_what_numpy_gives(group, target):
    programs = programs_of(group, target)
    found = {}
    for chip in dict.fromkeys(chip_of(p, target) for p in programs):
        ptx = compiling.ptx_text(chip, module_text(module_of(group, target, chip)), opt_level=3)
        found.update(outcomes(ptx, chip, [p for p in programs if chip_of(p, target) == chip]))
    assert sorted(found) == sorted(p.name for p in programs)
    assert {name: said for name, said in found.items() if said != RIGHT} == {}


BROKEN_GROUPS = ("gpu", "gpu: subgroups")  # the others are changed in what CPUs do alike
BROKEN = [
    p for group in BROKEN_GROUPS for p in GROUPS[group] if p.breaks and p in programs_of(group, "sm_90")
]


def test_a_change_of_the_program_is_noticed():
    """Each is changed in its text as for the CPU; a wrong result, or work-items that cannot go on."""
    found = outcomes(ptx_text("sm_90", module_text(BROKEN, broken=True), opt_level=1), "sm_90", BROKEN)
    assert len(found) == len(BROKEN) > 30
    assert [name for name, said in found.items() if said == RIGHT] == []


def test_fast_mathematics_is_coarse_and_no_more():
    """Nothing is promised to the last places; arguments here are small, and approximations exact."""
    programs = coarse_mathematics("sm_90")
    ptx = ptx_text("sm_90", module_text(programs), opt_level=3, fast_math=True)
    found = outcomes(ptx, "sm_90", programs)
    assert len(found) == len(programs) > 30
    assert {name: said for name, said in found.items() if said != RIGHT} == {}
