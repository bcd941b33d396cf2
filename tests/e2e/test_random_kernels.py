"""Random kernels: the tier a kernel gets, fibers and a direct evaluation agree to the bit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module
from e2e.random_kernels import RandomKernel, module_text
from e2e.random_scope import CELLS, MOST

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "2000"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))  # a multiple of 500, to begin elsewhere
PER_MODULE = 500
OPTIMISED = 20  # LLVM takes most of the time, so that most are compiled without its help
GRID = 3
SHAPES = [(1,), (33,), (8, 4, 2), (7,), (64, 2)]
WHOLE_SUBGROUPS = [(32,), (64, 2)]


@pytest.fixture(scope="module")
def devices(tmp_path_factory) -> list[Device]:
    """With one thread and with three: a runtime reads its settings once."""
    library = build_runtime(tmp_path_factory.mktemp("random_runtime"))
    found = []
    for threads in (1, 3):
        copy = library.with_name(f"librandom{threads}.so")
        shutil.copy(library, copy)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("GPUBUILD_CPU_THREADS", str(threads))
            found.append(Device(copy))
            found[-1]._c.gb_settings()
    return found


def shapes(kernel: RandomKernel, number: int) -> list[tuple[int, ...]]:
    """Two for each kernel; the largest workgroup now and then."""
    if number % 40 == 3:
        return [(MOST,)]
    if kernel.whole_subgroups:
        return WHOLE_SUBGROUPS
    return [SHAPES[number % len(SHAPES)], SHAPES[(number + 1) % len(SHAPES)]]


def difference(kernel: RandomKernel, name: str, number: int, modules: list[Module]) -> str:
    """The first result that is not what the evaluator says; empty when there is none."""
    for shape in shapes(kernel, number):
        items = int(np.prod(shape))
        a = np.random.default_rng(items).integers(-1000, 1000, GRID * items).astype(np.int32)
        expected = kernel.evaluate(a, GRID, items)
        for module in modules:
            for fibers in (False, True):
                found = (np.zeros(a.size, np.int64), np.zeros(a.size), np.zeros(len(CELLS), np.int32))
                module.launch(name, GRID, shape, a, *found, fibers=fibers)
                for output, got, wanted in zip("CFK", found, expected, strict=True):
                    wrong = np.flatnonzero(got != wanted)
                    if wrong.size:
                        tier = "fibers" if fibers else module.tier(name)
                        at = wrong[0]
                        return (f"@{name} {shape} {tier}: %{output}[{at}] is {got[at]}, not {wanted[at]}, "
                                f"{wrong.size} differ")  # fmt: skip
    return ""


def compare(first: int, count: int, devices: list[Device], folder: Path, change=None, **options):
    """What differs, and the tiers."""
    kernels = {f"k{i}": RandomKernel(i, f"k{i}") for i in range(first, first + count)}
    text = module_text(list(kernels.values()))
    out = compile_module(change(text) if change else text, folder, **options)
    modules = [device.load(out) for device in devices]
    numbered = enumerate(kernels.items(), first)
    found = [d for n, (name, kernel) in numbered if (d := difference(kernel, name, n, modules))]
    for module in modules:
        module.unload()
    return found, [k["tier"] for k in modules[0].info["kernels"]]


@pytest.mark.parametrize("first", range(SEED, SEED + KERNELS, PER_MODULE))
def test_tiers_agree_with_the_evaluator(devices, tmp_path, first):
    different, tiers = compare(first, PER_MODULE, devices, tmp_path, opt_level=0)
    assert different == []
    # The comparison must not be one of fibers with fibers.
    assert tiers.count("fibers") == 0
    assert tiers.count("fission") > 0.25 * PER_MODULE
    assert tiers.count("loop") > 0.25 * PER_MODULE


def test_they_agree_when_optimised(devices, tmp_path):
    assert compare(100_000, OPTIMISED, devices, tmp_path, opt_level=3)[0] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("gpu.barrier", ""), ("arith.subi", "arith.addi"), ("arith.extsi", "arith.extui")],
)  # fmt: skip
def test_a_wrong_kernel_is_noticed(devices, tmp_path, old, new):
    different, _ = compare(0, 24, devices[:1], tmp_path, lambda text: text.replace(old, new), opt_level=0)
    assert different
