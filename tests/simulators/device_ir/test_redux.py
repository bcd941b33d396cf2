"""``gpu.subgroup_reduce … uniform`` of i32 for NVIDIA: one instruction, also where lanes are missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from simulators.device_ir.compiling import optimised_ir
from simulators.device_ir.runner import DeviceModule, each_in_child

REDUCTIONS = {
    "add": np.add.reduce,
    "minui": lambda x: np.minimum.reduce(x.view(np.uint32)).astype(np.int64),
    "minsi": np.minimum.reduce,
    "maxui": lambda x: np.maximum.reduce(x.view(np.uint32)).astype(np.int64),
    "maxsi": np.maximum.reduce,
    "and": np.bitwise_and.reduce,
    "or": np.bitwise_or.reduce,
    "xor": np.bitwise_xor.reduce,
}
BLOCKS = (1, 31, 40, 64)
KERNEL = """  gpu.func @{op}(%a: memref<?xi32>) kernel {{
    %i = gpu.thread_id x
    %v = memref.load %a[%i] : memref<?xi32>
    %r = gpu.subgroup_reduce {op} %v uniform : (i32) -> i32
    memref.store %r, %a[%i] : memref<?xi32>
    gpu.return
  }}
"""


def test_reductions_of_whole_and_partial_subgroups() -> None:
    module = "gpu.module @k {\n" + "".join(KERNEL.format(op=op) for op in REDUCTIONS) + "}\n"
    text = optimised_ir("sm_80", module)
    assert text.count("call i32 @llvm.nvvm.redux.sync.") == len(REDUCTIONS)
    given = [
        np.random.default_rng(items).integers(-(2**31), 2**31, items).astype(np.int32) for items in BLOCKS
    ]
    cases = [(op, number) for op in REDUCTIONS for number in range(len(BLOCKS))]

    def work(left: Sequence[tuple[str, int]]) -> Iterator[np.ndarray]:
        loaded = DeviceModule.load(text, "sm_80")
        for op, number in left:
            values = given[number].copy()
            loaded.launch(op, 1, BLOCKS[number], values)
            yield values

    for (op, number), found in each_in_child(work, cases):
        values = given[number]
        expected = np.empty_like(values)
        for first in range(0, len(values), 32):
            part = values[first : first + 32]
            expected[first : first + 32] = np.array(REDUCTIONS[op](part)).astype(np.int32)
        assert np.array_equal(found, expected), (op, BLOCKS[number], found)
