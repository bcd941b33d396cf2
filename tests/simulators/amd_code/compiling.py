"""The rows of docs/reference/coverage.md as code objects for AMD chips, and their results in the emulator."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kernels.operations.groups import GROUPS
from kernels.program import AMD_CHIPS, Program, module_text
from op_coverage.compiling import chip_of
from simulators.amd_code.record import RIGHT
from simulators.amd_code.runner import CodeModule
from simulators.device_ir.rows import form_for
from simulators.device_ir.runner import each_in_child
from simulators.device_ir.test_programs import run
from unit.engine.device_steps import compile_module

CHIPS = ("gfx90a", "gfx942", "gfx1100")
CPU_SECONDS = 3600
_LIKE = {"gfx1100": "gfx90a"}  # chips that are no target of the table
_LANES = 32
# Faults of tinygrad's emulator (0.13.0, August 2026) that make the result of a kernel meaningless. Others are
# repaired in emulator.py, special.py and vector_memory.py.
# The ISA: factors are the lower 24 bits, with a sign. LLVM leaves anything in the other eight.
_NO_SIGN = "takes factors of 24 bits for ones of 32"
_FAULTS = {
    "v_mul_i32_i24_e32": _NO_SIGN,
    "v_mul_i32_i24_e64": _NO_SIGN,
    "v_mul_hi_i32_i24_e32": _NO_SIGN,
    "v_mul_hi_i32_i24_e64": _NO_SIGN,
    "v_fmac_f64_e64": "adds nothing",  # the ISA: D = S0 * S1 + D; the form of 4 bytes is right
}


class Row(NamedTuple):
    """A program and the code object it is in."""

    program: Program
    group: str
    data: bytes


def programs_of(group: str, chip: str) -> list[Program]:
    """Those with something to compare, in the form for the chip's subgroups."""
    if chip in AMD_CHIPS:
        forms = [form_for(p, chip) for p in GROUPS[group] if chip_of(p, chip) == chip]
        return [form for form in forms if form is not None]
    like = _LIKE[chip]
    found = [p for p in GROUPS[group] if like not in p.chips and form_for(p, like) is not None]
    # Matrices are a whole subgroup's.
    return [replace(p, block=_LANES) if p.name.startswith("gpu_mma") else p for p in found]


def rows(chip: str, *, opt_level: int = 3) -> list[Row]:
    """All of the table, compiled group by group."""
    found = []
    for group in GROUPS:
        if programs := programs_of(group, chip):
            data = compile_module(module_text(programs), chip, opt_level=opt_level).object
            found += [Row(program, group, data) for program in programs]
    return found


def outcomes(chip: str, given: Sequence[Row]) -> dict[str, str]:
    """By program: ``right``, what the emulator ``lacks: …``, or what is wrong.

    Waves and workgroups run in their order; those with barriers the other way round, too.
    """

    def work(items: Sequence[Row]) -> Iterator[str]:
        modules: dict[str, CodeModule] = {}
        for program, group, data in items:
            if group not in modules:
                modules[group] = CodeModule.load(data, chip)
            yield _outcome(modules[group], program)

    return {row.program.name: said for row, said in each_in_child(work, given, cpu_seconds=CPU_SECONDS)}


def _outcome(module: CodeModule, program: Program) -> str:
    try:
        module.machine.seen.clear()
        run(module, program, backwards=False)
        if "s_barrier" in module.machine.seen:
            run(module, program, backwards=True)
    except NotImplementedError as error:
        return f"lacks: {error}"
    except Exception as error:
        if fault := fault_among(module.machine.seen):
            return f"lacks: {fault}"
        return f"{type(error).__name__}: {error}"
    return RIGHT


def fault_among(names: Collection[str]) -> str:
    """Return what is wrong with an instruction of ``names``; empty if nothing is known."""
    return next((f"{name} {_FAULTS[name]}" for name in sorted(names) if name in _FAULTS), "")
