"""Random kernels on device code: what they leave, held against what their evaluator says."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kernels.random.kernel import RandomKernel
from kernels.random.launch import Launch, shapes
from kernels.random.scope import SUBGROUP
from simulators.device_ir.runner import DeviceModule


class Loaded(Protocol):
    """A module whose kernels a simulator launches."""

    def launch(self, name: str, grid: Any, block: Any, *values: Any, backwards: bool) -> str: ...


def shapes_of(kernel: RandomKernel, number: int) -> list[tuple[int, ...]]:
    """The launches that every target gets; subgroups of another size need workgroups that fill them."""
    if not kernel.subgroups or kernel.lanes == SUBGROUP:
        return shapes(kernel, number)
    whole = [(kernel.lanes,), (64, 2), (8, 8, 5), (192,)]
    some = whole if kernel.whole else [*whole, (7, 5), (70,)]
    return [some[number // 8 % len(some)]]


def difference(module: Loaded, kernel: RandomKernel, number: int) -> str:
    """The first result that is not what the evaluator says; empty when there is none."""
    for turn, shape in enumerate(shapes_of(kernel, number)):
        launch = Launch.of(kernel, number, shape)
        module.launch(f"k{number}", launch.grid, shape, *launch.values, backwards=bool(turn))
        if wrong := launch.difference(launch.arrays):
            return wrong
    return ""


def each_of(
    text: str, chip: str, kernels: Mapping[int, RandomKernel]
) -> Callable[[Sequence[int]], Iterator[str]]:
    """For :func:`each_in_child`: what each of ``kernels`` does as the device IR ``text``."""

    def work(numbers: Sequence[int]) -> Iterator[str]:
        module = DeviceModule.load(text, chip)
        for number in numbers:
            try:
                yield difference(module, kernels[number], number)
            except Exception as error:
                yield f"{type(error).__name__}: {error}"

    return work
