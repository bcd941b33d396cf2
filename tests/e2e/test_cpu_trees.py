"""Trees in workgroup memory, as kernels write them: what is left in memory is right to the bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from e2e.cpu_harness import Device, Module, build_runtime, compile_module

GRID = 2
WG = "#gpu.address_space<workgroup>"
DTYPES = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "i32": np.int32}
RNG = np.random.default_rng(3)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A kernel that halves ``half`` work-items ``rounds`` times over ``size`` elements."""

    name: str
    op: str
    apply: np.ufunc
    half: int
    rounds: int
    size: int
    kind: str = "f32"
    upper_first: bool = False
    waits_first: bool = False

    @property
    def text(self) -> str:
        kind, memory = self.kind, f"memref<{self.size}x{self.kind}, {WG}>"
        operands = "%high, %low" if self.upper_first else "%low, %high"
        before, after = ("gpu.barrier", "") if self.waits_first else ("", "gpu.barrier")
        return f"""
  gpu.func @{self.name}(%a: memref<?x{kind}>, %out: memref<?x{kind}>, %left: memref<?xindex>)
      workgroup(%s : {memory}) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %half = arith.constant {self.half} : index
    %size = arith.constant {self.size} : index
    %rounds = arith.constant {self.rounds} : index
    %t = gpu.thread_id x
    %y = gpu.thread_id y
    %dx = gpu.block_dim x
    %dy = gpu.block_dim y
    %b = gpu.block_id x
    %items = arith.muli %dx, %dy : index
    %all = arith.muli %b, %items : index
    %row = arith.muli %y, %dx : index
    %start = arith.addi %all, %row : index
    %p = arith.addi %start, %t : index
    %v = memref.load %a[%p] : memref<?x{kind}>
    %bottom = arith.cmpi eq, %y, %c0 : index
    scf.if %bottom {{
      scf.for %j = %t to %size step %dx {{
        memref.store %v, %s[%j] : {memory}
      }}
    }}
    gpu.barrier
    %end = scf.for %i = %c0 to %rounds step %c1 iter_args(%n = %half) -> index {{
      {before}
      %in = arith.cmpi ult, %t, %n : index
      scf.if %in {{
        %o = arith.addi %t, %n : index
        %low = memref.load %s[%t] : {memory}
        %high = memref.load %s[%o] : {memory}
        %z = {self.op} {operands} : {kind}
        memref.store %z, %s[%t] : {memory}
      }}
      {after}
      %next = arith.shrui %n, %c1 : index
      scf.yield %next : index
    }}
    gpu.barrier
    %r = memref.load %s[%t] : {memory}
    memref.store %r, %out[%p] : memref<?x{kind}>
    memref.store %end, %left[%b] : memref<?xindex>
    gpu.return
  }}"""

    def evaluate(self, values: np.ndarray) -> np.ndarray:
        """What the elements of a workgroup of ``values`` in a row are in the end; they repeat before."""
        found, n = np.resize(values, self.size), self.half
        for _ in range(self.rounds):
            active = min(n, values.size)
            low, high = found[:active], found[n : n + active]
            found[:active] = self.apply(high, low) if self.upper_first else self.apply(low, high)
            n //= 2
        return found[: values.size]


TREES = [
    Tree(name="sum", op="arith.addf", apply=np.add, half=128, rounds=8, size=256),
    Tree(name="deep", op="arith.addf", apply=np.add, half=256, rounds=9, size=600, kind="f64"),
    Tree(name="bytes", op="arith.maxsi", apply=np.maximum, half=512, rounds=10, size=1024, kind="i8"),
    Tree(name="stops", op="arith.mulf", apply=np.multiply, half=16, rounds=3, size=256, upper_first=True),
    Tree(name="goes_on", op="arith.addi", apply=np.add, half=64, rounds=9, size=256, kind="i32"),
    Tree(name="before", op="arith.minimumf", apply=np.minimum, half=64, rounds=7, size=128, waits_first=True),
    Tree(name="small", op="arith.xori", apply=np.bitwise_xor, half=2, rounds=2, size=64, kind="i32"),
]  # fmt: skip


@pytest.fixture(scope="module")
def module(tmp_path_factory) -> Module:
    folder = tmp_path_factory.mktemp("trees")
    out = compile_module("gpu.module @k {" + "".join(tree.text for tree in TREES) + "}", folder)
    loaded = Device(build_runtime(folder)).load(out)
    assert {k["tier"] for k in loaded.info["kernels"]} == {"fission"}
    return loaded


def _run(module: Module, tree: Tree, shape: tuple[int, ...], data: np.ndarray, *, fibers: bool) -> np.ndarray:
    out, left = np.zeros_like(data), np.full(GRID, -1)
    module.launch(tree.name, GRID, shape, data.reshape(-1), out.reshape(-1), left, fibers=fibers)
    assert (left == tree.half >> tree.rounds).all()
    return out


def _data(tree: Tree, items: int) -> np.ndarray:
    if tree.kind.startswith("f"):
        return (RNG.random((GRID, items)) + 0.5).astype(DTYPES[tree.kind])
    whole = np.iinfo(DTYPES[tree.kind])
    return RNG.integers(whole.min, whole.max, (GRID, items), DTYPES[tree.kind])


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.name)
def test_what_is_left_in_memory(module, tree):
    """In workgroups of all that the kernel counts on, and of less."""
    for items in {1, 7, 33, max(1, tree.half - 1), tree.half, 2 * tree.half, min(tree.size, 1024)}:
        data = _data(tree, items)
        with np.errstate(over="ignore"):
            wanted = np.stack([tree.evaluate(values) for values in data])
        for fibers in (False, True):
            found = _run(module, tree, (items,), data, fibers=fibers)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{items} fibers={fibers}")


def test_workgroups_of_several_rows(module):
    """A maximum may be taken twice."""
    tree = next(t for t in TREES if t.name == "bytes")
    data = _data(tree, 1024)
    for fibers in (False, True):
        found = _run(module, tree, (512, 2), data, fibers=fibers)
        for values, got in zip(data, found, strict=True):
            np.testing.assert_array_equal(got, np.tile(tree.evaluate(values[:512]), 2))
