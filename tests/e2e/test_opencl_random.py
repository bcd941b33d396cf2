"""Random kernels as SPIR-V, run by Intel's OpenCL runtime for CPUs and compared with NumPy."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from devices import at_hand
from devices.cases import random_cases, wrong
from devices.pack import RUN, Pack, read_results
from kernels.random.kernel import RandomKernel, module_text
from unit.engine.device_steps import compile_module

CHIP = "spirv1.3"
KERNELS, PER_MODULE = 550, 50
AT_LEAST = 500
# In a module of its own: else Intel's runtime computes wrong numbers (docs/design/spirv.md).
ALONE = {454}


def chosen(first: int) -> dict[int, RandomKernel]:
    """The kernels of a module, by their seeds: lanes that a subgroup does not have are undefined."""
    every = {number: RandomKernel(number, f"k{number}") for number in range(first, first + PER_MODULE)}
    return {number: kernel for number, kernel in every.items() if kernel.whole}


def test_there_are_enough():
    assert sum(len(chosen(first)) for first in range(0, KERNELS, PER_MODULE)) >= AT_LEAST


@pytest.mark.skipif(at_hand.opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
@pytest.mark.parametrize("first", range(0, KERNELS, PER_MODULE))
def test_random_kernels_are_right_on_opencl(tmp_path, first):
    kernels, cases = chosen(first), []
    pack = Pack(tmp_path / "pack", CHIP)
    modules = [kernels.keys() - ALONE, *({number} for number in kernels.keys() & ALONE)]
    for name, numbers in enumerate(modules):
        image = compile_module(module_text([kernels[number] for number in sorted(numbers)]), CHIP).object
        own = [case for number in sorted(numbers) for case in random_cases(kernels[number], number)]
        pack.add(f"random{name}", image, [case.launch for case in own])
        cases += own
    command = [sys.executable, pack.folder / RUN, tmp_path / "results", "--device", "opencl"]
    subprocess.run(command, check=False, env={**os.environ, **(at_hand.opencl() or {})}, timeout=600)
    assert wrong(cases, read_results(tmp_path / "results")) == {}
