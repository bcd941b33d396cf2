"""Workgroups that run as one: each work-item runs once, at its place; whoever could tell is not joined."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module

ROWS = "memref<?x?x?xi32>"
# Each counts itself at its place in the grid, [z, y, x], and adds a number that another kernel would not.
PLACES = """
    %one = arith.constant 1 : i32
    %y = gpu.global_id y
    %z = gpu.global_id z
    %ty = gpu.thread_id y
    %bz = gpu.block_id z
    %v = arith.addi %ty, %bz : index
    %w = arith.index_cast %v : index to i32
    %mine = arith.addi %w, %one : i32
"""
COUNT = f"""
      %old = memref.load %out[%z, %y, %x] : {ROWS}
      %sum = arith.addi %old, %mine : i32
      memref.store %sum, %out[%z, %y, %x] : {ROWS}
"""
BY_HAND = """
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %d = gpu.block_dim x
    %s = arith.muli %d, %b : index
    %x = arith.addi %t, %s : index
"""
NARROW = """
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %d = gpu.block_dim x
    %t32 = arith.index_cast %t : index to i32
    %b32 = arith.index_cast %b : index to i32
    %d32 = arith.index_cast %d : index to i32
    %s = arith.muli %b32, %d32 : i32
    %i = arith.addi %s, %t32 : i32
    %x = arith.index_castui %i : i32 to index
"""
GUARD = f"""
    %lot = arith.constant 1000 : index
    %n = memref.dim %out, %c2 : {ROWS}
    %less = arith.subi %n, %c2 : index
    %in = arith.cmpi ult, %x, %less : index
    %high = arith.cmpi ult, %y, %lot : index
    %both = arith.andi %in, %high : i1
    scf.if %both {{ {COUNT} }}
"""
PLAIN = "    %x = gpu.global_id x\n"
JOINED = {  # how a kernel finds its x, and what it does there
    "plain": (PLAIN, COUNT),
    "by_hand": (BY_HAND, COUNT),
    "narrow": (NARROW, COUNT),
    "guarded": (PLAIN, GUARD),
    "atomic": (PLAIN, f"%o = memref.atomic_rmw addi %mine, %out[%z, %y, %x] : (i32, {ROWS}) -> i32"),
}
ALONE = {  # such as could tell: they add a number of x's that a wider workgroup has another of
    "thread_id": "thread_id",
    "block_id": "block_id",
    "block_dim": "block_dim",
    "grid_dim": "grid_dim",
}
SHAPES = [(1,), (33,), (16, 4), (7, 5, 2)]
GRIDS = [(37,), (5, 3), (16, 2, 2), (3, 1, 5)]


def kernel(name: str, place: str, body: str, attributes: str = "") -> str:
    head = f"  gpu.func @{name}(%out: {ROWS}) kernel {attributes} {{\n    %c2 = arith.constant 2 : index\n"
    return f"{head}{PLACES}{place}{body}    gpu.return\n  }}\n"


def alone(name: str, what: str) -> str:
    more = f"""    %k = gpu.{what} x
    %k32 = arith.index_cast %k : index to i32
    %more = arith.addi %mine, %k32 : i32
"""
    return kernel(name, PLAIN + more, COUNT.replace("%mine", "%more"))


KNOWN = "attributes {known_block_size = array<i32: 16, 8, 1>}"
BY_NUMBER = BY_HAND.replace("%d = gpu.block_dim x", "%d = arith.constant 16 : index")
TEXT = (
    "gpu.module @k {\n"
    + "".join(
        [
            *(kernel(name, place, body) for name, (place, body) in JOINED.items()),
            *(alone(name, what) for name, what in ALONE.items()),
            kernel("known", PLAIN, GUARD, KNOWN),
            kernel("known_by_number", BY_NUMBER, COUNT, KNOWN),
            kernel("other_number", BY_HAND.replace("gpu.block_dim x", "arith.constant 3 : index"), COUNT),
        ]
    )
    + "}\n"
)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_module(TEXT, tmp_path_factory.mktemp("joining"))


@pytest.fixture(scope="module", params=[1, 3])
def module(out: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Module:
    library = build_runtime(tmp_path_factory.mktemp("joining_runtime"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUBUILD_CPU_THREADS", str(request.param))
        device = Device(library)
        device._c.gb_settings()
    return device.load(out)


def extents(grid: tuple[int, ...], block: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([*grid, 1, 1][:3]), np.array([*block, 1, 1][:3])


def expected(name: str, grid: tuple[int, ...], block: tuple[int, ...]) -> np.ndarray:
    groups, items = extents(grid, block)
    z, y, x = np.indices((groups * items)[::-1])
    values = y % items[1] + z // items[2] + 1
    more = {"thread_id": x % items[0], "block_id": x // items[0]}
    more |= {"block_dim": np.full_like(x, items[0]), "grid_dim": np.full_like(x, groups[0])}
    values += more.get(name, 0)
    if "guarded" in name or name == "known":
        values[..., max(0, values.shape[2] - 2) :] = 0
    return values.astype(np.int32)


def run(module: Module, name: str, grid: tuple[int, ...], block: tuple[int, ...], *, fibers: bool = False):
    groups, items = extents(grid, block)
    found = np.zeros(tuple((groups * items)[::-1]), np.int32)
    module.launch(name, grid, block, found, fibers=fibers)
    return found


@pytest.mark.parametrize("name", [*JOINED, *ALONE])
def test_every_work_item_runs_once_at_its_place(module: Module, name: str) -> None:
    assert module.tier(name) == "loop"
    for grid, block in itertools.product(GRIDS, SHAPES):
        if name.startswith("guarded") and grid[0] * block[0] < 2:
            continue  # what its guard compares with is negative, and so without a sign large
        assert (run(module, name, grid, block) == expected(name, grid, block)).all(), (grid, block)
    assert (run(module, name, (5, 3), (7, 5, 2), fibers=True) == expected(name, (5, 3), (7, 5, 2))).all()


@pytest.mark.parametrize("name", ["known", "known_by_number"])
def test_workgroups_of_a_known_size(module: Module, name: str) -> None:
    for grid in GRIDS:
        assert (run(module, name, grid, (16, 8)) == expected(name, grid, (16, 8))).all(), grid
    assert list(module.kernel(name).contents.required_block) == [16, 8, 1]
