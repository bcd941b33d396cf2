"""AMD kernels in the LLVM IR that the code generator gets, on subgroups of 64 lanes and of 32."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from kernels.operations.groups import GROUPS
from kernels.program import Program
from kernels.program import module_text as program_text
from kernels.random.kernel import RandomKernel, module_text
from op_coverage.compiling import each_operation, in_sample
from simulators.device_ir import amd
from simulators.device_ir.compiling import load, optimised_ir
from simulators.device_ir.random_kernels import each_of as each_random
from simulators.device_ir.rows import LANES_OF_CDNA, subgroup_programs
from simulators.device_ir.runner import WrongUseError, each_in_child
from simulators.device_ir.test_programs import RIGHT, each_of
from unit.engine.device_steps import in_child, kernel

LANES = {"gfx90a": 64, "gfx942": 64, "gfx1100": 32}
SUBGROUPS = "gpu: subgroups"
MATRICES = "gpu: matrices"
# What test_programs.py does not run: subgroups of 64 lanes, and a chip of RDNA, for its differences.
ROWS = [("gpu", "gfx1100"), (SUBGROUPS, "gfx90a"), (SUBGROUPS, "gfx942"), (SUBGROUPS, "gfx1100"),
        (MATRICES, "gfx90a"),         ("math", "gfx1100")]  # fmt: skip
SAMPLED = [(SUBGROUPS, "gfx942"), ("math", "gfx1100")]  # much as for gfx90a
RANDOM = int(os.environ.get("GPUBUILD_TEST_KERNELS", "20"))


def rows(group: str, chip: str) -> list[Program]:
    """The programs of ``group`` that fit the subgroups of ``chip``."""
    if group == SUBGROUPS and LANES[chip] == LANES_OF_CDNA:
        return list(subgroup_programs())
    target = chip if chip in ("gfx90a", "gfx942") else "gfx90a"
    found = [
        p
        for p in GROUPS[group]
        if (target not in p.refused or group == SUBGROUPS) and p.runs and target not in p.chips
    ]
    # Matrices are a whole subgroup's.
    return [replace(p, block=LANES[chip]) if p.name.startswith("gpu_mma") else p for p in found]


@pytest.mark.parametrize(("group", "chip"), ROWS)
def test_ir_gives_what_numpy_gives(group: str, chip: str) -> None:
    every = rows(group, chip)
    programs = [p for p in every if in_sample(p, 4)] if (group, chip) in SAMPLED else each_operation(every)
    text = optimised_ir(chip, program_text(programs), opt_level=3)
    found = {p.name: said for p, said in each_in_child(each_of(text, chip), programs)}
    assert len(found) == len(programs)
    assert {name: said for name, said in found.items() if said != RIGHT} == {}


def random_kernels(chip: str, seeds: Iterable[int]) -> dict[int, RandomKernel]:
    return {n: RandomKernel(n, f"k{n}", lanes=LANES[chip]) for n in seeds}


def differences(chip: str, kernels: dict[int, RandomKernel], text: str) -> dict[int, str]:
    work = each_random(optimised_ir(chip, text, opt_level=1), chip, kernels)
    return {number: said for number, said in each_in_child(work, list(kernels)) if said}


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1100"])
def test_random_kernels_agree_with_the_evaluator(chip: str) -> None:
    kernels = random_kernels(chip, range(100, 100 + RANDOM))
    assert differences(chip, kernels, module_text(list(kernels.values()))) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (r"gpu\.barrier", ""),
        (r"all_reduce (xor|or|maxsi|maxui|minui|mul)", "all_reduce and"),
        (r"shuffle (up|down|idx)", "shuffle xor"),
    ],
)  # fmt: skip
def test_a_wrong_kernel_is_noticed(old: str, new: str) -> None:
    seeds = [n for n in range(200) if re.search(old, RandomKernel(n, "k").text)][:6]
    kernels = random_kernels("gfx90a", seeds)
    assert differences("gfx90a", kernels, re.sub(old, new, module_text(list(kernels.values()))))


# ---- messages ----

MESSAGES = r"""
%t = gpu.thread_id x
%ti = arith.index_cast %t : index to i32
%b = arith.trunci %n : i32 to i8
%w = arith.trunci %n : i32 to i16
%l = arith.extsi %n : i32 to i64
%o = arith.trunci %n : i32 to i1
%h = arith.truncf %x : f32 to f16
%bf = arith.truncf %x : f32 to bf16
%d = arith.extf %x : f32 to f64
%one = arith.constant 1 : i32
%second = arith.cmpi eq, %ti, %one : i32
scf.if %second {
  gpu.printf "plain, 100%%: all\0A"
  gpu.printf "%d %d %d %ld %d %lu %u\0A", %b, %w, %n, %l, %o, %t, %n : i8, i16, i32, i64, i1, index, i32
  gpu.printf "%.2f|%g|%8.3f|%-8.1e|%+f\0A", %h, %bf, %x, %d, %d : f16, bf16, f32, f64, f64
  gpu.printf "C:\5Cnew %d\0A", %n : i32
  gpu.printf "%*d|%x\0A", %one, %n, %n : i32, i32, i32
  gpu.printf "0123456\0A"
  gpu.printf "\0A"
}
"""
SAID = (
    "plain, 100%: all\n-3 -3 -3 -3 1 1 4294967293\n1.25|1.25|   1.250|1.2e+00 |+1.250000\n"
    "C:\\new -3\n-3|fffffffd\n0123456\n\n"
)


def printed(body: str, chip: str, block: int = 64, **options) -> tuple[str, str]:
    """What a kernel of ``body`` says, and how it ends."""

    def run() -> tuple[str, str]:
        module = load(chip, kernel(body), **options)
        arrays = np.zeros(8, np.float32), np.zeros((16, 16), np.float32)
        values = (*arrays, np.int64(0), np.float32(1.25), np.int32(-3))
        try:
            return module.launch("f", 1, block, *values), ""
        except WrongUseError as error:
            return error.said, str(error)

    return in_child(run)


@pytest.mark.parametrize(("chip", "level"), [("gfx90a", 0), ("gfx1100", 3)])
def test_messages_are_what_hip_reads(chip: str, level: int) -> None:
    assert printed(MESSAGES, chip, opt_level=level) == (SAID, "")


def test_messages_of_all_work_items_are_there_once() -> None:
    body = '%t = gpu.thread_id x\ngpu.printf "%lu\\0A", %t : index'
    said, _ = printed(body, "gfx90a", block=130)
    assert sorted(map(int, said.split())) == list(range(130))


def test_messages_beyond_the_buffer_are_lost_and_nothing_else() -> None:
    body = '%t = gpu.thread_id x\ngpu.printf "%lu\\0A", %t : index\nmemref.store %x, %a[%i] : memref<?xf32>'
    said, end = printed(f"%c = arith.constant 0 : index\n%k = arith.constant 1 : index\n"
                        f"%u = arith.constant 99 : index\nscf.for %j = %c to %u step %k {{\n{body}\n}}",
                        "gfx90a", block=64)  # fmt: skip
    assert len(said.split()) == amd.MESSAGE_ROOM // 20 and end == ""


ASSERTION = """%t = gpu.thread_id x
%ti = arith.index_cast %t : index to i32
%seven = arith.constant 7 : i32
%ok = arith.cmpi slt, %ti, %seven : i32
cf.assert %ok, "100% even"
"""
FAILED = "k: f: assertion failed: 100% even, in workgroup (0, 0, 0), work-item (7, 0, 0)\n"


@pytest.mark.parametrize("chip", ["gfx90a", "gfx1100"])
def test_a_failed_assertion_leaves_its_text_and_stops(chip: str) -> None:
    said, end = printed(ASSERTION, chip, block=8)
    assert said == FAILED
    assert end.endswith("work-item (7, 0, 0): trap")


def recorded() -> tuple[list[int], int, dict[int, str]]:
    """What runtime/hip/hip_assert.c gets: state and numbers of the first failure, and its format."""
    module = load("gfx90a", kernel(ASSERTION), opt_level=3)
    record = np.zeros(64, np.uint8)
    variable = module.code["gpubuild_assertion_record"]
    ctypes.c_uint64.from_address(variable).value = record.ctypes.data
    values = np.zeros(8, np.float32), np.zeros((16, 16), np.float32), np.int64(0), np.float32(0), np.int32(0)
    for grid in (1, 3):  # the second does not overwrite the first
        with pytest.raises(WrongUseError):
            module.launch("f", grid, 16, *values, backwards=grid == 3)
    return (
        [*record[:4].view(np.int32), *record[16:40].view(np.int32)],
        int(record[8:16].view(np.uint64)[0]),
        dict(module.formats),
    )


def test_the_first_failure_is_recorded_for_the_runtime() -> None:
    numbers, name, formats = in_child(recorded)
    assert numbers == [2, 0, 0, 0, 7, 0, 0]
    assert formats[name] % (0, 0, 0, 7, 0, 0) == FAILED
