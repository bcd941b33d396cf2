"""Random kernels on device code: what they leave, held against what their evaluator says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from e2e.random_kernels import RandomKernel
from e2e.test_random_kernels import GRID, ORDER, WHOLE_SUBGROUPS, shapes
from simulators.device_ir.runner import DeviceModule


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
