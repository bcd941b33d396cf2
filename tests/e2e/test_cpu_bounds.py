"""Bounds checks that become bounds of loops over work-items, and arguments that may share memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, compile_module, functions_of

# Each leaves a condition in %c. %gx, %gy: places in the grid; %x32: %gx as i32; %n, %m: any numbers.
CONDITIONS = {
    "below": "%c = arith.cmpi ult, %gx, %n : index",
    "signed": "%c = arith.cmpi slt, %gx, %n : index",
    "up_to": "%c = arith.cmpi sle, %gx, %n : index",
    "up_to_unsigned": "%c = arith.cmpi ule, %gx, %n : index",
    "swapped": "%c = arith.cmpi ugt, %n, %gx : index",
    "above": "%c = arith.cmpi sgt, %gx, %n : index",
    "from": "%c = arith.cmpi uge, %gx, %n : index",
    "one": "%c = arith.cmpi eq, %gx, %n : index",
    "all_but_one": "%c = arith.cmpi ne, %gx, %n : index",
    "one_in_the_workgroup": "%c = arith.cmpi eq, %n, %x : index",
    "moved": "%s = arith.addi %gx, %m : index\n%c = arith.cmpi ult, %s, %n : index",
    "moved_back": "%s = arith.subi %gx, %m : index\n%c = arith.cmpi slt, %s, %n : index",
    "moved_back_unsigned": "%s = arith.subi %gx, %m : index\n%c = arith.cmpi ult, %s, %n : index",
    "falling": "%s = arith.subi %m, %gx : index\n%c = arith.cmpi slt, %s, %n : index",
    "twice": "%s = arith.addi %gx, %gx : index\n%c = arith.cmpi slt, %s, %n : index",
    "narrow": "%c = arith.cmpi slt, %x32, %n32 : i32",
    "narrow_moved": "%s = arith.addi %x32, %m32 : i32\n%c = arith.cmpi slt, %s, %n32 : i32",
    "narrow_moved_unsigned": "%s = arith.addi %x32, %m32 : i32\n%c = arith.cmpi ule, %s, %n32 : i32",
    "narrow_from": "%s = arith.addi %x32, %m32 : i32\n%c = arith.cmpi sge, %s, %n32 : i32",
    "narrow_one": "%s = arith.addi %x32, %m32 : i32\n%c = arith.cmpi eq, %s, %n32 : i32",
    "wide_again": "%s = arith.addi %x32, %m32 : i32\n%w = arith.extsi %s : i32 to i64\n"
    "%k = arith.index_cast %w : i64 to index\n%c = arith.cmpi ult, %k, %n : index",
    "through_a_byte": "%b = arith.trunci %x32 : i32 to i8\n%w = arith.extui %b : i8 to i32\n"
    "%c = arith.cmpi slt, %w, %n32 : i32",
    "one_through_a_byte": "%b = arith.trunci %x32 : i32 to i8\n%w = arith.extui %b : i8 to i32\n"
    "%c = arith.cmpi eq, %w, %n32 : i32",
    "one_wide_again": "%s = arith.addi %x32, %m32 : i32\n%w = arith.extui %s : i32 to i64\n"
    "%k = arith.index_cast %w : i64 to index\n%c = arith.cmpi eq, %k, %n : index",
    "a_byte": "%b = arith.trunci %x32 : i32 to i8\n%k = arith.trunci %n32 : i32 to i8\n"
    "%c = arith.cmpi slt, %b, %k : i8",
    "both": "%p = arith.cmpi slt, %gx, %n : index\n%q = arith.cmpi slt, %gy, %m : index\n"
    "%c = arith.andi %p, %q : i1",
    "between": "%p = arith.cmpi slt, %gx, %n : index\n%q = arith.cmpi sgt, %gx, %m : index\n"
    "%c = arith.andi %p, %q : i1",
    "triangle": "%c = arith.cmpi ule, %gx, %gy : index",
    "one_and_below": "%p = arith.cmpi eq, %gx, %gy : index\n%q = arith.cmpi ult, %gx, %n : index\n"
    "%c = arith.andi %p, %q : i1",
}
EDGES = [-(2**31), -5, -1, 0, 1, 5, 8, 40, 2**31 - 9, 2**31 - 1, 2**31, 2**32 - 3, 2**63 - 20, -(2**63)]


def kernel(name: str, condition: str) -> str:
    """Adds to what every work-item for which the condition holds finds; values cross the check."""
    return f"""
  gpu.func @{name}(%out: memref<?xi32>, %n: index, %m: index) kernel {{
    %one = arith.constant 1 : i32
    %x = gpu.thread_id x
    %gx = gpu.global_id x
    %gy = gpu.global_id y
    %x32 = arith.index_cast %gx : index to i32
    %n32 = arith.index_cast %n : index to i32
    %m32 = arith.index_cast %m : index to i32
    %bx = gpu.block_dim x
    %grid = gpu.grid_dim x
    %width = arith.muli %bx, %grid : index
    %row = arith.muli %gy, %width : index
    %i = arith.addi %row, %gx : index
    {condition}
    scf.if %c {{
      %old = memref.load %out[%i] : memref<?xi32>
      %new = arith.addi %old, %x32 : i32
      memref.store %new, %out[%i] : memref<?xi32>
    }}
    %all = memref.load %out[%i] : memref<?xi32>
    %more = arith.addi %all, %one : i32
    memref.store %more, %out[%i] : memref<?xi32>
    gpu.return
  }}"""


TILE = "memref<8x9xf32, #gpu.address_space<workgroup>>"
# Made for workgroups of 8 x 8; others must do, too.
TILED = f"""
  gpu.func @tiled(%a: memref<?xf32>, %out: memref<?xf32>) workgroup(%s : {TILE}) kernel {{
    %one = arith.constant 1 : index
    %x = gpu.thread_id x
    %y = gpu.thread_id y
    %bx = gpu.block_dim x
    %by = gpu.block_dim y
    %b = gpu.block_id x
    %items = arith.muli %bx, %by : index
    %first = arith.muli %b, %items : index
    %row = arith.muli %y, %bx : index
    %place = arith.addi %row, %x : index
    %i = arith.addi %first, %place : index
    %v = memref.load %a[%i] : memref<?xf32>
    memref.store %v, %s[%y, %x] : {TILE}
    gpu.barrier
    %last = arith.subi %bx, %one : index
    %other = arith.subi %last, %x : index
    %w = memref.load %s[%y, %other] : {TILE}
    %sum = arith.addf %v, %w : f32
    memref.store %sum, %out[%i] : memref<?xf32>
    gpu.return
  }}
"""
VIEW = "memref<?xf32, strided<[?], offset: ?>>"
# Whoever takes %a for another array than %b gives back 2x, for the same one 2x + 1.
SHARING = f"""gpu.module @k {{
  gpu.func @sharing(%a: {VIEW}, %b: {VIEW}, %c: memref<?xf32>) kernel {{
    %one = arith.constant 1.0 : f32
    %i = gpu.global_id x
    %x = memref.load %a[%i] : {VIEW}
    %y = arith.addf %x, %one : f32
    memref.store %y, %b[%i] : {VIEW}
    %z = memref.load %a[%i] : {VIEW}
    %s = arith.addf %x, %z : f32
    memref.store %s, %c[%i] : memref<?xf32>
    gpu.return
  }}
{TILED}}}"""

READERS = {
    "guard": ("scf.if %c {", "}"),
    "loop": ("scf.for %j = %x to %n step %one {", "}"),
    "guard_in_a_loop": ("scf.for %j = %x to %n step %one {\nscf.if %c {", "}\n}"),
    "loop_in_a_guard": ("scf.if %c {\nscf.for %j = %x to %n step %one {", "}\n}"),
    "loop_from_x_and_y": ("%both = arith.addi %x, %y : index\nscf.for %j = %both to %n step %one {", "}"),
    "rows": ("scf.for %j = %y to %n step %one {", "}"),
    "rows_and_columns": ("scf.for %j = %y to %n step %one {\nscf.for %k = %x to %n step %one {", "}\n}"),
    "planes_of_a_group": ("%first = gpu.thread_id z\nscf.for %j = %first to %n step %one {", "}"),
}


def reader(name: str, begin: str, end: str) -> str:
    """Reads ids where only some work-items are, and nowhere else."""
    return f"""
  gpu.func @{name}(%out: memref<?x?x?xindex>, %n: index) kernel {{
    %one = arith.constant 1 : index
    %x = gpu.global_id x
    %y = gpu.global_id y
    %z = gpu.global_id z
    %c = arith.cmpi ult, %x, %n : index
    {begin}
      %tx = gpu.thread_id x
      %ty = gpu.thread_id y
      %tz = gpu.thread_id z
      %gx = gpu.global_id x
      %lane = gpu.lane_id
      %group = gpu.subgroup_id : index
      %ids = affine.apply affine_map<(a, b, c, d, e, f)
        -> (a + b * 10 + c * 100 + d * 1000 + e * 100000 + f * 10000000)>(%tx, %ty, %tz, %gx, %lane, %group)
      %old = memref.load %out[%z, %y, %x] : memref<?x?x?xindex>
      %new = arith.addi %old, %ids : index
      memref.store %new, %out[%z, %y, %x] : memref<?x?x?xindex>
    {end}
    gpu.return
  }}"""


@pytest.fixture(scope="module")
def readers(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = f"gpu.module @k {{{''.join(reader(n, *c) for n, c in READERS.items())}\n}}"
    return compile_module(text, tmp_path_factory.mktemp("readers"))


@pytest.mark.parametrize("name", READERS)
def test_ids_are_read_behind_a_check(any_device: Device, readers: Path, name: str) -> None:
    module = any_device.load(readers)
    for block, grid in ((4, 4, 3), (3, 2, 2)), ((16, 4, 1), (1, 2, 1)), ((70, 1, 2), (2, 1, 1)):
        found = []
        for fibers in (False, True):
            out = np.zeros([g * b for g, b in zip(grid[::-1], block[::-1], strict=True)], np.int64)
            module.launch(name, grid, block, out, np.int64(11), fibers=fibers)
            found.append(out)
        assert found[1].any()
        np.testing.assert_array_equal(*found)


@pytest.fixture(scope="module")
def module(any_device: Device, tmp_path_factory: pytest.TempPathFactory):
    text = f"gpu.module @k {{{''.join(kernel(n, c) for n, c in CONDITIONS.items())}\n}}"
    return any_device.load(compile_module(text, tmp_path_factory.mktemp("bounds"), opt_level=0))


@pytest.mark.parametrize("name", CONDITIONS)
def test_bounds_of_loops(module, name: str) -> None:
    """Every work-item answers as it does alone, whatever overflows on the way."""
    for block, grid in ((7, 3), (2, 2)), ((40, 1), (1, 2)), ((600, 1), (1, 1)):
        items = block[0] * block[1] * grid[0] * grid[1]
        for n in EDGES:
            for m in EDGES if "%m" in CONDITIONS[name] and block[0] < 600 else (3,):
                found = []
                for fibers in (False, True):
                    out = np.zeros(items, np.int32)
                    module.launch(name, grid, block, out, np.int64(n), np.int64(m), fibers=fibers)
                    found.append(out)
                np.testing.assert_array_equal(*found, err_msg=f"n = {n}, m = {m}, block {block}")


def test_only_what_passes_is_run(module) -> None:
    out = np.zeros(80, np.int32)
    module.launch("between", 2, 40, out, np.int64(60), np.int64(10))
    expected = np.where((np.arange(80) > 10) & (np.arange(80) < 60), np.arange(80), 0) + 1
    np.testing.assert_array_equal(out, expected)


@pytest.fixture(scope="module")
def sharing(device: Device, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_module(SHARING, tmp_path_factory.mktemp("sharing"))


def test_arguments_may_share_memory(any_device: Device, sharing: Path) -> None:
    module = any_device.load(sharing)
    for a, b, same in (
        (np.s_[0:32], np.s_[0:32], True),
        (np.s_[0:32], np.s_[32:64], False),
        (np.s_[32:64], np.s_[0:32], False),
        (np.s_[0:64:2], np.s_[1:64:2], False),
        (np.s_[0:64:2], np.s_[0:64:2], True),
        (np.s_[31::-1], np.s_[31::-1], True),
        (np.s_[31::-1], np.s_[32:64], False),
    ):
        memory = np.arange(64, dtype=np.float32)
        x = memory[a].copy()
        result = np.zeros(32, np.float32)
        module.launch("sharing", 2, 16, memory[a], memory[b], result)
        np.testing.assert_array_equal(result, 2 * x + same, err_msg=f"{a}, {b}")


@pytest.mark.parametrize("block", [(8, 8), (8, 4), (4, 8), (1, 1), (8, 8, 1), (7, 3)])
def test_workgroups_of_any_shape(any_device: Device, sharing: Path, block: tuple[int, ...]) -> None:
    module = any_device.load(sharing)
    items = int(np.prod(block))
    values = np.arange(3 * items, dtype=np.float32) ** 2
    for shared in (False, True):
        a = values.copy()
        out = a if shared else np.zeros_like(a)
        module.launch("tiled", 3, block, a, out)
        rows = values.reshape(-1, block[0])
        np.testing.assert_array_equal(out, (rows + rows[:, ::-1]).ravel())


def test_both_forms_are_compiled(sharing: Path) -> None:
    """Without overlap what is loaded again is known."""
    code = functions_of(sharing)
    assert "gpubuild.run.1.apart" in code
    found = (code[f"gpubuild.run.0.{form}"] for form in ("apart", "any"))
    apart, shared = (body.count("load float") + body.count("gather") for body in found)
    assert 0 < apart < shared
