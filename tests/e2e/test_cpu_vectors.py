"""Vectors in kernels: private arrays of them, and rows from their middle."""

from __future__ import annotations

import numpy as np
from e2e.cpu_harness import load

# Each vector of one dimension is padded: five rows of five floats take 160 bytes.
PRIVATE = [
    ("f32", np.float32, (5, 5)),
    ("f32", np.float32, (17, 3)),
    ("f64", np.float64, (3, 5)),
    ("i16", np.int16, (2, 3, 5)),
    ("f16", np.float16, (6,)),
    ("f32", np.float32, (24,)),
]
ITEMS = 8
# Element, its NumPy type, elements of a row (16 bytes), rows: the row in the middle and the next.
ROWS = [
    ("f32", np.float32, 4, 6),
    ("f32", np.float32, 4, 10),
    ("f64", np.float64, 2, 6),
    ("i8", np.int8, 16, 6),
    ("f16", np.float16, 8, 6),
]


def _private(number: int, element: str, shape: tuple[int, ...]) -> str:
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


def _rows(number: int, element: str, width: int, rows: int) -> str:
    whole, row, array = (
        f"vector<{width * rows}x{element}>", f"vector<{width}x{element}>", f"memref<?x{element}>",
    )  # fmt: skip
    parts = ""
    for k in range(2):
        first = width * (rows // 2 + k)
        parts += f"""
    %r{k} = vector.extract_strided_slice %v {{offsets = [{first}], sizes = [{width}], strides = [1]}}
      : {whole} to {row}
    %p{k} = arith.constant {k * width} : index
    vector.store %r{k}, %out[%p{k}] : {array}, {row}"""
    return f"""
  gpu.func @k{number}(%in: {array}, %out: {array}, %at: index) kernel {{
    %c0 = arith.constant 0 : index
    %u = vector.load %in[%c0] : {array}, {whole}
    %x = memref.load %in[%c0] : {array}
    %v = vector.insert %x, %u[%at] : {element} into {whole}{parts}
    gpu.return
  }}"""


def test_elements_of_private_arrays_are_apart(tmp_path):
    """They are used on both sides of a barrier."""
    kernels = "".join(_private(i, element, shape) for i, (element, _, shape) in enumerate(PRIVATE))
    module = load(f"gpu.module @k {{{kernels}\n}}\n", tmp_path, opt_level=1)
    for number, (element, dtype, shape) in enumerate(PRIVATE):
        given = (np.arange(ITEMS * np.prod(shape)) % 13).astype(dtype)
        got = np.zeros_like(given)
        module.launch(f"k{number}", 1, ITEMS, given, got)
        np.testing.assert_array_equal(got, 3 * given, err_msg=f"{element} {shape}")


def test_rows_in_the_middle(tmp_path):
    """Of six, ten rows: LLVM's code generator takes them from elsewhere."""
    kernels = "".join(_rows(i, element, width, rows) for i, (element, _, width, rows) in enumerate(ROWS))
    module = load(f"gpu.module @k {{{kernels}\n}}\n", tmp_path, opt_level=3)
    for number, (element, dtype, width, rows) in enumerate(ROWS):
        given = (np.arange(width * rows) + 1).astype(dtype)
        got = np.zeros(2 * width, dtype)
        first = width * (rows // 2)
        module.launch(f"k{number}", 1, 1, given, got, np.uint64(first + 1))
        given[first + 1] = given[0]
        np.testing.assert_array_equal(got, given[first : first + 2 * width], err_msg=f"{element} {rows}")
