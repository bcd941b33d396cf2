"""gpu.all_reduce of kernels that are cut: operations, types, forms of workgroups, and how much is rounded."""

from __future__ import annotations

import math

import numpy as np
import pytest
from e2e.cpu_harness import Module, compile_module, load
from kernels.place import PLACE_IN_GRID

GRID = 2
# Whole chunks of 64, less than one, rows that end within one, many short rows.
SHAPES = [(1,), (63,), (64,), (65,), (100,), (1024,), (16, 16), (128, 3), (70, 3, 2), (1, 64, 5), (5, 7, 9)]
FLOATS = {
    "add": np.add, "mul": np.multiply, "minimumf": np.minimum, "maximumf": np.maximum, "minnumf": np.fmin,
    "maxnumf": np.fmax,
}  # fmt: skip
WHOLE = {
    "add": np.add, "mul": np.multiply, "minsi": np.minimum, "maxsi": np.maximum, "minui": np.minimum,
    "maxui": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
KINDS = {
    "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
CASES = [(op, "f32") for op in FLOATS] + [(op, "i32") for op in WHOLE]
CASES += [("add", "f64"), ("minnumf", "f64"), ("maxsi", "i64"), ("minui", "i64"), ("minsi", "i8")]
CASES += [("maxui", "i16")]
RNG = np.random.default_rng(5)


def _kernel(name: str, body: str, kind: str = "f32") -> str:
    """``body`` makes %r of %v, the work-item's value, which is at %g of %a."""
    return f"""
  gpu.func @{name}(%a: memref<?x{kind}>, %out: memref<?x{kind}>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index{PLACE_IN_GRID}
    %v = memref.load %a[%g] : memref<?x{kind}>
    {body}
    memref.store %r, %out[%g] : memref<?x{kind}>
    gpu.return
  }}"""


def _reduce(value: str, result: str, op: str = "add", kind: str = "f32") -> str:
    return f"{result} = gpu.all_reduce {op} {value} uniform {{}} : ({kind}) -> ({kind})"


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> Module:
    kernels = [_kernel(f"{op}_{kind}", _reduce("%v", "%r", op, kind), kind) for op, kind in CASES]
    loaded = load(f"gpu.module @k {{{''.join(kernels)}}}", tmp_path_factory.mktemp("reductions"), opt_level=1)
    assert {k["tier"] for k in loaded.info["kernels"]} == {"fission"}
    return loaded


def _run(module: Module, name: str, shape: tuple[int, ...], data: np.ndarray) -> np.ndarray:
    out = np.zeros_like(data)
    module.launch(name, GRID, shape, data.reshape(-1), out.reshape(-1))
    return out


def _data(op: str, kind: str, items: int) -> np.ndarray:
    """Values of which no order of the operations rounds."""
    if kind.startswith("f"):
        low, high = (0, 2) if op == "mul" else (-50, 50)
        data = RNG.integers(low, high, (GRID, items)).astype(KINDS[kind])
        return 2**data if op == "mul" and items < 100 else data
    whole = np.iinfo(KINDS[kind])
    return RNG.integers(whole.min, whole.max, (GRID, items), KINDS[kind], endpoint=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_operation(module, shape):
    for op, kind in CASES:
        data = _data(op, kind, math.prod(shape))
        seen = data.view(f"u{data.itemsize}") if "ui" in op else data
        reduce = FLOATS[op] if kind.startswith("f") else WHOLE[op]
        with np.errstate(over="ignore"):
            wanted = reduce.reduce(seen, axis=1, dtype=seen.dtype).view(data.dtype)
        out = _run(module, f"{op}_{kind}", shape, data)
        np.testing.assert_array_equal(
            out, np.broadcast_to(wanted[:, None], data.shape), err_msg=f"{op} {kind}"
        )


def test_rounds_are_not_written_out(tmp_path):
    """Ten vectorised loops in place of one were half of the time that a kernel took to compile."""
    region = """%r = gpu.all_reduce %v uniform {
    ^bb0(%low: i32, %high: i32):
      %o = arith.ori %low, %high : i32
      gpu.yield %o : i32
    } : (i32) -> (i32)"""
    text = f"gpu.module @k {{{_kernel('f', region, 'i32')}}}"
    loops = (compile_module(text, tmp_path) / "llvm").read_text().count("\nvector.body")
    assert 0 < loops < 20


def test_special_values(module):
    """NaN wins in minimumf and maximumf and loses in minnumf and maxnumf; zeros keep their sign."""
    for items in (1, 64, 70, 256):
        plain = RNG.random((GRID, items), np.float32)
        for at in {0, items - 1}:
            one, every = plain.copy(), np.full_like(plain, np.nan)
            one[:, at] = np.nan
            for op in ("minimumf", "maximumf", "add", "mul"):
                assert np.isnan(_run(module, f"{op}_f32", (items,), one)).all(), op
            for op in ("minnumf", "maxnumf"):
                found = _run(module, f"{op}_f32", (items,), one)
                assert np.isnan(found).all() == (items == 1), op
                if items > 1:
                    np.testing.assert_array_equal(found[:, 0], FLOATS[op].reduce(one, axis=1))
                assert np.isnan(_run(module, f"{op}_f32", (items,), every)).all(), op
        for value in (-np.inf, np.inf, 0.0, -0.0):
            for op in ("add", "minimumf", "maximumf", "minnumf", "maxnumf"):
                found = _run(module, f"{op}_f32", (items,), np.full_like(plain, value))
                np.testing.assert_array_equal(found, value)
                assert (np.signbit(found) == np.signbit(value)).all(), (op, value)


def test_sums_stay_within_the_stated_bound(module):
    """docs/explanation/cpu.md: n / 64 + 9 roundings of each value."""
    for shape in SHAPES:
        n = math.prod(shape)
        data = (RNG.random((GRID, n)) - 0.5).astype(np.float32)
        found = _run(module, "add_f32", shape, data)
        unit = np.finfo(np.float32).eps / 2
        for group in range(GRID):
            bound = (n / 64 + 9) * unit * np.abs(data[group]).astype(np.float64).sum()
            assert abs(found[group, 0] - math.fsum(data[group])) <= bound, shape


def test_the_same_bits_for_every_chip(module, tmp_path):
    """Vectors of other lengths, or none at all, add in the same order."""
    text = f"gpu.module @k {{{_kernel('add_f32', _reduce('%v', '%r'))}}}"
    data = {shape: RNG.random((GRID, math.prod(shape)), np.float32) for shape in SHAPES}
    for chip, level in (("x86-64-v2", 3), ("x86-64-v3", 0)):
        other = module.device.load(compile_module(text, tmp_path / chip, chip=chip, opt_level=level))
        for shape, values in data.items():
            found = [_run(one, "add_f32", shape, values) for one in (module, other)]
            np.testing.assert_array_equal(*found, err_msg=f"{chip} {shape}")
