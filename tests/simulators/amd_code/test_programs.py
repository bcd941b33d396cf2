"""Every op of the table for AMD chips, in the machine code that ships: executed, compared with NumPy.

``GPUBUILD_TEST_TINYGRAD`` names a checkout of tinygrad, whose emulator executes it; it takes some minutes.
"""

from __future__ import annotations

import pytest
from kernels.operations.groups import GROUPS
from simulators.amd_code import emulator, record
from simulators.amd_code.compiling import CHIPS, outcomes, programs_of, rows


@pytest.mark.parametrize("chip", CHIPS)
def test_code_gives_what_numpy_gives(chip: str) -> None:
    emulator.require()
    found = outcomes(chip, rows(chip))
    lacking = {name: said for name, said in found.items() if said.startswith("lacks:")}
    wrong = {name: said for name, said in found.items() if said != record.RIGHT and name not in lacking}
    assert wrong == {}
    assert len(lacking) < len(found) // 100, lacking
    known = record.read()[chip]["right"]
    assert sorted(known.keys() - {name for name, said in found.items() if said == record.RIGHT}) == []


@pytest.mark.parametrize("chip", CHIPS)
def test_the_record_contains_existing_rows(chip: str) -> None:
    """A row that was renamed, or is refused now, must be run and recorded again."""
    there = {program.name for group in GROUPS for program in programs_of(group, chip)}
    entry = record.read()[chip]
    assert entry["right"].keys() | entry["lacks"].keys() <= there
    assert len(entry["right"]) > 900
