"""Mathematics as vector code: errors against long double, special values against C's functions."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module

# Bounds in units in the last place; docs/cpu.md says the same. Far arguments go to the C library.
NEAR = {
    ("sin", "f32"): 0.51,
    ("cos", "f32"): 0.51,
    ("tan", "f32"): 0.51,
    ("exp", "f64"): 0.8,
    ("exp2", "f64"): 0.8,
    ("log", "f64"): 0.7,
    ("log2", "f64"): 0.7,
    ("log10", "f64"): 0.7,
    ("sin", "f64"): 0.8,
    ("cos", "f64"): 0.8,
}
FAR = 1.0
FAR_FROM = {"f32": 2.0**40, "f64": 2.0**26}
TYPES = {"f32": np.float32, "f64": np.float64}
EDGES = [
    0.0,
    -0.0,
    1,
    -1,
    np.inf,
    -np.inf,
    np.nan,
    0.5,
    2,
    1e-40,
    1e-310,
    5e-324,
    -5e-324,
    2.2250738585072014e-308,
]
EDGES += [
    709.782712893384,
    709.7827128933841,
    -745.13,
    -745.14,
    -708.4,
    1024,
    1023.9999999,
    -1074,
    -1075,
    -1022.5,
]
EDGES += [2.0**26, 2.0**40, 1.5e300, 3e38, np.pi / 4, np.pi / 2, np.pi]

pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double here"
)


def kernel(name: str, kind: str, operands: str = "%x") -> str:
    return f"""
  gpu.func @{name}_{kind}(%a: memref<?x{kind}>, %b: memref<?x{kind}>, %out: memref<?x{kind}>) kernel {{
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?x{kind}>
    %w = memref.load %b[%i] : memref<?x{kind}>
    %y = math.{name} {operands} : {kind}
    memref.store %y, %out[%i] : memref<?x{kind}>
    gpu.return
  }}"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kernels = "".join(kernel(name, kind) for name, kind in NEAR) + kernel("powf", "f32", "%x, %w")
    return compile_module(f"gpu.module @k {{{kernels}\n}}", tmp_path_factory.mktemp("math"))


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory, out: Path):
    device = Device(build_runtime(tmp_path_factory.mktemp("runtime")))
    if not device.supports("x86-64-v3"):
        pytest.skip("this processor is no x86-64-v3")
    return device.load(out)


def run(module, kernel: str, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
    size = -(-len(a) // 256) * 256
    padded = [np.resize(v, size) for v in (a, a if b is None else b)]
    result = np.zeros_like(padded[0])
    module.launch(kernel, size // 256, 256, *padded, result)
    return result[: len(a)]


def errors(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In units in the last place; infinite where special values differ."""
    kind = result.dtype
    rounded = exact.astype(kind)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(kind).tiny)).astype(np.longdouble)
    special = ~np.isfinite(rounded) | ~np.isfinite(result)
    return np.where(same, 0, np.where(special, np.inf, np.abs(result - exact) / unit)).astype(float)


def arguments(name: str, kind: str) -> np.ndarray:
    """Some of every exponent and sign, usual ones, edges, and those close to multiples of a quarter turn."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 60_000, np.uint64)
    if kind == "f64":
        bits = bits << np.uint64(32) | rng.integers(0, 1 << 32, len(bits), np.uint64)
    every = bits.astype(np.uint32).view(np.float32) if kind == "f32" else bits.view(np.float64)
    usual = rng.random(60_000) * (2200 if "exp" in name else 20) - (1100 if "exp" in name else 10)
    near_one = 1 + (rng.random(20_000) - 0.5) * 1e-3
    quarters = np.arange(1, 40_000) * (np.pi / 2)
    values = [every, usual, np.abs(usual), near_one, quarters, np.nextafter(quarters, 0), EDGES]
    with np.errstate(all="ignore"):
        return np.concatenate([np.asarray(v).astype(TYPES[kind]) for v in values])


@pytest.mark.parametrize(("name", "kind"), NEAR)
def test_errors(module, name: str, kind: str) -> None:
    values = arguments(name, kind)
    with np.errstate(all="ignore"):
        result = run(module, f"{name}_{kind}", values)
        exact = getattr(np, name)(values.astype(np.longdouble))
        error = errors(result, exact)
        limit = np.full(len(values), NEAR[name, kind])
        if name in ("sin", "cos", "tan"):
            limit[np.abs(values) > FAR_FROM[kind]] = FAR
    worst = (error / limit).argmax()
    assert error[worst] <= limit[worst], (values[worst], result[worst], exact[worst])
    zeros = values == 0
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))


def test_powers(module) -> None:
    rng = np.random.default_rng(5)
    a = np.concatenate(
        [rng.random(60_000) * 4, 2.0 ** (rng.random(60_000) * 270 - 145), 1 + rng.random(9_000) / 1e2]
    )
    b = np.concatenate(
        [rng.random(60_000) * 40 - 20, rng.random(60_000) * 4 - 2, rng.random(9_000) * 2e4 - 1e4]
    )
    a, b = a.astype(np.float32), b.astype(np.float32)
    with np.errstate(all="ignore"):
        result = run(module, "powf_f32", a, b)
        error = errors(result, np.power(a.astype(np.longdouble), b.astype(np.longdouble)))
    worst = error.argmax()
    assert error[worst] <= 0.51, (a[worst], b[worst], result[worst])


def test_special_powers(module) -> None:
    """Signs, infinities, NaN, zeros, and even and odd powers of negative numbers."""
    c = ctypes.CDLL(None).powf
    c.restype, c.argtypes = ctypes.c_float, [ctypes.c_float] * 2
    some = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, -3, 1e-40, -1e-40]
    some += [2**24 - 1, 1 - 2**24, 2**24, -(2**25) - 2, 1e30, -1e30]
    a, b = (np.ravel(v) for v in np.meshgrid(np.float32(some), np.float32(some)))
    result = run(module, "powf_f32", a, b)
    expected = np.float32([c(float(x), float(y)) for x, y in zip(a, b, strict=True)])
    np.testing.assert_allclose(result, expected, rtol=2.0**-23)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]))


def test_one_value_is_as_many(module) -> None:
    """The vectorised loop and a work-item alone, which fibers run, give the same bits."""
    for name, kind in NEAR:
        values = np.linspace(0.1, 300, 256).astype(TYPES[kind])
        found = []
        for fibers in (False, True):
            result = np.zeros_like(values)
            module.launch(f"{name}_{kind}", 1, 256, values, values, result, fibers=fibers)
            found.append(result)
        np.testing.assert_array_equal(*found, err_msg=f"{name} of {kind}")


def test_it_is_vectorised(out: Path) -> None:
    text = (out / "llvm").read_text()
    assert text.count("@llvm.fma.v4f64(") > 100
    assert "@llvm.sin.v" not in text  # which would call the C library for each element
