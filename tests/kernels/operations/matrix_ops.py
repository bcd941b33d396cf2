"""Matrix operations that no chip's units do; the others are in subgroup_ops."""

from __future__ import annotations

import numpy as np
from kernels.program import Programs, integers

PROGRAMS = Programs()
_SHAPE = (16, 16)


def _add(op: str, name: str, line: str, element: str, inputs: dict[str, np.ndarray], want) -> None:
    """``line`` makes ``%D`` of C operands named like the inputs, which are 16x16."""
    kinds = {"f16": np.float16, "f32": np.float32, "i32": np.int32}
    memory, matrix = f"memref<16x16x{element}>", f'!gpu.mma_matrix<16x16x{element}, "COp">'
    loads = "".join(
        f"%{key.upper()} = gpu.subgroup_mma_load_matrix %{key}[%c0, %c0] {{leadDimension = 16 : index}} : "
        f"{memory} -> {matrix}\n    "
        for key in inputs
    )
    result = {"float16": "f16", "float32": "f32", "int32": "i32"}[want.dtype.name]
    stored = f'!gpu.mma_matrix<16x16x{result}, "COp">'
    PROGRAMS.add(
        name=name,
        op=op,
        body=f"{loads}{line.replace('$', matrix).replace('@', stored)}\n    "
        "gpu.subgroup_mma_store_matrix %D, %out[%c0, %c0] {leadDimension = 16 : index} : "
        f"{stored}, memref<16x16x{result}>",
        args=inputs,
        expect={"out": want},
    )
    assert all(value.dtype == kinds[element] for value in inputs.values())


def _elementwise() -> None:
    x = integers(np.int32, -99, 99, 256).reshape(_SHAPE)
    y = integers(np.int32, 1, 9, 256).reshape(_SHAPE)
    functions = {
        "addi": x + y, "subi": x - y, "muli": x * y, "divs": np.trunc(x / y).astype(np.int32),
        "divu": (x.view(np.uint32) // y.view(np.uint32)).view(np.int32), "negates": -x,
    }  # fmt: skip
    for function, want in functions.items():
        one = function == "negates"
        operands = "%X : ($)" if one else "%X, %Y : ($, $)"
        _add(
            f"gpu.subgroup_mma_elementwise {function}",
            f"gpu_mma_elementwise_{function}",
            f"%D = gpu.subgroup_mma_elementwise {function} {operands} -> $",
            "i32",
            {"x": x} if one else {"x": x, "y": y},
            want,
        )
    _add(
        "gpu.subgroup_mma_elementwise extf",
        "gpu_mma_elementwise_extf",
        "%D = gpu.subgroup_mma_elementwise extf %X : ($) -> @",
        "f16",
        {"x": x.astype(np.float16)},
        x.astype(np.float32),
    )


def _thread_local() -> None:
    """Every element of a lane is read, changed and put back: which lane holds which is not defined."""
    x = integers(np.int32, -99, 99, 256).astype(np.float32).reshape(_SHAPE)
    _add(
        "gpu.subgroup_mma_extract_thread_local, insert_thread_local",
        "gpu_mma_thread_local",
        """%c256 = arith.constant 256 : index
    %lanes = gpu.subgroup_size : index
    %held = arith.divui %c256, %lanes : index
    %D = scf.for %e = %c0 to %held step %c1 iter_args(%m = %X) -> ($) {
      %v = gpu.subgroup_mma_extract_thread_local %m[%e] : $ -> f32
      %w = arith.mulf %v, %v : f32
      %n = gpu.subgroup_mma_insert_thread_local %w, %m[%e] : f32, $ -> $
      scf.yield %n : $
    }""",
        "f32",
        {"x": x},
        x * x,
    )


_elementwise()
_thread_local()
