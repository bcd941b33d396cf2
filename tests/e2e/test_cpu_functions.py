"""Mathematical functions and roundings of kernels on the CPU device."""

from __future__ import annotations

import numpy as np
import pytest
from e2e.cpu_harness import Device, compile_module

RNG = np.random.default_rng(7)
MATH = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "atanh": np.arctanh, "cbrt": np.cbrt, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "roundeven": np.rint, "absf": np.abs, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


def _math_module(kind: str) -> str:
    body = "".join(
        f"""
  gpu.func @{name}(%a: memref<?x{kind}>, %out: memref<?x{kind}>) kernel {{
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?x{kind}>
    %r = math.{name} %v : {kind}
    memref.store %r, %out[%g] : memref<?x{kind}>
    gpu.return
  }}"""
        for name in MATH
    )
    return f"gpu.module @m {{{body}}}"


@pytest.mark.parametrize("chip", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [("f32", np.float32, 1e-5), ("f64", np.float64, 1e-12), ("f16", np.float16, 2e-3)],
)
def test_math_functions(runtime, tmp_path, kind, dtype, tolerance, chip):
    """Kernels are named like C's functions on purpose: they must not stand in for them."""
    out = compile_module(_math_module(kind), tmp_path, chip=chip)
    module = Device(runtime).load(out)
    a = RNG.uniform(0.05, 0.95, 100).astype(dtype)
    for name, function in MATH.items():
        result = np.zeros_like(a)
        module.launch(name, 4, 25, a, result)
        np.testing.assert_allclose(
            result.astype(np.float64),
            function(a.astype(np.float64)),
            rtol=tolerance,
            atol=tolerance / 10,
            err_msg=name,
        )


@pytest.mark.parametrize("chip", ["x86-64", "x86-64-v3"])
def test_rounding_to_16_bits(runtime, tmp_path, chip):
    text = """gpu.module @k {
  gpu.func @narrow(%a: memref<?xf64>, %h: memref<?xf16>, %s: memref<?xf16>,
                   %b: memref<?xbf16>, %w: memref<?xf32>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf64>
    %x = arith.truncf %v : f64 to f16
    memref.store %x, %h[%g] : memref<?xf16>
    %f = arith.truncf %v : f64 to f32
    %y = arith.truncf %f : f32 to f16
    memref.store %y, %s[%g] : memref<?xf16>
    %z = arith.truncf %f : f32 to bf16
    memref.store %z, %b[%g] : memref<?xbf16>
    %e = arith.extf %y : f16 to f32
    memref.store %e, %w[%g] : memref<?xf32>
    gpu.return
  }
}"""
    module = Device(runtime).load(compile_module(text, tmp_path, chip=chip))
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        65504,
        65519.99,
        65520,
        6e-8,
        2.98e-8,
        2.9802322387695312e-08,
        6.1e-5,
        1e-30,
    ]
    a = np.concatenate([special, RNG.normal(size=500) * 10.0 ** RNG.integers(-9, 6, 500)])
    # Halfway cases of f16, seen through a double that is a little off: rounding twice would fail.
    a = np.concatenate([a, 1 + 2.0**-11 + np.array([1, -1, 0]) * 2.0**-40])
    h, s, w = np.zeros(len(a), np.float16), np.zeros(len(a), np.float16), np.zeros(len(a), np.float32)
    b = np.zeros(len(a), np.uint16)
    module.launch("narrow", len(a), 1, a, h, s, b, w)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(h.view(np.uint16), a.astype(np.float16).view(np.uint16))
        f = a.astype(np.float32)
        np.testing.assert_array_equal(s.view(np.uint16), f.astype(np.float16).view(np.uint16))
        np.testing.assert_array_equal(w, s.astype(np.float32))
    bits = f.view(np.uint32).astype(np.uint64)
    np.testing.assert_array_equal(b, ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))
