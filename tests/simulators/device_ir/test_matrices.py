"""Matrices in device IR: lanes wait before they store over what others load, and it is noticed if not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from e2e.test_cpu_matrices import SPECIAL
from simulators.device_ir.compiling import optimised_ir
from simulators.device_ir.runner import DeviceModule, each_in_child

CHIPS = (
    "sm_60",
    "sm_90",
    "gfx1100",
)  # subgroups of 32 lanes; the first and the last have no matrix units used
WAITS = re.compile(r"^.*call void @llvm\.(?:amdgcn\.wave\.barrier\(\)|nvvm\.bar\.warp\.sync\(.*\)).*$", re.M)


def right(ir: str, chip: str) -> list[bool]:
    """Whether two products, done in place by two subgroups, are right in both orders."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-2, 3, (2, 16, 16)), rng.integers(-1, 2, (16, 16))

    def work(orders: Sequence[bool]) -> Iterator[bool]:
        module = DeviceModule.load(ir, chip)
        for backwards in orders:
            memory = a.astype(np.float32).ravel()
            module.launch(
                "in_place", 1, 64, memory, b.astype(np.float32).ravel(), np.int64(4), backwards=backwards
            )
            yield bool((memory.reshape(a.shape) == a @ b @ b @ b @ b).all())

    return [answer for _, answer in each_in_child(work, [False, True])]


@pytest.mark.parametrize("chip", CHIPS)
def test_products_in_place(chip):
    ir = optimised_ir(chip, "gpu.module @k {" + SPECIAL + "}", opt_level=1)
    assert right(ir, chip) == [True, True]
    without = WAITS.sub("", ir)
    if chip != "sm_90":  # whose wmma instructions are of the whole subgroup
        assert without != ir
        assert right(without, chip) == [False, False]
