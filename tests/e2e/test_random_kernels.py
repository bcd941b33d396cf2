"""Random kernels: the tier a kernel gets, fibers and a direct evaluation agree to the bit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module
from e2e.random_contents import contents
from e2e.random_kernels import RandomKernel, module_text
from e2e.random_scope import MOST

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "2000"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))  # a multiple of 500, to begin elsewhere
PER_MODULE = 500
OPTIMISED = 16  # LLVM takes most of the time, so that most are compiled without its help
GRID = 4  # workgroups
ORDER = "ACFKLDR"  # of the parameters
SHAPES = [(1,), (33,), (8, 4, 2), (7, 5), (64, 2), (31,), (3, 5, 7), (96,)]
WHOLE_SUBGROUPS = [(32,), (64, 2), (8, 4, 5)]
FLAT = [(1,), (33,), (64,), (200,)]


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
    """Two for each kernel, which do not cost much once it is compiled; the largest now and then."""
    if kernel.known:
        return [kernel.known]
    if number % 40 == 3:
        return [(MOST,)]
    known = FLAT if kernel.flat else WHOLE_SUBGROUPS if kernel.subgroups and kernel.whole else SHAPES
    return [known[(number + i) % len(known)] for i in range(2)]


def difference(kernel: RandomKernel, name: str, number: int, modules: list[Module]) -> str:
    """The first result that is not what the evaluator says; empty when there is none."""
    for shape in shapes(kernel, number):
        a = np.random.default_rng(number).integers(-1000, 1000, GRID * int(np.prod(shape))).astype(np.int32)
        expected = kernel.evaluate(a.copy(), GRID, shape)
        for module in modules:
            for fibers in (False, True):
                found = {name: np.zeros_like(array) for name, array in expected.arrays.items()}
                found["R"], found["A"] = found["R"].astype(np.float32), a.copy()
                if kernel.shares:
                    found["D"] = found["A"]
                grid = (2, GRID // 2) if number % 2 else (GRID,)
                module.launch(name, grid, shape, *(found[n] for n in ORDER), fibers=fibers)
                for output in expected.arrays:
                    if (wrong := expected.wrong(output, found[output])).size:
                        tier = "fibers" if fibers else module.tier(name)
                        at, wanted = wrong[0], expected.arrays[output]
                        return (f"@{name} {shape} {tier}: %{output}[{at}] is {found[output][at]}, "
                                f"not {wanted[at]}, {wrong.size} differ")  # fmt: skip
    return ""


def compare(seeds: Iterable[int], devices: list[Device], folder: Path, change=None, **options):
    """What differs, and the tiers."""
    kernels = {i: RandomKernel(i, f"k{i}") for i in seeds}
    text = module_text(list(kernels.values()))
    out = compile_module(change(text) if change else text, folder, located=False, **options)
    modules = [device.load(out) for device in devices]
    found = [d for i, kernel in kernels.items() if (d := difference(kernel, f"k{i}", i, modules))]
    for module in modules:
        module.unload()
    return found, [k["tier"] for k in modules[0].info["kernels"]]


@pytest.mark.parametrize("first", range(SEED, SEED + KERNELS, PER_MODULE))
def test_tiers_agree_with_the_evaluator(devices, tmp_path, first):
    different, tiers = compare(range(first, first + PER_MODULE), devices, tmp_path, opt_level=0)
    assert different == []
    # The comparison must not be one of fibers with fibers.
    assert tiers.count("fibers") == 0
    assert tiers.count("fission") > 0.25 * PER_MODULE
    assert tiers.count("loop") > 0.25 * PER_MODULE


def test_they_hold_what_a_kernel_may_hold():
    """``python tests/e2e/random_contents.py`` prints the numbers."""
    found = contents(RandomKernel(i, f"k{i}") for i in range(PER_MODULE))
    assert [what for what, number in found.items() if number == 0] == []


def test_they_agree_when_optimised(devices, tmp_path):
    assert compare(range(100_000, 100_000 + OPTIMISED), devices, tmp_path, opt_level=3)[0] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"gpu\.barrier", ""),
        (r"arith\.subi", "arith.addi"),
        (r"arith\.extsi", "arith.extui"),
        (r"all_reduce (xor|or|maxsi|maxui|minui|mul)", "all_reduce and"),
        (r"shuffle (up|down|idx)", "shuffle xor"),
    ],
)  # fmt: skip
def test_a_wrong_kernel_is_noticed(devices, tmp_path, old, new):
    seeds = [i for i in range(200) if re.search(old, RandomKernel(i, "k").text)][:8]
    different, _ = compare(seeds, devices[:1], tmp_path, lambda text: re.sub(old, new, text), opt_level=0)
    assert different
