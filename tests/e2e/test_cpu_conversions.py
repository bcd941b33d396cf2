"""Integers and wide floats as short floats: rounded once, to nearest, ties to even."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module

DIGITS = {"bf16": 8, "f16": 11, "f32": 24}
TYPES = ["i25", "i32", "i36", "i54", "i64"]
OPS = ["sitofp", "uitofp"]


def _kernel(op: str, kind: str, to: str) -> str:
    narrow = "" if kind == "i64" else f"%n = arith.trunci %a : i64 to {kind}"
    return f"""
  gpu.func @{op}_{kind}_{to}(%A: memref<?xi64>, %C: memref<?xf64>) kernel {{
    %i = gpu.global_id x
    %a = memref.load %A[%i] : memref<?xi64>
    {narrow}
    %r = arith.{op} {"%n" if narrow else "%a"} : {kind} to {to}
    %o = arith.extf %r : {to} to f64
    memref.store %o, %C[%i] : memref<?xf64>
    gpu.return
  }}"""


def rounded(number: int, digits: int) -> float:
    """``number`` with so many binary digits, computed without a float."""
    last = max(abs(number).bit_length() - digits, 0)
    quotient, rest = divmod(abs(number), 1 << last)
    tie = Fraction(rest, 1 << last) - Fraction(1, 2)
    quotient += tie > 0 or (tie == 0 and quotient % 2 == 1)
    return math.copysign(float(quotient << last), number) if number else 0.0


def numbers(bits: int) -> list[int]:
    """Near ties of all floats, and near where the rewrite takes other steps; as if they had a sign."""
    found = set()
    for top in range(bits):
        for digits, more in itertools.product(DIGITS.values(), (-1, 0, 1)):
            tie = (1 << top) + (top % 2 << max(top - digits + 1, 0)) + (1 << max(top - digits, 0)) + more
            found |= {tie, -tie}
    found |= {(1 << top) + low for top in range(bits) for low in (-1, 0, 1)}
    half = 1 << (bits - 1)
    return sorted({(n + half) % (1 << bits) - half for n in found})


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("conversions")
    functions = "".join(_kernel(*choice) for choice in itertools.product(OPS, TYPES, DIGITS))
    out = compile_module(f"gpu.module @k {{{functions}\n}}", folder / "k", opt_level=0)
    return Device(build_runtime(folder)).load(out)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("op", OPS)
def test_integers_are_rounded_once(module: Module, op: str, kind: str) -> None:
    bits = int(kind[1:])
    given = numbers(bits)
    for to, digits in DIGITS.items():
        meant = [n % (1 << bits) if op == "uitofp" else n for n in given]
        wanted = np.array([rounded(n, digits) for n in meant])
        if to == "f16":
            wanted = np.where(np.abs(wanted) > 65504, np.copysign(np.inf, wanted), wanted)
        found = np.zeros(len(given))
        module.launch(f"{op}_{kind}_{to}", len(given), 1, np.array(given, np.int64), found)
        wrong = np.flatnonzero(found != wanted)
        assert not wrong.size, [(meant[i], found[i], wanted[i]) for i in wrong[:5]]


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
    special = [0.0, -0.0, np.inf, -np.inf, 65504, 65519.99, 65520, 6e-8, 2.98e-8, 2.9802322387695312e-08,
               6.1e-5, 1e-30]  # fmt: skip
    rng = np.random.default_rng(7)
    a = np.concatenate([special, rng.normal(size=500) * 10.0 ** rng.integers(-9, 6, 500)])
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
