"""Results that are larger than caches: stores that go past them, in kernels and where they may not be used.

The tests run with GPUBUILD_CPU_CACHE_BYTES set (conftest.py), so that a few KiB are large already.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module, functions_of
from variants import few

ROWS = "memref<?x?xf64, strided<[?, 1], offset: ?>>"
KERNELS = f"""
gpu.module @k {{
  gpu.func @add(%a: memref<?xf32>, %b: memref<?xf32>, %out: memref<?xf32>, %n: index) kernel {{
    %i = gpu.global_id x
    %in = arith.cmpi ult, %i, %n : index
    scf.if %in {{
      %x = memref.load %a[%i] : memref<?xf32>
      %y = memref.load %b[%i] : memref<?xf32>
      %z = arith.addf %x, %y : f32
      memref.store %z, %out[%i] : memref<?xf32>
    }}
    gpu.return
  }}
  gpu.func @rows(%a: {ROWS}, %out: {ROWS}) kernel {{
    %i = gpu.global_id x
    %j = gpu.global_id y
    %x = memref.load %a[%j, %i] : {ROWS}
    %z = arith.addf %x, %x : f64
    memref.store %z, %out[%j, %i] : {ROWS}
    gpu.return
  }}
  gpu.func @known(%a: memref<512x640xi8>, %out: memref<512x640xi8>) kernel
      attributes {{known_block_size = array<i32: 32, 4, 1>}} {{
    %c32 = arith.constant 32 : index
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %first = arith.muli %b, %c32 : index
    %i = arith.addi %first, %t : index
    %j = gpu.global_id y
    %x = memref.load %a[%j, %i] : memref<512x640xi8>
    %z = arith.addi %x, %x : i8
    memref.store %z, %out[%j, %i] : memref<512x640xi8>
    gpu.return
  }}
}}
"""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_module(KERNELS, tmp_path_factory.mktemp("nontemporal"))


@pytest.fixture(scope="module")
def module(out: Path) -> Module:
    assert int(os.environ["GPUBUILD_CPU_CACHE_BYTES"]) < 1 << 15
    return Device(build_runtime(out)).load(out)


@pytest.mark.parametrize(("number", "vector"), [(0, "<8 x float>"), (1, "<4 x double>"), (2, "<32 x i8>")])
def test_only_the_entry_for_large_results_has_them(out: Path, number: int, vector: str) -> None:
    found = functions_of(out)
    large = found.pop(f"gpubuild.run.{number}.large")
    assert re.search(rf"store {vector} .*, align 16,.* !nontemporal", large)
    assert large.rstrip().splitlines()[-2:] == ["  ret void", "}"]
    assert "@llvm.x86.sse.sfence()" in large
    assert not any("!nontemporal" in text for name, text in found.items() if not name.endswith(".large"))
    assert "vmovnt" in (out / "asm").read_text()


def test_indices_of_many_equal_terms_take_no_time(tmp_path: Path) -> None:
    """A value that is added to itself forty times has a million million ways through its terms."""
    double = "".join(f"%d{n + 1} = arith.addi %d{n}, %d{n} : index\n" for n in range(40))
    text = f"""gpu.module @k {{ gpu.func @f(%a: memref<?xf32>, %out: memref<?xf32>, %d0: index) kernel {{
      %i = gpu.global_id x
      %x = memref.load %a[%i] : memref<?xf32>
      {double}
      %p = arith.addi %d40, %i : index
      memref.store %x, %out[%p] : memref<?xf32>
      gpu.return
    }} }}"""
    assert (compile_module(text, tmp_path) / "object").exists()


def piece(count: int, kind: type, shift: int) -> np.ndarray:
    """Noise whose address is ``shift`` elements past a multiple of 64 bytes."""
    room = np.zeros(count + 128, kind)
    start = -room.ctypes.data % 64 // room.itemsize + shift
    found = room[start : start + count]
    found[...] = np.random.default_rng(count + shift).integers(0, 50, count)
    return found


@pytest.mark.parametrize("shift", [0, 1, 4, 15])
@pytest.mark.parametrize("block", [256, 100, 33])
@pytest.mark.parametrize("n", [100_000, 4096, 1000, 1, 0])
def test_sums(module: Module, shift: int, block: int, n: int) -> None:
    a, b, out = (piece(100_000, np.float32, by) for by in (3, 0, shift))
    expected = out.copy()
    expected[:n] = a[:n] + b[:n]
    module.launch("add", -(-100_000 // block), block, a, b, out, n)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("width", [256, 250])
@pytest.mark.parametrize("stride", [256, 258, 257])
@pytest.mark.parametrize("shift", [0, 2, 3])
def test_rows_with_gaps(module: Module, width: int, stride: int, shift: int) -> None:
    a = piece(64 * stride, np.float64, 1).reshape(64, stride)[:, :width]
    room = piece(64 * stride, np.float64, shift).reshape(64, stride)
    kept = room[:, width:].copy()
    module.launch("rows", (width // 2, 16), (2, 4), a, room[:, :width])
    assert np.array_equal(room[:, :width], 2 * a)
    assert np.array_equal(room[:, width:], kept)


def test_memory_that_is_shared_takes_another_entry(module: Module) -> None:
    data = piece(100_000, np.float32, 0)
    expected = data[:90_000] * 2
    module.launch("add", 90_000 // 100, 100, data, data, data, 90_000)
    assert np.array_equal(data[:90_000], expected)


def test_a_known_size_of_workgroups(module: Module) -> None:
    a = piece(512 * 640, np.int8, 5).reshape(512, 640)
    out = piece(512 * 640, np.int8, 16).reshape(512, 640)
    module.launch("known", (20, 128), (32, 4), a, out)
    assert np.array_equal(out, 2 * a)


@pytest.mark.parametrize("place", few(["%p, %k", "%k, %p"]))
def test_values_of_many_equal_terms_take_no_time(tmp_path: Path, place: str) -> None:
    """Forty sums of a value and itself, or conditions of two that share one, have 2⁴⁰ ways through them."""
    sums = "".join(f"%d{n + 1} = arith.addi %d{n}, %d{n} : index\n" for n in range(40))
    checks = "".join(
        f"""%b{n} = arith.cmpi ult, %i, %n{n} : index
            %l{n} = arith.andi %c{n}, %b{n} : i1
            %r{n} = arith.andi %l{n}, %c{n} : i1
            %n{n + 1} = arith.addi %n{n}, %one : index
            %c{n + 1} = arith.andi %r{n}, %l{n} : i1\n"""
        for n in range(40)
    )
    text = f"""gpu.module @k {{ gpu.func @f(%a: memref<?x?xf32>, %out: memref<?xf32>, %n0: index) kernel {{
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %none = arith.constant 0.0 : f32
      %d0 = gpu.thread_id x
      %i = gpu.global_id x
      %c0 = arith.cmpi ult, %i, %n0 : index
      {sums}{checks}
      %p = arith.addi %d40, %i : index
      scf.if %c40 {{
        %sum = scf.for %k = %zero to %n0 step %one iter_args(%s = %none) -> f32 {{
          %v = memref.load %a[{place}] : memref<?x?xf32>
          %w = memref.load %a[%k, %i] : memref<?x?xf32>
          %x = arith.addf %v, %w : f32
          %t = arith.addf %s, %x : f32
          scf.yield %t : f32
        }}
        memref.store %sum, %out[%i] : memref<?xf32>
      }}
      gpu.return
    }} }}"""
    assert (compile_module(text, tmp_path, opt_level=0) / "object").exists()
