"""Numbers on CPUs: rounded once, to nearest, ties to even; integers of any width; zeros with a sign."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Module, elementwise, load

DIGITS = {"bf16": 8, "f16": 11, "f32": 24, "f64": 53}
LARGEST = {"f16": 65504.0, "f32": float(np.finfo(np.float32).max)}


def rounded(number: int, digits: int) -> float:
    """``number`` with so many binary digits, computed without a float."""
    last = max(abs(number).bit_length() - digits, 0)
    quotient, rest = divmod(abs(number), 1 << last)
    tie = Fraction(rest, 1 << last) - Fraction(1, 2)
    quotient += tie > 0 or (tie == 0 and quotient % 2 == 1)
    return math.copysign(float(quotient << last), number) if number else 0.0


def as_floats(numbers: list[int], kind: str) -> np.ndarray:
    """What conversions make of integers: infinity beyond the largest number."""
    wanted = np.array([rounded(n, DIGITS[kind]) for n in numbers])
    return np.where(np.abs(wanted) > LARGEST.get(kind, np.inf), np.copysign(np.inf, wanted), wanted)


def widened(kind: str, to: str, value: str, result: str) -> str:
    return f"{result} = arith.{'bitcast' if kind == to else 'extf'} {value} : {kind} to {to}"


def signed(numbers: set[int], bits: int) -> list[int]:
    half = 1 << (bits - 1)
    return sorted({(n + half) % (1 << bits) - half for n in numbers})


# ---- integers as floats ----

TYPES = ["i25", "i32", "i36", "i54", "i64"]
SHORT = ["bf16", "f16", "f32"]


def numbers(bits: int) -> list[int]:
    """Near ties of all floats, and near where the rewrite takes other steps; as if they had a sign."""
    found = set()
    for top in range(bits):
        for kind, more in itertools.product(SHORT, (-1, 0, 1)):
            last = max(top - DIGITS[kind], 0)
            tie = (1 << top) + (top % 2 << max(top - DIGITS[kind] + 1, 0)) + (1 << last) + more
            found |= {tie, -tie}
    found |= {(1 << top) + low for top in range(bits) for low in (-1, 0, 1)}
    return signed(found, bits)


@pytest.fixture(scope="module")
def conversions(tmp_path_factory: pytest.TempPathFactory) -> Module:
    kernels = []
    for sign, kind, to in itertools.product("su", TYPES, SHORT):
        cast = "trunci" if kind != "i64" else "bitcast"
        body = f"%n = arith.{cast} %a : i64 to {kind}\n%f = arith.{sign}itofp %n : {kind} to {to}\n"
        kernels.append(
            elementwise(f"{sign}_{kind}_{to}", ["i64"], body + widened(to, "f64", "%f", "%r"), "f64")
        )
    text = f"gpu.module @k {{{''.join(kernels)}\n}}"
    return load(text, tmp_path_factory.mktemp("conversions"), opt_level=0)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("sign", "su")
def test_integers_are_rounded_once(conversions: Module, sign: str, kind: str) -> None:
    bits = int(kind[1:])
    given = numbers(bits)
    meant = [n % (1 << bits) if sign == "u" else n for n in given]
    for to in SHORT:
        found = np.zeros(len(given))
        conversions.launch(f"{sign}_{kind}_{to}", len(given), 1, np.array(given, np.int64), found)
        np.testing.assert_array_equal(found, as_floats(meant, to), err_msg=to)


@pytest.mark.parametrize("chip", ["x86-64", "x86-64-v3"])
def test_rounding_to_16_bits(tmp_path: Path, chip: str) -> None:
    """Of single numbers; test_half_floats.py has every tie of f32."""
    kernels = [
        elementwise(f"half_{kind}", [kind], f"%r = arith.truncf %a : {kind} to f16", "f16")
        for kind in ("f64", "f32")
    ]
    kernels.append(elementwise("bf16", ["f32"], "%r = arith.truncf %a : f32 to bf16", "bf16"))
    module = load(f"gpu.module @k {{{''.join(kernels)}}}", tmp_path, chip=chip)
    special = [0.0, -0.0, np.inf, -np.inf, 65504, 65519.99, 65520, 6e-8, 2.98e-8, 2.9802322387695312e-08,
               6.1e-5, 1e-30]  # fmt: skip
    rng = np.random.default_rng(7)
    a = np.concatenate([special, rng.normal(size=500) * 10.0 ** rng.integers(-9, 6, 500)])
    # Halfway cases, seen through a double that is a little off: rounding twice would fail.
    a = np.concatenate([a, 1 + 2.0**-11 + np.array([1, -1, 0]) * 2.0**-40])
    f, bits = a.astype(np.float32), a.astype(np.float32).view(np.uint32).astype(np.uint64)
    with np.errstate(over="ignore"):
        wanted = {"half_f64": (a, a.astype(np.float16)), "half_f32": (f, f.astype(np.float16))}
    wanted["bf16"] = (f, ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))
    for name, (given, right) in wanted.items():
        found = np.zeros(len(a), np.uint16)
        module.launch(name, len(a), 1, given, found)
        np.testing.assert_array_equal(found, right.view(np.uint16), err_msg=name)


# ---- integers of more than 64 bits: what LLVM calls for them is in the image ----

CONVERTED = [65, 100, 128]
WIDTHS = [*CONVERTED, 200]
DIVISIONS = ["divsi", "divui", "remsi", "remui"]
FLOATS = ["f16", "f32", "f64"]
BYTES = 32  # from one element to the next: i200's are 32 bytes apart, others are stored as such


def wide_kernels(bits: int) -> str:
    kind, text = f"i{bits}", ""
    for op in DIVISIONS:
        operands = "".join(f"%n{n} = arith.trunci %{n} : i256 to {kind}\n" for n in "ab")
        body = f"{operands}%q = arith.{op} %na, %nb : {kind}\n%r = arith.ext{op[-2:]} %q : {kind} to i256"
        text += elementwise(f"{op}_{kind}", ["i256", "i256"], body, "i256")
    for sign, to in itertools.product("su", FLOATS if bits in CONVERTED else ()):
        body = f"%n = arith.trunci %a : i256 to {kind}\n%f = arith.{sign}itofp %n : {kind} to {to}\n"
        text += elementwise(f"to_{sign}_{kind}_{to}", ["i256"], body + widened(to, "f64", "%f", "%r"), "f64")
        narrow = "bitcast" if to == "f64" else "truncf"
        body = f"%f = arith.{narrow} %a : f64 to {to}\n%n = arith.fpto{sign}i %f : {to} to {kind}\n"
        body += f"%r = arith.ext{sign}i %n : {kind} to i256"
        text += elementwise(f"of_{sign}_{kind}_{to}", ["f64"], body, "i256")
    return text


def stored(numbers: list[int]) -> np.ndarray:
    """As memory has them, with a sign."""
    raw = b"".join((n % (1 << 8 * BYTES)).to_bytes(BYTES, "little") for n in numbers)
    return np.frombuffer(bytearray(raw), f"V{BYTES}")


def loaded(array: np.ndarray) -> list[int]:
    return [int.from_bytes(element.tobytes(), "little", signed=True) for element in array]


def wide_numbers(bits: int) -> list[int]:
    """Near powers of two and ties of floats, and some others; as if they had a sign."""
    half = 1 << (bits - 1)
    found = {0, 1, -1, 3, -7, 10**18, half - 1, -half, *(3**n for n in range(0, 100, 7))}
    for top, last in itertools.product(range(9, bits, 6), (11, 24, 53, 64)):
        found |= {(1 << top) + (1 << max(top - last, 0)) + more for more in (-1, 0, 1)}
    return signed(found | {-n for n in found}, bits)


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Module:
    text = f"gpu.module @k {{{''.join(map(wide_kernels, WIDTHS))}\n}}"
    return load(text, tmp_path_factory.mktemp("wide"), chip="x86-64-v2", opt_level=0)


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("op", DIVISIONS)
def test_division_of_wide_integers(wide: Module, op: str, bits: int) -> None:
    every = [n % (1 << bits) if op.endswith("ui") else n for n in wide_numbers(bits)]
    least = -(1 << (bits - 1))
    pairs = [(a, b) for a in every[::3] for b in every[::5] if b and (a, b) != (least, -1)]
    found = stored([0] * len(pairs))
    given = [stored(list(part)) for part in zip(*pairs, strict=True)]
    wide.launch(f"{op}_i{bits}", len(pairs), 1, *given, found)
    for (a, b), result in zip(pairs, loaded(found), strict=True):
        quotient = abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)
        assert result == (quotient if op.startswith("div") else a - b * quotient), (a, b)


@pytest.mark.parametrize("bits", CONVERTED)
@pytest.mark.parametrize("sign", "su")
def test_conversions_of_wide_integers(wide: Module, sign: str, bits: int) -> None:
    given = [n % (1 << bits) if sign == "u" else n for n in wide_numbers(bits)]
    low, high = (0, 1 << bits) if sign == "u" else (-(1 << (bits - 1)), 1 << (bits - 1))
    for to in FLOATS:
        wanted, found = as_floats(given, to), np.zeros(len(given))
        wide.launch(f"to_{sign}_i{bits}_{to}", len(given), 1, stored(given), found)
        np.testing.assert_array_equal(found, wanted)
        fits = [f for f in (*wanted, 0.5, -0.25, 7.75) if np.isfinite(f) and low <= int(f) < high]
        back = stored([0] * len(fits))
        wide.launch(f"of_{sign}_i{bits}_{to}", len(fits), 1, np.array(fits), back)
        assert [n % (1 << bits) for n in loaded(back)] == [int(f) % (1 << bits) for f in fits]


# ---- minimum and maximum: -0.0 is less than 0.0, and NaN is what comes out if one comes in ----

VALUES = np.array([0.0, -0.0, 1.0, -2.0, np.nan, -np.inf], np.float32)
CONSTANTS = [0.0, -0.0, 1.0]


def least_or_largest(op: str, left: float, right: float) -> float:
    if np.isnan(left) or np.isnan(right):
        return np.nan
    first, second = sorted((left, right), key=lambda number: (number, np.copysign(1, number)))
    return first if op == "minimumf" else second


def bits_of(numbers: object) -> list[int]:
    array = np.array(numbers, np.float32)
    return np.where(np.isnan(array), 0x7FC00000, array.view(np.int32)).tolist()


@pytest.mark.parametrize("op", ["minimumf", "maximumf"])
def test_pairs_and_constants(tmp_path: Path, op: str) -> None:
    kernels = elementwise("pairs", ["f32", "f32"], f"%r = arith.{op} %a, %b : f32", "f32")
    constants = list(itertools.product(range(len(CONSTANTS)), ("%v, %c", "%c, %v")))
    for number, (which, operands) in enumerate(constants):
        body = f"""%c = arith.constant dense<{CONSTANTS[which]}> : vector<2xf32>
    %v = vector.broadcast %a : f32 to vector<2xf32>
    %w = arith.{op} {operands} : vector<2xf32>
    %r = vector.extract %w[1] : f32 from vector<2xf32>"""
        kernels += elementwise(f"constant{number}", ["f32"], body, "f32")
    module = load(f"gpu.module @k {{{kernels}\n}}", tmp_path, opt_level=0)
    pairs = np.array(list(itertools.product(VALUES, VALUES)), np.float32)
    found = np.zeros(len(pairs), np.float32)
    module.launch("pairs", 1, len(pairs), *pairs.T.copy(), found)
    assert bits_of(found) == bits_of([least_or_largest(op, *pair) for pair in pairs])
    for number, (which, _) in enumerate(constants):
        found = np.zeros(len(VALUES), np.float32)
        module.launch(f"constant{number}", 1, len(VALUES), VALUES, found)
        wanted = [least_or_largest(op, value, CONSTANTS[which]) for value in VALUES]
        assert bits_of(found) == bits_of(wanted), constants[number]
