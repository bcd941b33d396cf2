"""Accuracy: arguments that are hard on mathematics, and errors in units in the last place."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest

NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
         "atanh": "arctanh", "powf": "power", "pow": "power", "atan2": "arctan2"}  # fmt: skip
TYPES = {"f32": np.float32, "f64": np.float64}
WIDE = {"f32": np.float64, "f64": np.longdouble}
EDGES = [0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, 1e-40, 1e-310, 5e-324, -5e-324, 2.0**-1022]
EDGES += [709.782712893384, 709.7827128933841, -745.13, -745.14, -708.4, 1024, 1023.9999999, -1074, -1075]
EDGES += [-1022.5, 88.72283, 88.72284, -103.97, -104, -103, 2.0**26, 2.0**40, 1.5e300, 3e38]
EDGES += [710.4758600739439, 710.475860073944, -710.4758600739439, 10.05, 27.2, 26.5, 5.9, 2.0**-28, 0.625]
EDGES += [2.0**50, 2.0**76, 2.0**102, 16367173 * 2.0**72, np.pi / 4, np.pi / 2, np.pi]
# Two operands: signs, infinities, NaN, zeros, denormals; even and odd powers
SOME = [0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2, -2, 3, -3, 1e-40, -1e-40, 2.0**24 - 1]
SOME += [1 - 2.0**24, 2.0**24, -(2.0**25) - 2, 2.0**53 - 1, 1 - 2.0**53, 2.0**53 + 2, 1e30, -1e30, 5e-324]
SOME += [1e308, -1.7e308]


needs_wide_numbers = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="long double is no wider than double here"
)


def errors(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In units in the last place; infinite where special values, or signs of zeros, differ."""
    kind = result.dtype
    rounded = exact.astype(kind)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(kind).tiny)).astype(exact.dtype)
    special = ~np.isfinite(rounded) | ~np.isfinite(result)
    special |= (rounded == 0) & (result == 0) & (np.signbit(rounded) != np.signbit(result))
    far = np.where(same & ~special, 0, np.abs(result - exact) / unit)
    return np.where(special & ~(same & (rounded != 0)), np.inf, np.where(same, 0, far)).astype(float)


@cache
def arguments(kind: str) -> np.ndarray:
    """Some of every exponent and sign, usual ones, edges, and those close to multiples of a quarter turn."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 32, 40_000, np.uint64)
    if kind == "f64":
        bits = bits << np.uint64(32) | rng.integers(0, 1 << 32, len(bits), np.uint64)
    every = bits.astype(np.uint32).view(np.float32) if kind == "f32" else bits.view(np.float64)
    usual = [rng.uniform(-most, most, 10_000) for most in (1, 6, 40, 110, 1100)]
    near_one = 1 + (rng.random(10_000) - 0.5) * 1e-3
    quarters = np.arange(1, 10_000) * (np.pi / 2)
    values = [every, *usual, np.abs(usual[1]), near_one, -near_one, quarters, np.nextafter(quarters, 0)]
    edges = np.array(EDGES).astype(TYPES[kind])
    values += [
        edges,
        np.nextafter(edges, np.inf, dtype=edges.dtype),
        np.nextafter(edges, -np.inf, dtype=edges.dtype),
    ]
    with np.errstate(all="ignore"):
        return np.concatenate([np.asarray(v).astype(TYPES[kind]) for v in values])


def pairs(kind: str) -> np.ndarray:
    """Two rows of operands, of many magnitudes and near one."""
    rng = np.random.default_rng(5)
    most = 120 if kind == "f32" else 1000
    a = [rng.random(20_000) * 4, 2.0 ** (rng.random(20_000) * 2 * most - most), 1 + rng.random(8_960) / 1e2]
    b = [rng.random(20_000) * 40 - 20, rng.random(20_000) * 4 - 2, rng.random(8_960) * 2e4 - 1e4]
    return np.array([np.concatenate(a), np.concatenate(b)]).astype(TYPES[kind])


def special_pairs(function: str, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Operands, zeros and infinities among them, and the results of C's ``function``."""
    scalar = ctypes.c_float if kind == "f32" else ctypes.c_double
    c = getattr(ctypes.CDLL(None), function)
    c.restype, c.argtypes = scalar, [scalar] * 2
    with np.errstate(all="ignore"):
        some = np.array(SOME).astype(TYPES[kind])
    a, b = (np.ravel(v) for v in np.meshgrid(some, some))
    return a, b, np.array([c(float(x), float(y)) for x, y in zip(a, b, strict=True)], TYPES[kind])


def reference(name: str, *values: np.ndarray) -> np.ndarray:
    """What the function gives in the next wider type. Skips the test where that needs a C compiler."""
    wide = [v.astype(WIDE["f32" if v.dtype == np.float32 else "f64"]) for v in values]
    if name not in ("erf", "erfc"):  # which NumPy lacks
        return getattr(np, NUMPY.get(name, name))(*wide)
    exact = values[0].astype(np.longdouble)
    getattr(_error_functions(), f"wide_{name}")(ctypes.c_long(len(exact)), ctypes.c_void_p(exact.ctypes.data))
    return exact


@cache
def _error_functions() -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    text = "#include <math.h>\n" + "".join(
        f"void wide_{n}(long n, long double *x) {{ for (long i = 0; i < n; i++) x[i] = {n}l(x[i]); }}\n"
        for n in ("erf", "erfc")
    )
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "erf.c"), Path(folder, "liberf.so")
        source.write_text(text)
        options = ["-O1", "-fno-builtin", "-shared", "-fPIC"]
        command = [compiler, *options, str(source), "-o", str(library), "-lm"]
        subprocess.run(command, cwd=folder, check=True)
        return ctypes.CDLL(str(library))
