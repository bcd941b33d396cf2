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
from kernels.random.structured import CELLS, OUTPUTS, StructuredKernel

from gpubuild.targets.target import Sanitize

SEEDS = (0, 1, 2, 3, 6, 8)  # most need their first barrier
BARRIER = "gpu.barrier"
BLOCKS, ITEMS = 3, 32
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


def variants() -> Iterator[tuple[str, str, StructuredKernel]]:
    """(name, text, what it was made from); names of those without all barriers have a ``_``."""
    for seed in SEEDS:
        kernel = StructuredKernel(seed, f"k{seed}")
        yield f"k{seed}", kernel.text, kernel
        text = kernel.text.replace(BARRIER, "", 1)
        yield f"k{seed}_", text.replace(f"@k{seed}(", f"@k{seed}_("), kernel


def main() -> None:
    folder = Path(sys.argv[1])
    all_of_them = list(variants())
    text = "gpu.module @k {\n" + "".join(t for _, t, _ in all_of_them) + LAST + "}\n"
    checks = (Sanitize.BOUNDS, Sanitize.RACE, Sanitize.BARRIER)
    module = Device(build_runtime(folder)).load(
        compile_module(text, folder / "k", opt_level=1, sanitize=checks)
    )
    # Too large for a hole between other mappings: the next large one, the stacks, comes to lie right below.
    last = np.frombuffer(mmap.mmap(-1, LARGE), np.int32)
    module.launch("last_", 1, (ITEMS,), last, fibers=True)
    a = np.random.default_rng(5).integers(-1000, 1000, BLOCKS * ITEMS).astype(np.int32)
    wrong = set()
    for name, _, kernel in all_of_them:
        expected = kernel.evaluate(a, BLOCKS, ITEMS)
        for fibers in (False, True):
            found = (np.zeros((OUTPUTS, a.size), np.int32), np.zeros(a.size, np.float32),
                     np.zeros(CELLS, np.int32))  # fmt: skip
            module.launch(name, BLOCKS, (ITEMS,), a, *found, dynamic=4 * ITEMS, fibers=fibers)
            if not all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True)):
                wrong.add(name)
    print(json.dumps({"names": [name for name, _, _ in all_of_them], "wrong": sorted(wrong)}))


if __name__ == "__main__":
    main()
