"""Random kernels as SPIR-V, run by Intel's OpenCL runtime for CPUs and compared with NumPy."""

from __future__ import annotations

import os

import pytest
from devices import at_hand
from devices.cases import random_cases, wrong
from devices.pack import Pack
from kernels.random.kernel import RandomKernel, module_text
from unit.engine.device_steps import compile_module

CHIP = "spirv1.3"
KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "25"))  # a longer run: more
PER_MODULE = 25


def chosen(first: int) -> dict[int, RandomKernel]:
    """The kernels of a module, by their seeds: lanes that a subgroup does not have are undefined."""
    every = {number: RandomKernel(number, f"k{number}") for number in range(first, first + PER_MODULE)}
    return {number: kernel for number, kernel in every.items() if kernel.whole}


@at_hand.NEEDS_OPENCL
@pytest.mark.parametrize("first", range(0, KERNELS, PER_MODULE))
def test_random_kernels_are_right_on_opencl(tmp_path, first):
    kernels = chosen(first)
    assert len(kernels) > 0.8 * PER_MODULE
    image = compile_module(module_text(list(kernels.values())), CHIP).object
    cases = [case for number, kernel in kernels.items() for case in random_cases(kernel, number)]
    pack = Pack(tmp_path / "pack", CHIP)
    pack.add("random", image, [case.launch for case in cases])
    assert wrong(cases, pack.run(at_hand.OPENCL)) == {}
