"""What the work-items of a subgroup do together on the CPU device, and reductions of workgroups."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import compile_module

RNG = np.random.default_rng(7)
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
