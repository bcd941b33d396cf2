"""Every op of the table for NVIDIA chips, in the PTX text that ships: run here, compared with NumPy.

Each kernel runs twice, with the first and with the last work-item of a workgroup first.
"""

from __future__ import annotations

import pytest
from device_ir.runner import each_in_child
from device_ir.test_programs import RIGHT, each_of, module_of, programs_of
from device_ptx.translate import device_ir
from op_coverage import table
from op_coverage.compiling import chip_of, ptx_text
from op_coverage.program import NVIDIA_CHIPS, module_text


def outcomes(group: str, target: str) -> dict[str, str]:
    """By program."""
    found = {}
    for chip in dict.fromkeys(chip_of(p, target) for p in programs_of(group, target)):
        text = device_ir(ptx_text(chip, module_text(module_of(group, target, chip)), opt_level=3))
        wanted = [p for p in programs_of(group, target) if chip_of(p, target) == chip]
        found.update({p.name: o for p, o in each_in_child(each_of(text, chip), wanted)})
    return found


@pytest.mark.parametrize(
    ("group", "target"), [(g, t) for g in table.GROUPS for t in NVIDIA_CHIPS if programs_of(g, t)]
)
def test_ptx_gives_what_numpy_gives(group, target):
    names = [p.name for p in programs_of(group, target)]
    found = outcomes(group, target)
    assert sorted(found) == sorted(names)
    assert {name: said for name, said in found.items() if said != RIGHT} == {}
