"""Private arrays of vectors that are used on both sides of a barrier: they do not overlap."""

from __future__ import annotations

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module

# Each vector of one dimension is padded: five rows of five floats take 160 bytes.
CASES = [
    ("f32", np.float32, (5, 5)),
    ("f32", np.float32, (17, 3)),
    ("f64", np.float64, (3, 5)),
    ("i16", np.int16, (2, 3, 5)),
    ("f16", np.float16, (6,)),
    ("f32", np.float32, (24,)),
]
ITEMS = 8


def _kernel(number: int, element: str, shape: tuple[int, ...]) -> str:
    vector = f"vector<{'x'.join(map(str, shape))}x{element}>"
    count = int(np.prod(shape))
    line, array = f"vector<{count}x{element}>", f"memref<?x{element}>"
    private = f"memref<2x{vector}, #gpu.address_space<private>>"
    add = "arith.addf" if element.startswith("f") else "arith.addi"
    return f"""
  gpu.func @k{number}(%in: {array}, %out: {array}) private(%p : {private}) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %count = arith.constant {count} : index
    %t = gpu.thread_id x
    %at = arith.muli %t, %count : index
    %f = vector.load %in[%at] : {array}, {line}
    %v = vector.shape_cast %f : {line} to {vector}
    %w = {add} %v, %v : {vector}
    memref.store %v, %p[%c0] : {private}
    memref.store %w, %p[%c1] : {private}
    gpu.barrier
    %a = memref.load %p[%c0] : {private}
    %b = memref.load %p[%c1] : {private}
    %s = {add} %a, %b : {vector}
    %g = vector.shape_cast %s : {vector} to {line}
    vector.store %g, %out[%at] : {array}, {line}
    gpu.return
  }}"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    kernels = "".join(_kernel(i, element, shape) for i, (element, _, shape) in enumerate(CASES))
    built = compile_module(f"gpu.module @k {{{kernels}\n}}\n", folder / "k", opt_level=1)
    return Device(build_runtime(folder)).load(built)


@pytest.mark.parametrize(("number", "case"), list(enumerate(CASES)))
def test_elements_are_apart(module, number, case):
    _, dtype, shape = case
    given = (np.arange(ITEMS * np.prod(shape)) % 13).astype(dtype)
    got = np.zeros_like(given)
    module.launch(f"k{number}", 1, ITEMS, given, got)
    np.testing.assert_array_equal(got, 3 * given)
