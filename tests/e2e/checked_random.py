"""Random kernels, checked: a program for test_checked_random.py, since findings end a process with a code.

    python checked_random.py FOLDER

Runs each kernel whole and with its first barrier left out, cut at barriers and on fibers. Prints, as
JSON, the names of those that gave wrong results; what checks find goes to stderr. First comes a kernel on
fibers two of whose work-items write to memory that lies right above the stacks.
"""

from __future__ import annotations

import json
import mmap
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from e2e.cpu_harness import Device, build_runtime, compile_module
from kernels.random.kernel import RandomKernel, module_text
from kernels.random.launch import ORDER, Launch, shapes

from gpubuild.targets.target import Sanitize

SEEDS = (11, 17, 18, 19, 29, 30, 49, 52)  # most need their first barrier
BARRIER = "gpu.barrier"
LAST = """\
  gpu.func @last_(%a: memref<?xi32>) kernel {
    %t = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %c31 = arith.constant 31 : index
    %one = arith.constant 1 : i32
    gpu.barrier
    %first = arith.cmpi eq, %t, %c0 : index
    %last = arith.cmpi eq, %t, %c31 : index
    %either = arith.ori %first, %last : i1
    scf.if %either { memref.store %one, %a[%c0] : memref<?xi32> }
    gpu.return
  }
"""
LARGE = 1 << 28  # bytes


def variants() -> Iterator[tuple[int, str, RandomKernel]]:
    """(seed, name, kernel); names of those without all barriers have a ``_``."""
    for seed in SEEDS:
        yield seed, f"k{seed}", RandomKernel(seed, f"k{seed}")
        lacking = RandomKernel(seed, f"k{seed}_")
        lacking.text = lacking.text.replace(BARRIER, "", 1)
        yield seed, f"k{seed}_", lacking


def main() -> None:
    folder = Path(sys.argv[1])
    all_of_them = list(variants())
    text = module_text([kernel for _, _, kernel in all_of_them]).rstrip().removesuffix("}") + LAST + "}\n"
    checks = (Sanitize.BOUNDS, Sanitize.RACE, Sanitize.BARRIER)
    module = Device(build_runtime(folder)).load(
        compile_module(text, folder / "k", opt_level=0, sanitize=checks)
    )
    # Too large for a hole between other mappings: the next large one, the stacks, comes to lie right below.
    last = np.frombuffer(mmap.mmap(-1, LARGE), np.int32)
    module.launch("last_", 1, (32,), last, fibers=True)
    wrong = set()
    for seed, name, kernel in all_of_them:
        launch = Launch.of(kernel, seed, shapes(kernel, seed)[-1])
        for fibers in (False, True):
            copies = {id(array): array.copy() for array in launch.arrays.values()}
            found = {n: copies[id(array)] for n, array in launch.arrays.items()}
            values = [found[n] for n in ORDER]
            module.launch(name, launch.grid, launch.block, *values, fibers=fibers)
            if launch.difference(found):
                wrong.add(name)
    names = [name for _, name, _ in all_of_them]
    print(json.dumps({"names": names, "wrong": sorted(wrong)}))


if __name__ == "__main__":
    main()
