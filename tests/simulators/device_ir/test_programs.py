"""Every op of the table for AMD chips, in the LLVM IR that the code generator gets: compared with NumPy.

Each kernel runs twice, with the first and with the last work-item of a workgroup first. NVIDIA's chips are in
``simulators.ptx``, one step further down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from kernels.operations.groups import GROUPS
from kernels.program import AMD_CHIPS, Program, module_text
from op_coverage.compiling import check, chip_of, device_ir, rows_for
from simulators.device_ir.compiling import optimised_ir
from simulators.device_ir.rows import form_for
from simulators.device_ir.runner import DeviceModule, each_in_child

RIGHT = "right"
SUBGROUPS = "gpu: subgroups"  # test_amd.py compiles them for 64 lanes


def programs_of(group: str, target: str) -> list[Program]:
    """Those that have something to compare."""
    return [form for p in rows_for(group, target) if (form := form_for(p, target)) is not None]


ELSEWHERE = [(SUBGROUPS, chip) for chip in AMD_CHIPS]


def module_of(group: str, target: str, chip: str) -> list[Program]:
    """What ``op_coverage/test_coverage.py`` compiles together for ``chip``."""
    return [p for p in rows_for(group, target) if chip_of(p, target) == chip]


def run(module: DeviceModule, program: Program, *, backwards: bool) -> None:
    """Raises what is wrong."""
    args = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in program.args.items()}
    printed = module.launch(
        program.name,
        program.grid,
        program.block,
        *args.values(),
        dynamic=program.dynamic_bytes,
        cluster=program.cluster,
        backwards=backwards,
    )
    check(program, {name: args[name] for name in program.expect})
    if program.prints and not backwards:
        assert printed == program.prints


def outcome(module: DeviceModule, program: Program) -> str:
    """``right``, or what is wrong."""
    if missing := module.form.unknown[program.name]:
        return f"calls unknown functions: {', '.join(missing)}"
    try:
        for backwards in (False, True):
            run(module, program, backwards=backwards)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return RIGHT


def each_of(text: str, chip: str) -> Callable[[Sequence[Program]], Iterator[str]]:
    """For :func:`each_in_child`."""

    def work(programs: Sequence[Program]) -> Iterator[str]:
        module = DeviceModule.load(text, chip)
        for program in programs:
            yield outcome(module, program)

    return work


@cache
def outcomes(group: str, target: str) -> dict[str, str]:
    """By program."""
    found = {}
    for chip in dict.fromkeys(chip_of(p, target) for p in programs_of(group, target)):
        text = device_ir(chip, module_text(module_of(group, target, chip)), opt_level=3)
        wanted = [p for p in programs_of(group, target) if chip_of(p, target) == chip]
        found.update({p.name: o for p, o in each_in_child(each_of(text, chip), wanted)})
    return found


@pytest.mark.parametrize(
    ("group", "target"),
    [(g, t) for g in GROUPS for t in AMD_CHIPS if programs_of(g, t) and (g, t) not in ELSEWHERE],
)
def test_ir_gives_what_numpy_gives(group, target):
    names = [p.name for p in programs_of(group, target)]
    found = outcomes(group, target)
    assert sorted(found) == sorted(names)
    assert {name: said for name, said in found.items() if said != RIGHT} == {}


def test_fast_mathematics_is_coarse_and_no_more():
    """Nothing is promised to the last places; arguments here are small, and approximations exact."""
    programs = coarse_mathematics("gfx942")
    ir = optimised_ir("gfx942", module_text(programs), opt_level=3, fast_math=True)
    found = {p.name: said for p, said in each_in_child(each_of(ir, "gfx942"), programs)}
    assert len(found) == len(programs) > 30
    assert {name: said for name, said in found.items() if said != RIGHT} == {}


def coarse_mathematics(chip: str) -> list[Program]:
    """Those of ``math`` that may be off, with 64 units in the last place allowed."""
    return [replace(p, tolerance_ulp=64) for p in programs_of("math", chip) if p.tolerance_ulp]
