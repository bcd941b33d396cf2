"""Random kernels for NVIDIA, in the PTX text that ships, and what their evaluator says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable

import pytest
from kernels.random.kernel import RandomKernel, module_text
from simulators.device_ir.compiling import ptx_text
from simulators.device_ir.random_kernels import each_of
from simulators.device_ir.runner import each_in_child
from simulators.ptx.translate import device_ir

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "30"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))
PER_MODULE = 250


def differences(chip: str, seeds: Iterable[int], change: Callable[[str], str] | None = None, **options):
    """What is wrong, by seed."""
    kernels = {i: RandomKernel(i, f"k{i}") for i in seeds}
    text = module_text(list(kernels.values()))
    ir = device_ir(ptx_text(chip, change(text) if change else text, **options), strict=True)
    return {number: said for number, said in each_in_child(each_of(ir, chip, kernels), list(kernels)) if said}


@pytest.mark.parametrize("first", range(SEED, SEED + KERNELS, PER_MODULE))
@pytest.mark.parametrize(("chip", "level"), [("sm_60", 3), ("sm_90", 0)])
def test_ptx_agrees_with_the_evaluator(chip, level, first):
    last = min(first + PER_MODULE, SEED + KERNELS)
    assert differences(chip, range(first, last), opt_level=level) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"gpu\.barrier", ""),
        (r"arith\.extsi", "arith.extui"),
        (r"all_reduce (xor|or|maxsi|maxui|minui|mul)", "all_reduce and"),
        (r"shuffle (up|down|idx)", "shuffle xor"),
    ],
)  # fmt: skip
def test_a_wrong_kernel_is_noticed(old, new):
    seeds = [i for i in range(200) if re.search(old, RandomKernel(i, "k").text)][:8]
    assert differences("sm_60", seeds, lambda text: re.sub(old, new, text), opt_level=1)
