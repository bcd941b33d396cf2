"""Minimum and maximum: -0.0 is less than 0.0, and NaN is what comes out if one comes in."""

from __future__ import annotations

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module

NUMBERS = [0.0, -0.0, 1.0, -2.0, np.nan, -np.inf]
OPS = ["minimumf", "maximumf"]
CONSTANTS = [0.0, -0.0, 1.0]


def _kernels(op: str) -> str:
    text = f"""
  gpu.func @{op}(%A: memref<?xf32>, %B: memref<?xf32>, %C: memref<?xf32>) kernel {{
    %i = gpu.global_id x
    %a = memref.load %A[%i] : memref<?xf32>
    %b = memref.load %B[%i] : memref<?xf32>
    %r = arith.{op} %a, %b : f32
    memref.store %r, %C[%i] : memref<?xf32>
    gpu.return
  }}"""
    for number, constant in enumerate(CONSTANTS):
        for side, operands in enumerate(("%a, %c", "%c, %a")):
            text += f"""
  gpu.func @{op}_{number}_{side}(%A: memref<?xf32>, %C: memref<?xf32>) kernel {{
    %i = gpu.global_id x
    %c = arith.constant dense<{constant}> : vector<2xf32>
    %x = memref.load %A[%i] : memref<?xf32>
    %a = vector.broadcast %x : f32 to vector<2xf32>
    %r = arith.{op} {operands} : vector<2xf32>
    %e = vector.extract %r[1] : f32 from vector<2xf32>
    memref.store %e, %C[%i] : memref<?xf32>
    gpu.return
  }}"""
    return text


def wanted(op: str, left: float, right: float) -> float:
    if np.isnan(left) or np.isnan(right):
        return np.nan
    first, second = sorted((left, right), key=lambda number: (number, np.copysign(1, number)))
    return first if op == "minimumf" else second


def bits(numbers: object) -> np.ndarray:
    array = np.array(numbers, np.float32)
    return np.where(np.isnan(array), 0x7FC00000, array.view(np.int32))


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Module:
    folder = tmp_path_factory.mktemp("zeros")
    out = compile_module(f"gpu.module @k {{{''.join(map(_kernels, OPS))}\n}}", folder / "k", opt_level=0)
    return Device(build_runtime(folder)).load(out)


@pytest.mark.parametrize("op", OPS)
def test_pairs_and_constants(module: Module, op: str) -> None:
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    given = [np.array(part, np.float32) for part in zip(*pairs, strict=True)]
    found = np.zeros(len(pairs), np.float32)
    module.launch(op, 1, len(pairs), *given, found)
    assert list(bits(found)) == list(bits([wanted(op, *pair) for pair in pairs]))
    for number, constant in enumerate(CONSTANTS):
        for side in range(2):
            found = np.zeros(len(NUMBERS), np.float32)
            module.launch(f"{op}_{number}_{side}", 1, len(NUMBERS), np.array(NUMBERS, np.float32), found)
            assert list(bits(found)) == list(bits([wanted(op, n, constant) for n in NUMBERS])), constant
