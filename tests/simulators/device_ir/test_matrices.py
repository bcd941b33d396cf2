"""Matrices in device IR: products on matrix units and without them, and lanes that wait for each other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
import pytest
from e2e.test_cpu_matrices import MIXES, SPECIAL, check_products, check_tiled, products
from op_coverage.compiling import ALL_ROWS
from simulators.device_ir.compiling import optimised_ir
from simulators.device_ir.runner import DeviceModule, each_in_child, vendor_of
from unit.engine.device_steps import in_child
from variants import few

ELEMENTS = {"f16": np.float16, "f32": np.float32}
SPECIAL_CHIPS = [
    ("sm_60", "f32", ""),
    ("sm_90", "f32", ""),
    ("gfx1100", "f32", ""),
    ("gfx1100", "f16", "wmma"),
    ("gfx90a", "f32", "mfma"),
]
WAITS = re.compile(r"^.*call void @llvm\.(?:amdgcn\.wave\.barrier\(\)|nvvm\.bar\.warp\.sync\(.*\)).*$", re.M)
# The last shape has no rows for all lanes of a unit.
SHAPES = [(16, 16, 16), (32, 48, 24), (16, 32, 4), (8, 32, 16)]
ON_UNITS = {
    "gfx908": {"f16", "half", "si8", "f32"},
    "gfx90a": {"f16", "half", "si8", "f32", "f64"},
    "gfx942": {"f16", "half", "si8", "f32", "f64"},
    "gfx950": {"f16", "half", "si8", "f32", "f64"},
    "gfx1100": {"f16", "half", "si8", "ui8"},
}
ALIKE = ("gfx908", "gfx942", "gfx950")  # gfx90a, but for some instructions
FEW = 5  # every fifth case has each mix, and each shape


def special_ir(chip: str, element: str) -> str:
    return optimised_ir(chip, f"gpu.module @k {{{SPECIAL.replace('f32', element)}}}", opt_level=1)


def right(ir: str, chip: str, element: str) -> list[bool | str]:
    """Whether two products, done in place by two subgroups, are right in both orders; or an error."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(-2, 3, (2, 16, 16)), rng.integers(-1, 2, (16, 16))
    items = 2 * vendor_of(chip).subgroup_size

    def work(orders: Sequence[bool]) -> Iterator[bool]:
        module = DeviceModule.load(ir, chip)
        for backwards in orders:
            memory, factor = (value.astype(ELEMENTS[element]).ravel() for value in (a, b))
            module.launch("in_place", 1, items, memory, factor, np.int64(3), backwards=backwards)
            yield bool((memory.reshape(a.shape) == a @ b @ b @ b).all())

    return [answer for _, answer in each_in_child(work, [False, True])]


@pytest.mark.parametrize(("chip", "element", "unit"), SPECIAL_CHIPS)
def test_products_in_place(chip: str, element: str, unit: str) -> None:
    ir = special_ir(chip, element)
    assert "llvm.amdgcn." + unit in ir or not unit
    assert right(ir, chip, element) == [True, True]
    without = WAITS.sub("", ir)
    # wmma of sm_90 loads and stores for the whole subgroup; with MFMA lanes store only what they loaded.
    if chip != "sm_90" and unit != "mfma":
        assert without != ir
        assert True not in right(without, chip, element)


@pytest.mark.parametrize(("chip", "element", "unit"), SPECIAL_CHIPS)
def test_sums_in_loops_branches_and_calls(chip: str, element: str, unit: str) -> None:
    ir = special_ir(chip, element)
    block = (32, vendor_of(chip).subgroup_size // 16)

    def check() -> None:
        module = DeviceModule.load(ir, chip)
        check_tiled(lambda *args: module.launch("tiled", 1, block, *args, np.int64(64)), ELEMENTS[element])

    in_child(check)


@pytest.mark.parametrize("chip", few(sorted(ON_UNITS, key=lambda chip: chip not in ("gfx1100", "gfx942")), 2))
def test_products_on_matrix_units_of_amd(chip: str) -> None:
    cases = list(product(SHAPES, MIXES, (False, True)))[:: 1 if ALL_ROWS and chip not in ALIKE else FEW]
    ir = optimised_ir(chip, f"gpu.module @k {{{products(cases)}}}", opt_level=1)
    kernels = re.split(r"^define .*@m\d+\(", ir, flags=re.M)[1:]
    assert len(kernels) == len(cases)
    for (shape, mix, turned), kernel in zip(cases, kernels, strict=True):
        on_units = mix in ON_UNITS[chip] and shape != SHAPES[-1]
        assert bool(re.search(r"call .*@llvm\.amdgcn\.(mfma|wmma)\.", kernel)) == on_units, (
            shape,
            mix,
            turned,
        )
    lanes = vendor_of(chip).subgroup_size

    def check() -> None:
        module = DeviceModule.load(ir, chip)
        check_products(cases, lambda name, groups, memory: module.launch(name, 1, lanes * groups, *memory), 2)

    in_child(check)
