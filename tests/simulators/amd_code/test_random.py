"""Random kernels and messages in machine code for AMD chips, executed by tinygrad's emulator."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from kernels.random.kernel import module_text
from simulators.amd_code import emulator
from simulators.amd_code.compiling import fault_among
from simulators.amd_code.launch import WrongUseError
from simulators.amd_code.runner import CodeModule
from simulators.device_ir.random_kernels import difference
from simulators.device_ir.runner import each_in_child
from simulators.device_ir.test_amd import ASSERTION, FAILED, MESSAGES, SAID, random_kernels
from unit.engine.backends.amd.test_workarounds import TURNS
from unit.engine.device_steps import compile_module, in_child, kernel

KERNELS = int(os.environ.get("GPUBUILD_TEST_KERNELS", "20"))
CPU_SECONDS = 3600


@pytest.mark.parametrize(("chip", "level"), [("gfx90a", 3), ("gfx942", 1), ("gfx1100", 1), ("gfx1100", 3)])
def test_random_kernels_agree_with_the_evaluator(chip: str, level: int) -> None:
    emulator.require()
    kernels = random_kernels(chip, range(100, 100 + KERNELS))
    data = compile_module(module_text(list(kernels.values())), chip, opt_level=level).object

    def work(numbers: Sequence[int]) -> Iterator[str]:
        module = CodeModule.load(data, chip)
        for number in numbers:
            module.machine.seen.clear()
            try:
                said = difference(module, kernels[number], number)
                yield "" if fault_among(module.machine.seen) else said
            except Exception as error:
                yield f"{type(error).__name__}: {error}"

    found = each_in_child(work, list(kernels), cpu_seconds=CPU_SECONDS)
    assert {number: said for number, said in found if said} == {}


def printed(body: str, chip: str, block: int, **options: int) -> tuple[str, str]:
    """What a kernel of ``body`` says, and how it ends."""
    emulator.require()
    data = compile_module(kernel(body), chip, **options).object

    def run() -> tuple[str, str]:
        module = CodeModule.load(data, chip)
        arrays = np.zeros(8, np.float32), np.zeros((16, 16), np.float32)
        try:
            return module.launch("f", 1, block, *arrays, np.int64(0), np.float32(1.25), np.int32(-3)), ""
        except WrongUseError as error:
            return error.said, str(error)

    return in_child(run)


@pytest.mark.parametrize(("chip", "level"), [("gfx90a", 0), ("gfx942", 3), ("gfx1100", 3)])
def test_messages_are_what_hip_reads(chip: str, level: int) -> None:
    assert printed(MESSAGES, chip, 64, opt_level=level) == (SAID, "")


@pytest.mark.parametrize(("chip", "level"), [("gfx90a", 0), ("gfx942", 3), ("gfx1100", 3)])
def test_a_failed_assertion_leaves_its_text_and_stops(chip: str, level: int) -> None:
    said, end = printed(ASSERTION, chip, 8, opt_level=level)
    assert said == FAILED
    assert end.startswith("trap")


@pytest.mark.parametrize("chip", ["gfx90a", "gfx942", "gfx1100"])
def test_a_stack_of_a_size_that_is_known_late(chip: str) -> None:
    emulator.require()
    data = compile_module(kernel(TURNS), chip, opt_level=3).object

    def run() -> np.ndarray:
        a = np.zeros(70, np.float32)
        module = CodeModule.load(data, chip)
        module.launch("f", 1, 70, a, np.zeros((16, 16), np.float32), np.int64(3), np.float32(0), np.int32(0))
        return a

    assert in_child(run).tolist() == [t + 3 for t in range(70)]
