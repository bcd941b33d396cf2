"""Kernels on the CPU device, compiled and run for real, in every tier and with several thread counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import compile_module

RNG = np.random.default_rng(7)


def test_tiers_are_what_the_kernels_need(kernels):
    tiers = {k["name"]: (k["tier"], k["tier_reason"]) for k in kernels.info["kernels"]}
    assert tiers["vecadd"] == ("loop", None)
    assert tiers["atomics"][0] == "loop"
    assert tiers["matmul"] == ("fission", "gpu.barrier")
    assert tiers["reverse"] == ("fission", "gpu.barrier")
    assert tiers["diverge"] == ("fission", "gpu.barrier")
    assert tiers["calls"] == ("fission", "calls @swap, which has gpu.barrier")


@pytest.mark.parametrize("fibers", [False, True])
@pytest.mark.parametrize("block", [1, 3, 64, 1024])
def test_vecadd(kernels, block, fibers):
    n = 1000
    a, b = RNG.random((2, n), np.float32)
    c = np.zeros(n, np.float32)
    kernels.launch("vecadd", -(-n // block), block, a, b, c, np.int64(n), fibers=fibers)
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize("fibers", [False, True])
def test_tiled_matmul(kernels, fibers):
    a = RNG.random((32, 40), np.float32)
    b = RNG.random((40, 24), np.float32)
    c = np.zeros((32, 24), np.float32)
    kernels.launch("matmul", (3, 4), (8, 8), a, b, c, fibers=fibers)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("fibers", [False, True])
@pytest.mark.parametrize("block", [1, 33, 128, 1024])
def test_dynamic_workgroup_memory(kernels, block, fibers):
    a = RNG.random(block * 5, np.float32)
    c = np.zeros_like(a)
    kernels.launch("reverse", 5, block, a, c, dynamic=4 * block, fibers=fibers)
    np.testing.assert_array_equal(c, a.reshape(5, block)[:, ::-1].ravel())


@pytest.mark.parametrize("fibers", [False, True])
@pytest.mark.parametrize("block", [1, 7, 64, 256])
def test_divergence_private_memory_and_workgroup_atomics(kernels, block, fibers):
    c, d = np.zeros((2, block * 3), np.int32)
    kernels.launch("diverge", 3, block, c, d, fibers=fibers)
    t = np.tile(np.arange(block), 3)
    np.testing.assert_array_equal(c, np.where(t % 2 == 0, t, 0))
    np.testing.assert_array_equal(d, block // 2)


@pytest.mark.parametrize("fibers", [False, True])
def test_global_atomics(kernels, fibers):
    i, m = np.zeros((2, 1), np.int32)
    f = np.zeros(1, np.float32)
    kernels.launch("atomics", 50, 100, i, f, m, fibers=fibers)
    assert (i[0], f[0], m[0]) == (5000, 2500.0, 4999)


def test_barriers_in_called_functions(kernels):
    out = np.zeros(64, np.int32)
    kernels.launch("calls", 2, 32, out)
    np.testing.assert_array_equal(out, np.tile((np.arange(32) + 2) % 32, 2))


def test_reductions_in_called_functions(device, tmp_path):
    text = """gpu.module @k {
      func.func private @sum(%v: i64) -> i64 {
        %r = gpu.all_reduce add %v uniform {} : (i64) -> (i64)
        return %r : i64
      }
      gpu.func @f(%out: memref<?xi64>) kernel {
        %t = gpu.thread_id x
        %i = arith.index_cast %t : index to i64
        %a = func.call @sum(%i) : (i64) -> i64
        %b = arith.addi %a, %i : i64
        %c = func.call @sum(%b) : (i64) -> i64
        memref.store %c, %out[%t] : memref<?xi64>
        gpu.return
      }
    }"""
    module = device.load(compile_module(text, tmp_path, located=False, opt_level=0))
    for fibers in (False, True):
        out = np.zeros(70, np.int64)
        module.launch("f", 1, 70, out, fibers=fibers)
        assert (out == 71 * sum(range(70))).all()


def test_parameters_of_every_width(kernels):
    out = np.zeros(9, np.float64)
    bf16 = np.uint16(0xC020)  # -2.5
    kernels.launch(
        "params", 1, 1, np.uint8(1), np.int8(-5), np.int16(-300), np.int32(1 << 30), np.int64(1 << 40),
        np.float16(1.5), bf16, np.float32(0.1), np.float64(0.2), out,
    )  # fmt: skip
    expected = [1, -5, -300, 1 << 30, 1 << 40, 1.5, -2.5, float(np.float32(0.1)), 0.2]
    np.testing.assert_array_equal(out, expected)


def test_no_work_items_is_no_work(kernels):
    c = np.zeros(4, np.float32)
    kernels.launch("vecadd", 0, 4, c, c, c, np.int64(4))
    kernels.launch("vecadd", 1, (4, 0), c, c, c, np.int64(4))
    assert not c.any()


def test_cluster_barrier(device, tmp_path):
    text = """gpu.module @k {
  gpu.func @exchange(%buffer: memref<?xi32>, %out: memref<?xi32>) kernel {
    %g = gpu.global_id x
    %n = gpu.block_dim x
    %gi = arith.index_cast %g : index to i32
    memref.store %gi, %buffer[%g] : memref<?xi32>
    nvvm.cluster.arrive
    nvvm.cluster.wait
    %b = gpu.block_id x
    %c1 = arith.constant 1 : index
    %other = arith.xori %b, %c1 : index
    %base = arith.muli %other, %n : index
    %t = gpu.thread_id x
    %i = arith.addi %base, %t : index
    %v = memref.load %buffer[%i] : memref<?xi32>
    memref.store %v, %out[%g] : memref<?xi32>
    gpu.return
  }
}"""
    module = device.load(compile_module(text, tmp_path))
    buffer, out = np.full((2, 6 * 16), -1, np.int32)
    module.launch("exchange", 6, 16, buffer, out, cluster=2)
    i = np.arange(6 * 16)
    np.testing.assert_array_equal(out, (i // 16 ^ 1) * 16 + i % 16)


def test_supported_chips(device):
    flags = Path("/proc/cpuinfo").read_text()
    assert device.supports("x86-64")
    assert device.supports("x86-64-v3") == (" avx2 " in flags and " fma " in flags)
    assert device.supports("x86-64-v4") == (" avx512vl " in flags)
    assert device.supports("x86-64", "+avx512f") == (" avx512f " in flags)
    assert not device.supports("x86-64", "+no-such-feature")
    # `chip: native` on a virtual machine that hides features of its processor
    without = "-avx512f,-avx512bw,-avx512cd,-avx512dq,-avx512vl"
    assert device.supports("x86-64-v4", without) == device.supports("x86-64-v3")
    assert device.supports("x86-64-v4", "-avx512f") == device.supports("x86-64-v4")
    assert not device.supports("no-such-chip")
