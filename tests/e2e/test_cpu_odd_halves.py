"""Rows from the middle of a vector of six, ten rows: LLVM's code generator takes them from elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module

# Element, its NumPy type, elements of a row (16 bytes), rows: the row in the middle and the next.
CASES = [
    ("f32", np.float32, 4, 6),
    ("f32", np.float32, 4, 10),
    ("f64", np.float64, 2, 6),
    ("i8", np.int8, 16, 6),
    ("f16", np.float16, 8, 6),
]


def _name(element: str, rows: int) -> str:
    return f"half_{element}_{rows}"


def _kernel(element: str, width: int, rows: int) -> str:
    whole, row, array = (
        f"vector<{width * rows}x{element}>",
        f"vector<{width}x{element}>",
        f"memref<?x{element}>",
    )
    first = width * (rows // 2)
    parts = "".join(
        f"""
    %r{k} = vector.extract_strided_slice %v {{offsets = [{first + k * width}], sizes = [{width}], strides = [1]}} : {whole} to {row}
    %p{k} = arith.constant {k * width} : index
    vector.store %r{k}, %out[%p{k}] : {array}, {row}"""  # noqa: E501 — kernel text reads better unbroken
        for k in range(2)
    )
    return f"""
  gpu.func @{_name(element, rows)}(%in: {array}, %out: {array}, %at: index) kernel {{
    %c0 = arith.constant 0 : index
    %u = vector.load %in[%c0] : {array}, {whole}
    %x = memref.load %in[%c0] : {array}
    %v = vector.insert %x, %u[%at] : {element} into {whole}{parts}
    gpu.return
  }}"""


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    folder = tmp_path_factory.mktemp("halves")
    kernels = "".join(_kernel(element, width, rows) for element, _, width, rows in CASES)
    built = compile_module(f"gpu.module @k {{{kernels}\n}}\n", folder / "k", opt_level=3)
    return Device(build_runtime(folder)).load(built)


@pytest.mark.parametrize(("element", "dtype", "width", "rows"), CASES)
def test_rows_in_the_middle(module, element, dtype, width, rows):
    given = (np.arange(width * rows) + 1).astype(dtype)
    got = np.zeros(2 * width, dtype)
    first = width * (rows // 2)
    module.launch(_name(element, rows), 1, 1, given, got, np.uint64(first + 1))
    given[first + 1] = given[0]
    np.testing.assert_array_equal(got, given[first : first + 2 * width])
