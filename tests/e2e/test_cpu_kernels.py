"""Kernels on the CPU device, compiled and run for real, in every tier and with several thread counts."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module

WG = "#gpu.address_space<workgroup>"


@pytest.fixture(scope="session")
def runtime(tmp_path_factory) -> Path:
    return build_runtime(tmp_path_factory.mktemp("cpu_runtime"))


@pytest.fixture(scope="session", params=[1, 3], ids=["1thread", "3threads"])
def device(runtime, tmp_path_factory, request) -> Device:
    """A copy of the library has its own settings, which it reads once."""
    copy = tmp_path_factory.mktemp("threads") / f"libcpu{request.param}.so"
    shutil.copy(runtime, copy)
    saved = os.environ.get("GPUBUILD_CPU_THREADS")
    os.environ["GPUBUILD_CPU_THREADS"] = str(request.param)
    loaded = Device(copy)
    loaded._c.gb_settings()
    if saved is None:
        del os.environ["GPUBUILD_CPU_THREADS"]
    else:
        os.environ["GPUBUILD_CPU_THREADS"] = saved
    return loaded


KERNELS = f"""
gpu.module @k {{
  memref.global "private" constant @table : memref<4xf32> = dense<[1.0, 2.0, 4.0, 8.0]>
  memref.global "private" @scratch : memref<32xi32, {WG}> = uninitialized
  gpu.func @vecadd(%a: memref<?xf32>, %b: memref<?xf32>, %c: memref<?xf32>, %n: index) kernel {{
    %i = gpu.global_id x
    %in = arith.cmpi ult, %i, %n : index
    scf.if %in {{
      %x = memref.load %a[%i] : memref<?xf32>
      %y = memref.load %b[%i] : memref<?xf32>
      %s = arith.addf %x, %y : f32
      memref.store %s, %c[%i] : memref<?xf32>
    }}
    gpu.return
  }}
  gpu.func @ids(%out: memref<?x?x?xi32>) kernel {{
    %x = gpu.global_id x
    %y = gpu.global_id y
    %z = gpu.global_id z
    %c100 = arith.constant 100 : index
    %zy = arith.muli %z, %c100 : index
    %zy2 = arith.addi %zy, %y : index
    %zyx = arith.muli %zy2, %c100 : index
    %v = arith.addi %zyx, %x : index
    %i = arith.index_cast %v : index to i32
    memref.store %i, %out[%z, %y, %x] : memref<?x?x?xi32>
    gpu.return
  }}
  gpu.func @matmul(%A: memref<?x?xf32>, %B: memref<?x?xf32>, %C: memref<?x?xf32>)
      workgroup(%sa : memref<8x8xf32, {WG}>, %sb : memref<8x8xf32, {WG}>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %K = memref.dim %A, %c1 : memref<?x?xf32>
    %tx = gpu.thread_id x
    %ty = gpu.thread_id y
    %col = gpu.global_id x
    %row = gpu.global_id y
    %zero = arith.constant 0.0 : f32
    %r = scf.for %k = %c0 to %K step %c8 iter_args(%acc = %zero) -> f32 {{
      %kx = arith.addi %k, %tx : index
      %ky = arith.addi %k, %ty : index
      %a = memref.load %A[%row, %kx] : memref<?x?xf32>
      memref.store %a, %sa[%ty, %tx] : memref<8x8xf32, {WG}>
      %b = memref.load %B[%ky, %col] : memref<?x?xf32>
      memref.store %b, %sb[%ty, %tx] : memref<8x8xf32, {WG}>
      gpu.barrier
      %r2 = scf.for %j = %c0 to %c8 step %c1 iter_args(%acc2 = %acc) -> f32 {{
        %x = memref.load %sa[%ty, %j] : memref<8x8xf32, {WG}>
        %y = memref.load %sb[%j, %tx] : memref<8x8xf32, {WG}>
        %p = arith.mulf %x, %y : f32
        %s = arith.addf %acc2, %p : f32
        scf.yield %s : f32
      }}
      gpu.barrier
      scf.yield %r2 : f32
    }}
    memref.store %r, %C[%row, %col] : memref<?x?xf32>
    gpu.return
  }}
  gpu.func @reverse(%A: memref<?xf32>, %C: memref<?xf32>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %tx = gpu.thread_id x
    %n = gpu.block_dim x
    %g = gpu.global_id x
    %d = gpu.dynamic_shared_memory : memref<?xi8, {WG}>
    %v = memref.view %d[%c0][%n] : memref<?xi8, {WG}> to memref<?xf32, {WG}>
    %a = memref.load %A[%g] : memref<?xf32>
    memref.store %a, %v[%tx] : memref<?xf32, {WG}>
    gpu.barrier
    %n1 = arith.subi %n, %c1 : index
    %q = arith.subi %n1, %tx : index
    %b = memref.load %v[%q] : memref<?xf32, {WG}>
    memref.store %b, %C[%g] : memref<?xf32>
    gpu.return
  }}
  gpu.func @diverge(%C: memref<?xi32>, %D: memref<?xi32>) workgroup(%count : memref<1xi32, {WG}>)
      private(%p : memref<4xi32, #gpu.address_space<private>>) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %tx = gpu.thread_id x
    %g = gpu.global_id x
    %first = arith.cmpi eq, %tx, %c0 : index
    scf.if %first {{ memref.store %i0, %count[%c0] : memref<1xi32, {WG}> }}
    gpu.barrier
    %par = arith.remui %tx, %c2 : index
    %odd = arith.cmpi eq, %par, %c1 : index
    memref.store %i0, %p[%par] : memref<4xi32, #gpu.address_space<private>>
    scf.if %odd {{
      %r = memref.atomic_rmw addi %i1, %count[%c0] : (i32, memref<1xi32, {WG}>) -> i32
    }} else {{
      scf.for %k = %c0 to %tx step %c1 {{
        %o = memref.load %p[%c0] : memref<4xi32, #gpu.address_space<private>>
        %o2 = arith.addi %o, %i1 : i32
        memref.store %o2, %p[%c0] : memref<4xi32, #gpu.address_space<private>>
      }}
    }}
    %res = memref.load %p[%par] : memref<4xi32, #gpu.address_space<private>>
    memref.store %res, %C[%g] : memref<?xi32>
    gpu.barrier
    %f = memref.load %count[%c0] : memref<1xi32, {WG}>
    memref.store %f, %D[%g] : memref<?xi32>
    gpu.return
  }}
  gpu.func @atomics(%i: memref<?xi32>, %f: memref<?xf32>, %m: memref<?xi32>) kernel {{
    %c0 = arith.constant 0 : index
    %g = gpu.global_id x
    %gi = arith.index_cast %g : index to i32
    %one = arith.constant 1 : i32
    %half = arith.constant 0.5 : f32
    %a = memref.atomic_rmw addi %one, %i[%c0] : (i32, memref<?xi32>) -> i32
    %b = memref.atomic_rmw addf %half, %f[%c0] : (f32, memref<?xf32>) -> f32
    %c = memref.atomic_rmw maxs %gi, %m[%c0] : (i32, memref<?xi32>) -> i32
    gpu.return
  }}
  func.func private @swap(%v: i32) -> i32 {{
    %t = gpu.thread_id x
    %s = memref.get_global @scratch : memref<32xi32, {WG}>
    memref.store %v, %s[%t] : memref<32xi32, {WG}>
    gpu.barrier
    %c1 = arith.constant 1 : index
    %n = gpu.block_dim x
    %t1 = arith.addi %t, %c1 : index
    %next = arith.remui %t1, %n : index
    %r = memref.load %s[%next] : memref<32xi32, {WG}>
    gpu.barrier
    return %r : i32
  }}
  gpu.func @calls(%out: memref<?xi32>) kernel {{
    %t = gpu.thread_id x
    %v = arith.index_cast %t : index to i32
    %a = func.call @swap(%v) : (i32) -> i32
    %b = func.call @swap(%a) : (i32) -> i32
    %g = gpu.global_id x
    memref.store %b, %out[%g] : memref<?xi32>
    gpu.return
  }}
  gpu.func @params(%b: i1, %c: i8, %s: i16, %i: i32, %n: index, %h: f16, %bf: bf16, %f: f32, %d: f64,
                   %out: memref<?xf64>) kernel {{
    %bi = arith.extui %b : i1 to i32
    %ci = arith.extsi %c : i8 to i32
    %si = arith.extsi %s : i16 to i32
    %nl = arith.index_cast %n : index to i64
    %v0 = arith.sitofp %bi : i32 to f64
    %v1 = arith.sitofp %ci : i32 to f64
    %v2 = arith.sitofp %si : i32 to f64
    %v3 = arith.sitofp %i : i32 to f64
    %v4 = arith.sitofp %nl : i64 to f64
    %v5 = arith.extf %h : f16 to f64
    %v6 = arith.extf %bf : bf16 to f64
    %v7 = arith.extf %f : f32 to f64
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %c6 = arith.constant 6 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    memref.store %v0, %out[%c0] : memref<?xf64>
    memref.store %v1, %out[%c1] : memref<?xf64>
    memref.store %v2, %out[%c2] : memref<?xf64>
    memref.store %v3, %out[%c3] : memref<?xf64>
    memref.store %v4, %out[%c4] : memref<?xf64>
    memref.store %v5, %out[%c5] : memref<?xf64>
    memref.store %v6, %out[%c6] : memref<?xf64>
    memref.store %v7, %out[%c7] : memref<?xf64>
    memref.store %d, %out[%c8] : memref<?xf64>
    gpu.return
  }}
  gpu.func @lookup(%out: memref<?xf32>) kernel {{
    %t = memref.get_global @table : memref<4xf32>
    %g = gpu.global_id x
    %c4 = arith.constant 4 : index
    %i = arith.remui %g, %c4 : index
    %v = memref.load %t[%i] : memref<4xf32>
    memref.store %v, %out[%g] : memref<?xf32>
    gpu.return
  }}
  gpu.func @clusters(%out: memref<?x4xi32>) kernel {{
    %g = gpu.block_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %a = gpu.cluster_id x
    %b = gpu.cluster_dim x
    %c = gpu.cluster_dim_blocks x
    %d = gpu.cluster_block_id x
    %ai = arith.index_cast %a : index to i32
    %bi = arith.index_cast %b : index to i32
    %ci = arith.index_cast %c : index to i32
    %di = arith.index_cast %d : index to i32
    memref.store %ai, %out[%g, %c0] : memref<?x4xi32>
    memref.store %bi, %out[%g, %c1] : memref<?x4xi32>
    memref.store %ci, %out[%g, %c2] : memref<?x4xi32>
    memref.store %di, %out[%g, %c3] : memref<?x4xi32>
    gpu.return
  }}
  gpu.func @subgroup_ids(%out: memref<?x4xi32>) kernel {{
    %g = gpu.global_id x
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %a = gpu.lane_id
    %b = gpu.subgroup_id : index
    %c = gpu.num_subgroups : index
    %d = gpu.subgroup_size : index
    %ai = arith.index_cast %a : index to i32
    %bi = arith.index_cast %b : index to i32
    %ci = arith.index_cast %c : index to i32
    %di = arith.index_cast %d : index to i32
    memref.store %ai, %out[%g, %c0] : memref<?x4xi32>
    memref.store %bi, %out[%g, %c1] : memref<?x4xi32>
    memref.store %ci, %out[%g, %c2] : memref<?x4xi32>
    memref.store %di, %out[%g, %c3] : memref<?x4xi32>
    gpu.return
  }}
}}
"""


@pytest.fixture(scope="session")
def kernels_out(tmp_path_factory) -> Path:
    return compile_module(KERNELS, tmp_path_factory.mktemp("kernels"))


@pytest.fixture
def kernels(kernels_out, device):
    module = device.load(kernels_out)
    yield module
    module.unload()


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
@pytest.mark.parametrize("block", [(1, 1, 1), (4, 2, 3), (2, 6, 1)])
def test_global_ids_in_three_dimensions(kernels, block, fibers):
    grid = (3, 2, 2)
    shape = tuple(g * b for g, b in zip(grid[::-1], block[::-1], strict=True))
    out = np.full(shape, -1, np.int32)
    kernels.launch("ids", grid, block, out, fibers=fibers)
    z, y, x = np.indices(shape)
    np.testing.assert_array_equal(out, (z * 100 + y) * 100 + x)


def test_tiled_matmul(kernels):
    a = RNG.random((32, 40), np.float32)
    b = RNG.random((40, 24), np.float32)
    c = np.zeros((32, 24), np.float32)
    kernels.launch("matmul", (3, 4), (8, 8), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


@pytest.mark.parametrize("block", [1, 33, 128])
def test_dynamic_workgroup_memory(kernels, block):
    a = RNG.random(block * 5, np.float32)
    c = np.zeros_like(a)
    kernels.launch("reverse", 5, block, a, c, dynamic=4 * block)
    np.testing.assert_array_equal(c, a.reshape(5, block)[:, ::-1].ravel())


@pytest.mark.parametrize("block", [1, 7, 64, 256])
def test_divergence_private_memory_and_workgroup_atomics(kernels, block):
    c, d = np.zeros((2, block * 3), np.int32)
    kernels.launch("diverge", 3, block, c, d)
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


def test_parameters_of_every_width(kernels):
    out = np.zeros(9, np.float64)
    bf16 = np.uint16(0xC020)  # -2.5
    kernels.launch(
        "params", 1, 1, np.uint8(1), np.int8(-5), np.int16(-300), np.int32(1 << 30), np.int64(1 << 40),
        np.float16(1.5), bf16, np.float32(0.1), np.float64(0.2), out,
    )  # fmt: skip
    expected = [1, -5, -300, 1 << 30, 1 << 40, 1.5, -2.5, float(np.float32(0.1)), 0.2]
    np.testing.assert_array_equal(out, expected)


def test_module_constants(kernels):
    out = np.zeros(8, np.float32)
    kernels.launch("lookup", 2, 4, out)
    np.testing.assert_array_equal(out, [1, 2, 4, 8] * 2)


@pytest.mark.parametrize("fibers", [False, True])
def test_cluster_ids(kernels, fibers):
    out = np.zeros((6, 4), np.int32)
    kernels.launch("clusters", 6, 2, out, cluster=3, fibers=fibers)
    block = np.arange(6)
    np.testing.assert_array_equal(out[:, 0], block // 3)
    np.testing.assert_array_equal(out[:, 2], 3)
    np.testing.assert_array_equal(out[:, 3], block % 3)


@pytest.mark.parametrize("fibers", [False, True])
def test_subgroup_ids(kernels, fibers):
    out = np.zeros((80, 4), np.int32)
    kernels.launch("subgroup_ids", 1, 80, out, fibers=fibers)
    i = np.arange(80)
    np.testing.assert_array_equal(out, np.stack([i % 32, i // 32, i * 0 + 3, i * 0 + 32], axis=1))


def test_no_work_items_is_no_work(kernels):
    c = np.zeros(4, np.float32)
    kernels.launch("vecadd", 0, 4, c, c, c, np.int64(4))
    kernels.launch("vecadd", 1, (4, 0), c, c, c, np.int64(4))
    assert not c.any()


# ---- subgroups ----

REDUCTIONS = {
    "add": (np.add, "i32"), "minsi": (np.minimum, "i32"), "maxsi": (np.maximum, "i32"),
    "and": (np.bitwise_and, "i32"), "or": (np.bitwise_or, "i32"), "xor": (np.bitwise_xor, "i32"),
    "mul": (np.multiply, "f32"), "maxnumf": (np.maximum, "f32"), "minnumf": (np.minimum, "f32"),
}  # fmt: skip


def _reduction_module() -> str:
    body = ""
    for name, (_, kind) in REDUCTIONS.items():
        body += f"""
  gpu.func @{name}(%a: memref<?x{kind}>, %out: memref<?x{kind}>) kernel {{
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?x{kind}>
    %r = gpu.all_reduce {name} %v uniform {{}} : ({kind}) -> ({kind})
    memref.store %r, %out[%g] : memref<?x{kind}>
    gpu.return
  }}"""
    for mode in ("xor", "up", "down", "idx"):
        body += f"""
  gpu.func @shuffle_{mode}(%a: memref<?xf32>, %out: memref<?xf32>, %ok: memref<?xi32>,
                          %by: i32, %width: i32) kernel {{
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    %r, %p = gpu.shuffle {mode} %v, %by, %width : f32
    %pi = arith.extui %p : i1 to i32
    memref.store %r, %out[%g] : memref<?xf32>
    memref.store %pi, %ok[%g] : memref<?xi32>
    gpu.return
  }}"""
    body += """
  gpu.func @subgroup_sum(%a: memref<?xf32>, %out: memref<?xf32>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf32>
    %r = gpu.subgroup_reduce add %v : (f32) -> f32
    memref.store %r, %out[%g] : memref<?xf32>
    gpu.return
  }
  gpu.func @cluster_max(%a: memref<?xf16>, %out: memref<?xf16>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf16>
    %r = gpu.subgroup_reduce maxnumf %v cluster(size = 4, stride = 2) : (f16) -> f16
    memref.store %r, %out[%g] : memref<?xf16>
    gpu.return
  }
  gpu.func @wide(%a: memref<?xf64>, %out: memref<?xf64>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf64>
    %r = gpu.all_reduce add %v uniform {} : (f64) -> f64
    memref.store %r, %out[%g] : memref<?xf64>
    gpu.return
  }
  gpu.func @votes(%a: memref<?xi32>, %out: memref<?xi32>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xi32>
    %z = arith.constant 0 : i32
    %p = arith.cmpi ne, %v, %z : i32
    %all = arith.constant -1 : i32
    %b = nvvm.vote.sync ballot %all, %p -> i32
    %s = nvvm.redux.sync umax %v, %all : i32 -> i32
    %r = arith.xori %b, %s : i32
    memref.store %r, %out[%g] : memref<?xi32>
    gpu.return
  }
"""
    return f"gpu.module @k {{{body}}}"


@pytest.fixture(scope="session")
def subgroup_out(tmp_path_factory) -> Path:
    return compile_module(_reduction_module(), tmp_path_factory.mktemp("subgroups"))


@pytest.fixture
def subgroups(subgroup_out, device):
    module = device.load(subgroup_out)
    yield module
    module.unload()


@pytest.mark.parametrize("block", [1, 5, 32, 64, 100, 1024])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_all_reduce(subgroups, name, block):
    operation, kind = REDUCTIONS[name]
    if kind == "i32":
        a = RNG.integers(-1000, 1000, (3, block)).astype(np.int32)
    else:
        a = RNG.uniform(0.9, 1.1, (3, block)).astype(np.float32)
    out = np.zeros(3 * block, a.dtype)
    subgroups.launch(name, 3, block, a.ravel(), out)
    expected = np.repeat(operation.reduce(a, axis=1), block)
    np.testing.assert_allclose(out, expected, rtol=1e-4)


@pytest.mark.parametrize("width", [32, 16])
@pytest.mark.parametrize("by", [1, 5])
@pytest.mark.parametrize("mode", ["xor", "up", "down", "idx"])
def test_shuffles(subgroups, mode, by, width):
    a = np.arange(64, dtype=np.float32)
    out, ok = np.full(64, -1, np.float32), np.zeros(64, np.int32)
    subgroups.launch(f"shuffle_{mode}", 1, 64, a, out, ok, np.int32(by), np.int32(width))
    for i in range(64):
        lane, base = i % 32, i // 32 * 32
        if lane >= width:
            continue  # does not take part
        source = {"xor": lane ^ by, "up": lane - by, "down": lane + by, "idx": by}[mode]
        valid = 0 <= source < width
        assert ok[i] == valid
        if valid:
            assert out[i] == base + source


@pytest.mark.parametrize("block", [1, 5, 64, 77])
def test_subgroup_reduce(subgroups, block):
    """The last subgroup need not be full."""
    a = RNG.random(block, np.float32)
    out = np.zeros_like(a)
    subgroups.launch("subgroup_sum", 1, block, a, out)
    for base in range(0, block, 32):
        part = a[base : base + 32]
        np.testing.assert_allclose(out[base : base + 32], part.sum(), rtol=1e-5)


def test_clustered_subgroup_reduce_of_narrow_values(subgroups):
    a = RNG.integers(-8, 8, 44).astype(np.float16)
    out = np.zeros_like(a)
    subgroups.launch("cluster_max", 1, 44, a, out)
    expected = a.copy()
    for base in range(0, 44, 32):
        for lane in range(min(32, 44 - base)):
            first = lane - lane // 2 % 4 * 2
            expected[base + lane] = max(
                a[base + i] for i in range(first, first + 8, 2) if base + i < 44 and i < 32
            )
    np.testing.assert_array_equal(out, expected)


def test_all_reduce_of_64_bits(subgroups):
    a = RNG.random(96)
    out = np.zeros_like(a)
    subgroups.launch("wide", 1, 96, a, out)
    np.testing.assert_allclose(out, a.sum(), rtol=1e-12)


def test_votes_and_integer_reductions(subgroups):
    a = RNG.integers(0, 3, 64).astype(np.int32)
    out = np.zeros_like(a)
    subgroups.launch("votes", 1, 64, a, out)
    for base in (0, 32):
        part = a[base : base + 32]
        ballot = sum(1 << i for i in range(32) if part[i])
        expected = np.uint32(ballot ^ int(part.max())).astype(np.int32)
        np.testing.assert_array_equal(out[base : base + 32], expected)


# ---- mathematics ----

MATH = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "atanh": np.arctanh, "cbrt": np.cbrt, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "roundeven": np.rint, "absf": np.abs, "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


def _math_module(kind: str) -> str:
    body = "".join(
        f"""
  gpu.func @{name}(%a: memref<?x{kind}>, %out: memref<?x{kind}>) kernel {{
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?x{kind}>
    %r = math.{name} %v : {kind}
    memref.store %r, %out[%g] : memref<?x{kind}>
    gpu.return
  }}"""
        for name in MATH
    )
    return f"gpu.module @m {{{body}}}"


@pytest.mark.parametrize("chip", ["x86-64", "x86-64-v3"])
@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [("f32", np.float32, 1e-5), ("f64", np.float64, 1e-12), ("f16", np.float16, 2e-3)],
)
def test_math_functions(runtime, tmp_path, kind, dtype, tolerance, chip):
    """Kernels are named like C's functions on purpose: they must not stand in for them."""
    out = compile_module(_math_module(kind), tmp_path, chip=chip)
    module = Device(runtime).load(out)
    a = RNG.uniform(0.05, 0.95, 100).astype(dtype)
    for name, function in MATH.items():
        result = np.zeros_like(a)
        module.launch(name, 4, 25, a, result)
        np.testing.assert_allclose(
            result.astype(np.float64),
            function(a.astype(np.float64)),
            rtol=tolerance,
            atol=tolerance / 10,
            err_msg=name,
        )


@pytest.mark.parametrize("chip", ["x86-64", "x86-64-v3"])
def test_rounding_to_16_bits(runtime, tmp_path, chip):
    text = """gpu.module @k {
  gpu.func @narrow(%a: memref<?xf64>, %h: memref<?xf16>, %s: memref<?xf16>,
                   %b: memref<?xbf16>, %w: memref<?xf32>) kernel {
    %g = gpu.global_id x
    %v = memref.load %a[%g] : memref<?xf64>
    %x = arith.truncf %v : f64 to f16
    memref.store %x, %h[%g] : memref<?xf16>
    %f = arith.truncf %v : f64 to f32
    %y = arith.truncf %f : f32 to f16
    memref.store %y, %s[%g] : memref<?xf16>
    %z = arith.truncf %f : f32 to bf16
    memref.store %z, %b[%g] : memref<?xbf16>
    %e = arith.extf %y : f16 to f32
    memref.store %e, %w[%g] : memref<?xf32>
    gpu.return
  }
}"""
    module = Device(runtime).load(compile_module(text, tmp_path, chip=chip))
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        65504,
        65519.99,
        65520,
        6e-8,
        2.98e-8,
        2.9802322387695312e-08,
        6.1e-5,
        1e-30,
    ]
    a = np.concatenate([special, RNG.normal(size=500) * 10.0 ** RNG.integers(-9, 6, 500)])
    # Halfway cases of f16, seen through a double that is a little off: rounding twice would fail.
    a = np.concatenate([a, 1 + 2.0**-11 + np.array([1, -1, 0]) * 2.0**-40])
    h, s, w = np.zeros(len(a), np.float16), np.zeros(len(a), np.float16), np.zeros(len(a), np.float32)
    b = np.zeros(len(a), np.uint16)
    module.launch("narrow", len(a), 1, a, h, s, b, w)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(h.view(np.uint16), a.astype(np.float16).view(np.uint16))
        f = a.astype(np.float32)
        np.testing.assert_array_equal(s.view(np.uint16), f.astype(np.float16).view(np.uint16))
        np.testing.assert_array_equal(w, s.astype(np.float32))
    bits = f.view(np.uint32).astype(np.uint64)
    np.testing.assert_array_equal(b, ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16))


# ---- what ends the program, and what it prints ----

DRIVER = """
import sys
import numpy as np
from pathlib import Path
from e2e.cpu_harness import Device
module = Device(Path(sys.argv[1])).load(Path(sys.argv[2]))
{body}
module.device._c.fflush(None)
"""


def _program(runtime: Path, out: Path, body: str, threads: int = 2) -> subprocess.CompletedProcess:
    environment = {
        **os.environ,
        "GPUBUILD_CPU_THREADS": str(threads),
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    return subprocess.run(
        [sys.executable, "-c", DRIVER.format(body=body), str(runtime), str(out)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


BROKEN = """gpu.module @broken {
  gpu.func @leaves(%n: index) kernel {
    %t = gpu.thread_id x
    %in = arith.cmpi ult, %t, %n : index
    scf.if %in { gpu.barrier }
    gpu.return
  }
  gpu.func @either(%n: index, %out: memref<?xi32>) kernel {
    %t = gpu.thread_id x
    %in = arith.cmpi ult, %t, %n : index
    %c1 = arith.constant 1 : i32
    scf.if %in {
      gpu.barrier
      memref.store %c1, %out[%t] : memref<?xi32>
    } else {
      memref.store %c1, %out[%t] : memref<?xi32>
      gpu.barrier
    }
    gpu.return
  }
  gpu.func @mixed(%n: index, %out: memref<?xi32>) kernel {
    %t = gpu.thread_id x
    %in = arith.cmpi ult, %t, %n : index
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    scf.if %in { gpu.barrier } else {
      %r, %p = gpu.shuffle xor %c1, %c1, %c32 : i32
      memref.store %r, %out[%t] : memref<?xi32>
    }
    gpu.return
  }
  gpu.func @asserts(%n: index) kernel {
    %g = gpu.global_id x
    %ok = arith.cmpi ult, %g, %n : index
    cf.assert %ok, "g is too large"
    gpu.return
  }
  gpu.func @prints(%x: f32) kernel {
    %g = gpu.global_id x
    %h = arith.constant 2.5 : f16
    gpu.printf "item %lld of %f %f\\0A", %g, %x, %h : index, f32, f16
    gpu.return
  }
  gpu.func @fixed() kernel attributes {known_block_size = array<i32: 8, 1, 1>} { gpu.return }
}"""


@pytest.fixture(scope="session")
def broken(tmp_path_factory) -> Path:
    return compile_module(BROKEN, tmp_path_factory.mktemp("broken"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            'module.launch("leaves", 4, 64, np.int64(10))',
            r"in workgroup \(\d, 0, 0\) 10 of 64 work-items wait at gpu\.barrier in @leaves, "
            r"but work-item \(10, 0, 0\) does not reach it",
        ),
        (
            'module.launch("either", 1, 8, np.int64(3), np.zeros(8, np.int32))',
            r"3 of 8 work-items wait at gpu\.barrier in @either, but work-item \(3",
        ),
        (
            'module.launch("mixed", 1, 32, np.int64(3), np.zeros(32, np.int32))',
            r"3 of 32 work-items wait at gpu\.barrier in @mixed, but work-item \(3, 0, 0\)",
        ),
        (
            'module.launch("asserts", 2, 8, np.int64(11))',
            r"assertion failed: g is too large, in workgroup \(1, 0, 0\), work-item \(3, 0, 0\)",
        ),
        ('module.launch("leaves", 1, (1024, 2), np.int64(0))', r"1024 x 2 x 1 has more than 1024 work-items"),
        ('module.launch("leaves", (1 << 31, 1 << 31, 1 << 31), 1, np.int64(0))', r"grid .* is too large"),
        ('module.launch("leaves", 3, 1, np.int64(0), cluster=2)', r"cannot be divided into clusters of 2"),
        ('module.launch("leaves", 1, 1, np.int64(0), np.int64(0))', r"passes 2 parameters, .* kernel has 1"),
        ('module.launch("fixed", 1, 16)', r"compiled for workgroups of 8 x 1 x 1 work-items, not 16"),
    ],
)  # fmt: skip
def test_fatal_messages(runtime, broken, body, message):
    done = _program(runtime, broken, body)
    assert done.returncode == 1, done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert "kernel" in done.stderr


@pytest.mark.parametrize("fibers", [False, True])
def test_printf(runtime, broken, fibers):
    done = _program(
        runtime, broken, f'module.launch("prints", 2, 4, np.float32(0.5), fibers={fibers})', threads=1
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"item {i} of 0.500000 2.500000" for i in range(8)]


def test_launches_from_several_threads(runtime, kernels_out):
    body = """
from concurrent.futures import ThreadPoolExecutor
def work(seed):
    a = np.random.default_rng(seed).random((64, 64), np.float32)
    c = np.zeros((64, 64), np.float32)
    for _ in range(5):
        module.launch("matmul", (8, 8), (8, 8), a, a, c)
        assert np.allclose(c, a @ a, rtol=1e-4)
with ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(8)))
print("done")
"""
    done = _program(runtime, kernels_out, body, threads=3)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


@pytest.mark.parametrize(("elements", "code"), [(1 << 17, 0), (1 << 20, -11)])
def test_private_memory_never_reaches_into_a_neighbours(runtime, tmp_path, elements, code):
    """512 KiB fit, as on GPUs; 4 MiB hit the guard page at once instead of damaging others."""
    text = f"""gpu.module @k {{
  gpu.func @large(%i: index, %j: index, %out: memref<?xi32>) kernel {{
    %t = gpu.thread_id x
    %p = memref.alloca() : memref<{elements}xi32>
    %v = arith.index_cast %t : index to i32
    memref.store %v, %p[%i] : memref<{elements}xi32>
    gpu.barrier
    %r = memref.load %p[%j] : memref<{elements}xi32>
    memref.store %r, %out[%t] : memref<?xi32>
    gpu.return
  }}
}}"""
    body = """
out = np.full(8, -1, np.int32)
module.launch("large", 1, 8, np.int64(5), np.int64(5), out)
assert list(out) == list(range(8))
"""
    done = _program(runtime, compile_module(text, tmp_path), body)
    assert done.returncode == code, (done.returncode, done.stderr)


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
    assert not device.supports("no-such-chip")
