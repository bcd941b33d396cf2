"""f16 and bf16 on CPUs without instructions for them: all numbers, and what is rounded to them."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from e2e.command import shared_cache
from e2e.cpu_harness import elementwise
from variants import few

import gpubuild

X86 = platform.machine() == "x86_64"
CHIPS = ["x86-64-v2", "x86-64-v3"] if X86 else ["generic"]
SUMS = """
gpu.module @sums {{
  gpu.func @sum(%x: memref<16x16xi16>, %y: memref<16xi16>) kernel {{
    %c0 = arith.constant 0 : index
    %z = arith.constant 0 : i16
    %zero = arith.constant -0.0 : {kind}
    %i = gpu.thread_id x
    %v = vector.transfer_read %x[%i, %c0], %z {{in_bounds = [true]}} : memref<16x16xi16>, vector<16xi16>
    %n = arith.bitcast %v : vector<16xi16> to vector<16x{kind}>
    %s = vector.reduction <add>, %n, %zero : vector<16x{kind}> into {kind}
    %r = arith.bitcast %s : {kind} to i16
    memref.store %r, %y[%i] : memref<16xi16>
    gpu.return
  }}
}}
"""
ARITHMETIC: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
}
ALL = np.arange(1 << 16, dtype=np.uint16)


def widened(bits: np.ndarray, kind: str) -> np.ndarray:
    """Return f16 or bf16 numbers as f32."""
    if kind == "f16":
        return bits.view(np.float16).astype(np.float32)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def rounded(values: np.ndarray, kind: str) -> np.ndarray:
    """Return the bits of f32 numbers as f16 or bf16: of two neighbours the nearer one, or the even one."""
    with np.errstate(over="ignore"):
        if kind == "f16":
            return values.astype(np.float16).view(np.uint16)
    low = values.view(np.uint32) >> 16
    high = low + 1
    # Beyond the largest number, infinity counts as the next power of two.
    ends = [
        np.where(
            part & 0x7FFF == 0x7F80, 2.0**128, np.abs(widened(part.astype(np.uint16), kind), dtype=float)
        )
        for part in (low, high)
    ]
    size = np.abs(values.astype(float))
    up = (ends[1] - size < size - ends[0]) | ((ends[1] - size == size - ends[0]) & (low % 2 == 1))
    found = np.where(up, high, low).astype(np.uint16)
    return np.where(np.isinf(values), low, found).astype(np.uint16)


def assert_same(found: np.ndarray, wanted: np.ndarray, kind: str) -> None:
    """Compare bits; any NaN equals any other."""
    nan = np.isnan(widened(wanted, kind))
    np.testing.assert_array_equal(np.isnan(widened(found, kind)), nan)
    np.testing.assert_array_equal(found[~nan], wanted[~nan])


def kernels(kind: str) -> str:
    narrow = f"%r = arith.bitcast %n : {kind} to i16"
    made = [
        elementwise("extend", ["i16"], f"%n = arith.bitcast %a : i16 to {kind}\n"
                    f"%r = arith.extf %n : {kind} to f32", "f32"),
        elementwise("truncate", ["f32"], f"%n = arith.truncf %a : f32 to {kind}\n{narrow}", "i16"),
    ]  # fmt: skip
    for name in ARITHMETIC:
        operands = "".join(f"%v{n} = arith.bitcast %{n} : i16 to {kind}\n" for n in "ab")
        body = f"{operands}%n = arith.{name} %va, %vb : {kind}\n{narrow}"
        made.append(elementwise(name, ["i16", "i16"], body, "i16"))
    return f"gpu.module @k {{{''.join(made)}}}\n{SUMS.format(kind=kind)}"


# Each kind of numbers and each chip once, then the others.
MADE = ["f16 " + CHIPS[0], "bf16 " + CHIPS[-1], "f16 " + CHIPS[-1], "bf16 " + CHIPS[0]]


@pytest.fixture(scope="module", params=few(dict.fromkeys(MADE), 2))
def made(request: pytest.FixtureRequest) -> list[str]:
    """The kind of numbers, and the chip."""
    return request.param.split()


@pytest.fixture(scope="module")
def kind(made: list[str]) -> str:
    return made[0]


@pytest.fixture(scope="module")
def module(made: list[str], kind: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in shared_cache().items():
            patch.setenv(name, value)
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "user-cache"))
        return gpubuild.load(text=kernels(kind), targets={"cpu": {"chip": made[1]}})


def test_numbers(kind: str, module: Any) -> None:
    wide = np.zeros(ALL.size, np.float32)
    module.k.extend[ALL.size // 256, 256](ALL.view(np.int16), wide)
    np.testing.assert_array_equal(wide, widened(ALL, kind))
    back = np.zeros_like(ALL)
    module.k.truncate[ALL.size // 256, 256](wide, back.view(np.int16))
    assert_same(back, ALL, kind)

    # What lies between two neighbours: the middle, and the f32 numbers around it; and random ones.
    middle = (wide.view(np.uint32)[:-1].astype(np.int64) + wide.view(np.uint32)[1:]) // 2
    bits = np.concatenate([middle + step for step in (-1, 0, 1)]).astype(np.uint32)
    random = np.random.default_rng(5).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
    bits = np.concatenate([bits, random])
    values = np.resize(bits, -(-bits.size // 256) * 256).view(np.float32)
    short = np.zeros(values.size, np.uint16)
    module.k.truncate[values.size // 256, 256](values, short.view(np.int16))
    nan = np.isnan(values)
    assert_same(short[~nan], rounded(values[~nan], kind), kind)
    assert np.isnan(widened(short[nan], kind)).all()
    np.testing.assert_array_equal(np.signbit(widened(short, kind)), np.signbit(values))

    other = np.random.default_rng(6).permutation(ALL)
    for name, function in ARITHMETIC.items():
        result = np.zeros_like(ALL)
        kernel = getattr(module.k, name)
        kernel[ALL.size // 256, 256](ALL.view(np.int16), other.view(np.int16), result.view(np.int16))
        with np.errstate(all="ignore"):
            wanted = function(widened(ALL, kind), widened(other, kind))
            wanted = np.where(np.isnan(wanted), ALL[-1], rounded(wanted, kind))  # which is a NaN
        assert_same(result, wanted, kind)


def test_sums_round_each_step(kind: str, module: Any) -> None:
    values = rounded(np.random.default_rng(7).normal(size=(16, 16)).astype(np.float32), kind)
    found = np.zeros(16, np.uint16)
    module.sums.sum[1, 16](values.view(np.int16), found.view(np.int16))
    wanted = values[:, 0]
    for column in values.T[1:]:
        wanted = rounded(widened(wanted, kind) + widened(column, kind), kind)
    np.testing.assert_array_equal(found, wanted)
