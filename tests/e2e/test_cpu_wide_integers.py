"""Integers of more than 64 bits: what LLVM calls for them is in the image, and right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module
from e2e.test_cpu_conversions import DIGITS, rounded

CONVERTED = [65, 100, 128]
WIDTHS = [*CONVERTED, 200]
DIVISIONS = ["divsi", "divui", "remsi", "remui"]
FLOATS = ["f16", "f32", "f64"]
PLACES = {**DIGITS, "f64": 53}
BYTES = 32  # from one element to the next: i200's are 32 bytes apart, others are stored as such


def _kernels(bits: int) -> str:
    kind = f"i{bits}"
    text = ""
    for op in DIVISIONS:
        text += f"""
  gpu.func @{op}_{kind}(%A: memref<?xi256>, %B: memref<?xi256>, %C: memref<?xi256>) kernel {{
    %i = gpu.global_id x
    %wide.a = memref.load %A[%i] : memref<?xi256>
    %wide.b = memref.load %B[%i] : memref<?xi256>
    %a = arith.trunci %wide.a : i256 to {kind}
    %b = arith.trunci %wide.b : i256 to {kind}
    %r = arith.{op} %a, %b : {kind}
    %wide.r = arith.{"extsi" if op.endswith("si") else "extui"} %r : {kind} to i256
    memref.store %wide.r, %C[%i] : memref<?xi256>
    gpu.return
  }}"""
    for sign, to in itertools.product("su", FLOATS if bits in CONVERTED else ()):
        extend = "" if to == "f64" else f"%w = arith.extf %r : {to} to f64"
        truncate = "" if to == "f64" else f"%n = arith.truncf %f : f64 to {to}"
        name = f"{sign}_{kind}_{to}"
        text += f"""
  gpu.func @to_{name}(%A: memref<?xi256>, %C: memref<?xf64>) kernel {{
    %i = gpu.global_id x
    %wide.a = memref.load %A[%i] : memref<?xi256>
    %a = arith.trunci %wide.a : i256 to {kind}
    %r = arith.{sign}itofp %a : {kind} to {to}
    {extend}
    memref.store {"%w" if extend else "%r"}, %C[%i] : memref<?xf64>
    gpu.return
  }}
  gpu.func @of_{name}(%A: memref<?xf64>, %C: memref<?xi256>) kernel {{
    %i = gpu.global_id x
    %f = memref.load %A[%i] : memref<?xf64>
    {truncate}
    %r = arith.fpto{sign}i {"%n" if truncate else "%f"} : {to} to {kind}
    %wide.r = arith.ext{sign}i %r : {kind} to i256
    memref.store %wide.r, %C[%i] : memref<?xi256>
    gpu.return
  }}"""
    return text


def stored(numbers: list[int]) -> np.ndarray:
    """As memory has them, with a sign."""
    raw = b"".join((n % (1 << 8 * BYTES)).to_bytes(BYTES, "little") for n in numbers)
    return np.frombuffer(bytearray(raw), f"V{BYTES}")


def loaded(array: np.ndarray) -> list[int]:
    return [int.from_bytes(element.tobytes(), "little", signed=True) for element in array]


def numbers(bits: int) -> list[int]:
    """Near powers of two and ties of floats, and some others; as if they had a sign."""
    half = 1 << (bits - 1)
    found = {0, 1, -1, 3, -7, 10**18, half - 1, -half, *(3**n for n in range(0, 100, 7))}
    for top, last in itertools.product(range(9, bits, 6), (11, 24, 53, 64)):
        found |= {(1 << top) + (1 << max(top - last, 0)) + more for more in (-1, 0, 1)}
    found |= {-n for n in found}
    return sorted({(n + half) % (1 << bits) - half for n in found})


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("wide")
    functions = "".join(map(_kernels, WIDTHS))
    out = compile_module(f"gpu.module @k {{{functions}\n}}", folder / "k", chip="x86-64-v2", opt_level=0)
    return Device(build_runtime(folder)).load(out)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("op", DIVISIONS)
def test_division(module: Module, op: str, bits: int) -> None:
    all_of_them = [n % (1 << bits) if op.endswith("ui") else n for n in numbers(bits)]
    least = -(1 << (bits - 1))
    pairs = [(a, b) for a in all_of_them[::3] for b in all_of_them[::5] if b and (a, b) != (least, -1)]
    found = stored([0] * len(pairs))
    given = [stored(list(part)) for part in zip(*pairs, strict=True)]
    module.launch(f"{op}_i{bits}", len(pairs), 1, *given, found)
    for (a, b), result in zip(pairs, loaded(found), strict=True):
        quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
        assert result == (quotient if op.startswith("div") else a - b * quotient), (a, b)


@pytest.mark.parametrize("bits", CONVERTED)
@pytest.mark.parametrize("sign", "su")
def test_conversions(module: Module, sign: str, bits: int) -> None:
    given = [n % (1 << bits) if sign == "u" else n for n in numbers(bits)]
    for to in FLOATS:
        wanted = np.array([rounded(n, PLACES[to]) for n in given])
        limit = {"f16": 65504.0, "f32": float(np.finfo(np.float32).max), "f64": np.inf}[to]
        wanted = np.where(np.abs(wanted) > limit, np.copysign(np.inf, wanted), wanted)
        found = np.zeros(len(given))
        module.launch(f"to_{sign}_i{bits}_{to}", len(given), 1, stored(given), found)
        np.testing.assert_array_equal(found, wanted)

        low, high = (0, 1 << bits) if sign == "u" else (-(1 << (bits - 1)), 1 << (bits - 1))
        fits = [f for f in (*wanted, 0.5, -0.25, 7.75) if np.isfinite(f) and low <= int(f) < high]
        back = stored([0] * len(fits))
        module.launch(f"of_{sign}_i{bits}_{to}", len(fits), 1, np.array(fits), back)
        assert [n % (1 << bits) for n in loaded(back)] == [int(f) % (1 << bits) for f in fits]
