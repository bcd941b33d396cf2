"""Random kernels about memory: the tier that a kernel gets and fibers leave the same in every array."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, compile_module
from kernels.random.accesses import AccessKernel
from variants import few

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "20"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))
Change = Callable[[str], str] | None
PER_MODULE = 20
OPTIMISED = max(3, KERNELS // 20)


def left(module: Module, kernel: AccessKernel, *, fibers: bool) -> list[np.ndarray]:
    """What a launch leaves in the kernel's arrays."""
    arguments = kernel.arguments
    module.launch(f"k{kernel.seed}", kernel.grid, kernel.block, *arguments, fibers=fibers)
    return [a for a in arguments if isinstance(a, np.ndarray)]


def same(found: np.ndarray, wanted: np.ndarray) -> bool:
    """To the bit, but for those of NaN."""
    if found.dtype.kind == "f" and not np.array_equal(
        np.signbit(found) & ~np.isnan(found), np.signbit(wanted) & ~np.isnan(wanted)
    ):
        return False
    return np.array_equal(found, wanted, equal_nan=True)


def differing(
    seeds: Iterable[int], device: Device, folder: Path, change: Change = None, **options: object
) -> tuple[list[str], list[str]]:
    """The kernels whose results differ from those of fibers without optimisation; and all tiers."""
    kernels = [AccessKernel(seed, f"k{seed}") for seed in seeds]
    text = f"gpu.module @k {{\n{''.join(kernel.text for kernel in kernels)}}}"
    plain = device.load(compile_module(text, folder / "plain", located=False, opt_level=0))
    modules = [plain]
    if options:
        other = change(text) if change else text
        modules.append(device.load(compile_module(other, folder / "other", located=False, **options)))
    found = []
    for kernel in kernels:
        wanted = left(plain, kernel, fibers=True)
        for module in modules:
            arrays = zip(left(module, kernel, fibers=False), wanted, strict=True)
            wrong = [number for number, pair in enumerate(arrays) if not same(*pair)]
            if wrong:
                found.append(f"@k{kernel.seed} {module.tier(f'k{kernel.seed}')}: %P{wrong}")
    return found, [plain.tier(f"k{kernel.seed}") for kernel in kernels]


@pytest.mark.parametrize("first", range(SEED, SEED + KERNELS, PER_MODULE))
def test_tiers_agree(any_device: Device, tmp_path: Path, first: int) -> None:
    different, tiers = differing(range(first, first + PER_MODULE), any_device, tmp_path)
    assert different == []
    assert tiers.count("fission") > PER_MODULE // 10
    assert tiers.count("loop") > PER_MODULE // 10


def test_they_agree_when_optimised(any_device: Device, tmp_path: Path) -> None:
    assert differing(range(100_000, 100_000 + OPTIMISED), any_device, tmp_path, opt_level=3)[0] == []


@pytest.mark.parametrize(
    ("old", "new"),
    few([("gpu.barrier", ""), (" step %c1 ", " step %c2 "), ("addf", "subf"), ("muli", "addi")]),
)
def test_a_wrong_kernel_is_noticed(any_device: Device, tmp_path: Path, old: str, new: str) -> None:
    seeds = list(islice((seed for seed in range(60) if old in AccessKernel(seed, "k").text), 3))
    different, _ = differing(seeds, any_device, tmp_path, lambda text: text.replace(old, new), opt_level=0)
    assert different


def test_results_tell_kernels_apart(any_device: Device, tmp_path: Path) -> None:
    """Most elements that are stored differ from their neighbours: else hardly anything would be compared."""
    kernels = [AccessKernel(seed, f"k{seed}") for seed in range(20)]
    text = f"gpu.module @k {{\n{''.join(kernel.text for kernel in kernels)}}}"
    module = any_device.load(compile_module(text, tmp_path, located=False, opt_level=0))
    shares = []
    for kernel in kernels:
        results = left(module, kernel, fibers=False)
        for array in kernel.arrays:
            if array.role != "in" and array.kind not in ("i8", "f16"):
                values = results[array.number]
                shares.append(len(np.unique(values)) / values.size)
    assert np.median(shares) > 0.5
