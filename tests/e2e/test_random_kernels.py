"""Random kernels: the tier a kernel gets, fibers and a direct evaluation agree to the bit."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module
from kernels.random.contents import contents
from kernels.random.kernel import RandomKernel, module_text
from kernels.random.launch import ORDER, Launch, shapes
from variants import few

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "50"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))  # to begin elsewhere
PER_MODULE = 50
OPTIMISED = max(4, KERNELS // 20)  # LLVM takes most of the time, so that most are compiled without its help


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


def difference(kernel: RandomKernel, name: str, number: int, modules: list[Module]) -> str:
    """The first result that is not what the evaluator says; empty when there is none."""
    for shape in shapes(kernel, number):
        launch = Launch.of(kernel, number, shape)
        for module in modules:
            for fibers in (False, True):
                # ``D`` and ``A`` may be one array.
                copies = {id(array): array.copy() for array in launch.arrays.values()}
                found = {n: copies[id(array)] for n, array in launch.arrays.items()}
                module.launch(name, launch.grid, shape, *(found[n] for n in ORDER), fibers=fibers)
                if wrong := launch.difference(found):
                    return f"@{name} {'fibers' if fibers else module.tier(name)} {wrong}"
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
    """``PYTHONPATH=tests python -m kernels.random.contents`` prints the numbers."""
    found = contents(RandomKernel(i, f"k{i}") for i in range(500))
    assert [what for what, number in found.items() if number == 0] == []


def test_they_agree_when_optimised(devices, tmp_path):
    assert compare(range(100_000, 100_000 + OPTIMISED), devices, tmp_path, opt_level=3)[0] == []


@pytest.mark.parametrize(
    ("old", "new"),
    few(
        [
            (r"gpu\.barrier", ""),
            (r"arith\.extsi", "arith.extui"),
            (r"shuffle (up|down|idx)", "shuffle xor"),
            (r"all_reduce (xor|or|maxsi|maxui|minui|mul)", "all_reduce and"),
            (r"arith\.subi", "arith.addi"),
        ],
        2,
    ),
)  # fmt: skip
def test_a_wrong_kernel_is_noticed(devices, tmp_path, old, new):
    seeds = [i for i in range(200) if re.search(old, RandomKernel(i, "k").text)][:8]
    different, _ = compare(seeds, devices[:1], tmp_path, lambda text: re.sub(old, new, text), opt_level=0)
    assert different
