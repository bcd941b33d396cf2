"""Random kernels, in the LLVM IR that GPU code generators get, and what their evaluator says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pytest
from device_ir.compiling import optimised_ir
from device_ir.runner import DeviceModule, each_in_child
from e2e.random_kernels import RandomKernel, module_text
from e2e.test_random_kernels import GRID, ORDER, WHOLE_SUBGROUPS, shapes

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "150"))  # a longer run: more
SEED = int(os.environ.get("GPUBUILD_TEST_SEED", "0"))
PER_MODULE = 250


def shapes_of(kernel: RandomKernel, number: int) -> list[tuple[int, ...]]:
    """A shuffle asks that all lanes of its width are there; CPUs say what it gives where they are not."""
    if kernel.subgroups and not kernel.whole:
        return [WHOLE_SUBGROUPS[number % len(WHOLE_SUBGROUPS)]]
    return shapes(kernel, number)


def difference(module: DeviceModule, kernel: RandomKernel, number: int) -> str:
    """The first result that is not what the evaluator says; empty when there is none."""
    for turn, shape in enumerate(shapes_of(kernel, number)):
        items = int(np.prod(shape))
        a = np.random.default_rng(number).integers(-1000, 1000, GRID * items).astype(np.int32)
        expected = kernel.evaluate(a.copy(), GRID, shape)
        found = {name: np.zeros_like(array) for name, array in expected.arrays.items()}
        found["R"], found["A"] = found["R"].astype(np.float32), a
        if kernel.shares:
            found["D"] = a
        grid = (2, GRID // 2) if number % 2 else (GRID,)
        module.launch(f"k{number}", grid, shape, *(found[n] for n in ORDER), backwards=bool(turn))
        for output, wanted in expected.arrays.items():
            if (wrong := expected.wrong(output, found[output])).size:
                at = wrong[0]
                return (
                    f"{shape}: %{output}[{at}] is {found[output][at]}, not {wanted[at]}, {wrong.size} differ"
                )
    return ""


def each_of(text: str, chip: str) -> Callable[[Sequence[int]], Iterator[str]]:
    """For :func:`each_in_child`."""

    def work(numbers: Sequence[int]) -> Iterator[str]:
        module = DeviceModule.load(text, chip)
        for number in numbers:
            try:
                yield difference(module, RandomKernel(number, f"k{number}"), number)
            except Exception as error:
                yield f"{type(error).__name__}: {error}"

    return work


def differences(chip: str, seeds: Iterable[int], change: Callable[[str], str] | None = None, **options):
    """What is wrong, by seed."""
    kernels = {i: RandomKernel(i, f"k{i}") for i in seeds}
    text = module_text(list(kernels.values()))
    ir = optimised_ir(chip, change(text) if change else text, **options)
    return {number: said for number, said in each_in_child(each_of(ir, chip), list(kernels)) if said}


@pytest.mark.parametrize("first", range(SEED, SEED + KERNELS, PER_MODULE))
@pytest.mark.parametrize(("chip", "level"), [("sm_60", 3), ("sm_90", 1)])
def test_ir_agrees_with_the_evaluator(chip, level, first):
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
