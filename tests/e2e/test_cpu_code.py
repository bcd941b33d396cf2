"""What the CPU compiler makes faster must stay right: atomics, exchanged loops, vectorised mathematics."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module

WG = "#gpu.address_space<workgroup>"
ATOMICS = {  # memref.atomic_rmw's kind → (type, operand, what NumPy makes of it)
    "addi": ("i32", "3", np.add),
    "andi": ("i32", "6", np.bitwise_and),
    "ori": ("i32", "9", np.bitwise_or),
    "xori": ("i32", "5", np.bitwise_xor),
    "maxs": ("i32", "-2", np.maximum),
    "mins": ("i32", "-2", np.minimum),
    "maxu": ("i32", "7", lambda a, b: np.maximum(a.view(np.uint32), b.view(np.uint32)).view(np.int32)),
    "minu": ("i32", "7", lambda a, b: np.minimum(a.view(np.uint32), b.view(np.uint32)).view(np.int32)),
    "assign": ("i32", "4", lambda a, b: b),
    "addf": ("f32", "1.5", np.add),
    "mulf": ("f32", "1.5", np.multiply),
    "maximumf": ("f32", "-0.5", np.maximum),
    "minimumf": ("f32", "-0.5", np.minimum),
    "maxnumf": ("f32", "-0.5", np.fmax),
    "minnumf": ("f32", "-0.5", np.fmin),
}


def atomic_kernel(kind: str) -> str:
    """Stores what was in workgroup memory before an atomic operation of each work-item, and after."""
    type_, operand, _ = ATOMICS[kind]
    shared = f"memref<64x{type_}, {WG}>"
    return f"""
  gpu.func @{kind}(%a: memref<?x{type_}>, %old: memref<?x{type_}>, %new: memref<?x{type_}>)
      workgroup(%s : {shared}) kernel {{
    %t = gpu.thread_id x
    %v = arith.constant {operand} : {type_}
    %x = memref.load %a[%t] : memref<?x{type_}>
    memref.store %x, %s[%t] : {shared}
    %o = memref.atomic_rmw {kind} %v, %s[%t] : ({type_}, {shared}) -> {type_}
    memref.store %o, %old[%t] : memref<?x{type_}>
    gpu.barrier
    %n = memref.load %s[%t] : {shared}
    memref.store %n, %new[%t] : memref<?x{type_}>
    gpu.return
  }}"""


MATH = {
    **{name: getattr(np, name) for name in ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p")},
    **{name: getattr(np, name) for name in ("tanh", "sinh", "cosh")},
}
EXPONENTIALS = ("exp", "exp2")  # these compute in f32


def math_kernel(name: str) -> str:
    return f"""
  gpu.func @{name}(%a: memref<?xf32>, %out: memref<?xf32>) kernel {{
    %i = gpu.global_id x
    %x = memref.load %a[%i] : memref<?xf32>
    %y = math.{name} %x : f32
    memref.store %y, %out[%i] : memref<?xf32>
    gpu.return
  }}"""


KERNELS = f"gpu.module @k {{{''.join((*map(atomic_kernel, ATOMICS), *map(math_kernel, MATH)))}\n}}"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_module(KERNELS, tmp_path_factory.mktemp("code"))


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory, out: Path):
    return Device(build_runtime(tmp_path_factory.mktemp("runtime"))).load(out)


@pytest.mark.parametrize("kind", ATOMICS)
def test_workgroup_atomics(module, kind: str) -> None:
    type_, operand, combine = ATOMICS[kind]
    dtype = np.int32 if type_ == "i32" else np.float32
    values = np.arange(-32, 32).astype(dtype)
    operands = np.full(64, float(operand)).astype(dtype)
    for fibers in (False, True):
        old, new = np.zeros_like(values), np.zeros_like(values)
        module.launch(kind, 1, 64, values, old, new, fibers=fibers)
        np.testing.assert_array_equal(old, values)
        np.testing.assert_array_equal(new, combine(values, operands))


def test_no_workgroup_atomic_is_left(out: Path) -> None:
    """But for products: they are loops of compare-and-exchange, which become plain, too."""
    text = (out / "llvm").read_text()
    assert "atomicrmw" not in text
    assert "cmpxchg" not in text


def errors(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """In units in the last place of f32; infinite where special values differ."""
    rounded = exact.astype(np.float32)
    same = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    unit = np.spacing(np.maximum(np.abs(rounded), np.finfo(np.float32).tiny)).astype(np.float64)
    special = ~np.isfinite(rounded) | ~np.isfinite(result)
    return np.where(same, 0, np.where(special, np.inf, np.abs(result - exact) / unit))


@pytest.mark.parametrize("chip", ["x86-64-v2", "x86-64-v3"])
def test_mathematics_of_f32(module, tmp_path: Path, chip: str) -> None:
    """Some of every exponent and sign, infinities, NaN, zeros, denormals, and bounds of the ranges."""
    if not module.device.supports(chip):
        pytest.skip(f"this processor is no {chip}")
    if chip != "x86-64-v3":
        text = f"gpu.module @k {{{''.join(map(math_kernel, MATH))}}}"
        module = module.device.load(compile_module(text, tmp_path, chip=chip))
    values = np.arange(0, 1 << 32, 15013, dtype=np.uint32).view(np.float32)
    edges = np.float32([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 88.72283, 88.72284, -103.97, -104, -103])
    near = np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(-np.inf))
    values = np.concatenate([values, edges, *near])
    values = np.resize(values, -(-len(values) // 256) * 256)
    with np.errstate(all="ignore"):
        for name, function in MATH.items():
            result = np.zeros_like(values)
            module.launch(name, len(values) // 256, 256, values, result)
            error = errors(result, function(values.astype(np.float64)))
            limit = (0.94 if chip == "x86-64-v3" else 1.21) if name in EXPONENTIALS else 0.51
            if chip == "x86-64-v2" and name in ("log", "log2"):
                limit = 1.0  # of the C library
            worst = error.argmax()
            assert error[worst] <= limit, (name, values[worst], result[worst])
            assert (
                np.signbit(result[values == 0]).tolist() == np.signbit(function(values[values == 0])).tolist()
            )


def test_mathematics_is_vectorised(out: Path) -> None:
    """Eight values at a time, without a call."""
    text = (out / "asm").read_text()
    assert "expf" not in text
    assert "vcvtps2pd" in text  # of the logarithms
    assert text.count("vfmadd") > 100
