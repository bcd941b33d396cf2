"""Integers as floats: rounded once, to nearest, ties to even, however short the float is."""

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
