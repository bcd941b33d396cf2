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
KERNELS, PER_MODULE = 500, 50
# Intel's runtime computes wrong numbers for workgroups that are no multiple of 32 (docs/design/spirv.md).
WRONG_ON_INTEL = {454}


@pytest.mark.skipif(at_hand.opencl() is None, reason="needs Intel's OpenCL runtime (PyPI: intel-opencl-rt)")
@pytest.mark.parametrize("first", range(0, KERNELS, PER_MODULE))
def test_random_kernels_are_right_on_opencl(tmp_path, first):
    every = {number: RandomKernel(number, f"k{number}") for number in range(first, first + PER_MODULE)}
    # Lanes that a subgroup does not have are undefined.
    kernels = {n: k for n, k in every.items() if k.whole and n not in WRONG_ON_INTEL}
    cases = [case for number, kernel in kernels.items() for case in random_cases(kernel, number)]
    pack = Pack(tmp_path / "pack", CHIP)
    image = compile_module(module_text(list(kernels.values())), CHIP).object
    pack.add("random", image, [case.launch for case in cases])
    command = [sys.executable, pack.folder / RUN, tmp_path / "results", "--device", "opencl"]
    subprocess.run(command, check=False, env={**os.environ, **(at_hand.opencl() or {})}, timeout=600)
    assert wrong(cases, read_results(tmp_path / "results")) == {}
