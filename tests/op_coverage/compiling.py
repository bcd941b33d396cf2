"""Compile programs for a target in a child process, and run them on the CPU device."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import numpy as np
from e2e import cpu_harness
from kernels.operations.groups import GROUPS
from kernels.program import AMD_OLD, CPU, NVIDIA_OLD, Program, ulps
from once import once
from unit.engine.device_steps import compile_module

from gpubuild.model.digest import digest_bytes

# Code generators take most of the time, so that what other rows test in part takes a sample of the rows; all
# where this is set.
ALL_ROWS = "GPUBUILD_TEST_ROWS" in os.environ


def in_sample(program: Program, one_in: int) -> bool:
    """Whether a test that takes one row in so many takes this one."""
    return ALL_ROWS or crc32(program.name.encode()) % one_in == 0


# What tells rows of one operation apart: types and sizes, and what stands between them.
_TYPES = re.compile(r"\b(?:s?i\d+|b?f\d+\w*|index|x|\d+)\b|[<>+]")
_PRODUCT = "gpu.subgroup_mma_compute"  # has a row for each shape, of which each takes a compiler seconds


def each_operation(programs: Iterable[Program]) -> list[Program]:
    """The first row of each operation, and one in 48 of those in other types."""
    chosen, seen = [], set()
    for program in programs:
        kind = _PRODUCT if _PRODUCT in program.body else _TYPES.sub("", program.op)
        if kind not in seen or in_sample(program, 48):
            chosen.append(program)
        seen.add(kind)
    return chosen


def rows_for(group: str, target: str) -> list[Program]:
    """The rows that are compiled for ``target``: of older GPUs one in 24."""
    allowed = [p for p in GROUPS[group] if target not in p.refused]
    if target in (NVIDIA_OLD, AMD_OLD):
        return [p for p in allowed if in_sample(p, 24)]
    return each_operation(allowed)


def compile_for(target: str, text: str, folder: Path, **options) -> Path | None:
    """Compile ``text``; for CPUs the folder of the outputs. Raises ``StepError``, or on a crash."""
    if target == CPU:
        return cpu_harness.compile_in_child(text, folder, **options)
    device_ir(target, text, **options)
    return None


def device_ir(chip: str, text: str, **options) -> str:
    """The LLVM IR that the code generator for ``chip`` got, from a compile up to the object."""
    return (_compiled(chip, text, options) / "k.ll").read_text()


def ptx_text(chip: str, text: str, **options) -> str:
    """What that code generator made of it."""
    return (_compiled(chip, text, options) / "k.s").read_text()


def _compiled(chip: str, text: str, options: dict) -> Path:
    """Each module is compiled once in a run, whichever test comes first."""
    key = digest_bytes("\0".join((chip, text, repr(sorted(options.items())))).encode())[:32]

    def make(made: Path) -> None:
        compiled = compile_module(text, chip, **options)
        (made / "k.ll").write_text(compiled.llvm)
        (made / "k.s").write_text(compiled.asm)

    return once(f"device-{key}", make)


def chip_of(program: Program, target: str) -> str:
    """The chip that stands for ``target``: some programs need its architecture-specific form."""
    return program.chips.get(target, target)


def run(program: Program, module: cpu_harness.Module, *, fibers: bool = False) -> dict[str, np.ndarray]:
    """Launch; the arrays afterwards."""
    args = {
        name: np.ascontiguousarray(value).copy() if isinstance(value, np.ndarray) else value
        for name, value in program.args.items()
    }
    module.launch(
        program.name,
        program.grid,
        program.block,
        *args.values(),
        dynamic=program.dynamic_bytes,
        cluster=program.cluster,
        fibers=fibers,
    )
    return {name: value for name, value in args.items() if name in program.expect}


def check(program: Program, got: dict[str, np.ndarray]) -> None:
    """Raise ``AssertionError`` when the result is not what NumPy computed."""
    for name, want in program.expect.items():
        if program.tolerance_ulp:
            assert got[name].dtype.kind in "fc", name
            if got[name].dtype.kind == "c":
                scale = np.spacing(np.maximum(np.abs(want), 1e-30).astype(got[name].real.dtype))
                far = np.abs(got[name] - want) / scale
            else:
                far = ulps(got[name], want)
            worst = int(np.argmax(far))
            assert far.flat[worst] <= program.tolerance_ulp, (
                f"{program.name}: {name}[{worst}] = {got[name].flat[worst]}, "
                f"NumPy says {want.flat[worst]} ({far.flat[worst]:.1f} ulp)"
            )
        else:
            np.testing.assert_array_equal(got[name], want.astype(got[name].dtype), err_msg=program.name)
