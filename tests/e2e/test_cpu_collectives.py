"""Collectives as vector code: no work-item of a workgroup is computed alone, whatever its size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from e2e.cpu_harness import compile_module, functions_of
from kernels.place import PLACE_IN_GRID

COLLECTIVES = {
    "all_reduce": "%r = gpu.all_reduce add %v uniform {} : (f32) -> f32",
    "subgroup_reduce": "%r = gpu.subgroup_reduce add %v : (f32) -> f32",
    "xor": "%r, %p = gpu.shuffle xor %v, %five, %all : f32",
    "rotate": "%r, %p = gpu.rotate %v, 3, 32 : f32",
    "first": "%r = gpu.subgroup_broadcast %v, first_active_lane : f32",
    # in a loop whose length only the launch tells, from each iteration to the next
    "loop": """%r = scf.for %k = %c0 to %turns step %c1 iter_args(%u = %v) -> (f32) {
      %w, %p = gpu.shuffle up %u, %one, %all : f32
      scf.yield %w : f32
    }""",
}
KERNEL = """
  gpu.func @{name}(%A: memref<?xf32>, %turns: index) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
{place}
    %one = arith.constant 1 : i32
    %five = arith.constant 5 : i32
    %all = arith.constant 32 : i32
    %v = memref.load %A[%g] : memref<?xf32>
    {body}
    memref.store %r, %A[%g] : memref<?xf32>
    gpu.return
  }}"""
MATRICES = """
  gpu.func @mma(%A: memref<16x16xf16>, %B: memref<16x16xf16>, %C: memref<16x16xf32>) kernel {
    %c0 = arith.constant 0 : index
    %a = gpu.subgroup_mma_load_matrix %A[%c0, %c0] {leadDimension = 16 : index}
      : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "AOp">
    %b = gpu.subgroup_mma_load_matrix %B[%c0, %c0] {leadDimension = 16 : index}
      : memref<16x16xf16> -> !gpu.mma_matrix<16x16xf16, "BOp">
    %c = gpu.subgroup_mma_load_matrix %C[%c0, %c0] {leadDimension = 16 : index}
      : memref<16x16xf32> -> !gpu.mma_matrix<16x16xf32, "COp">
    %d = gpu.subgroup_mma_compute %a, %b, %c
      : !gpu.mma_matrix<16x16xf16, "AOp">, !gpu.mma_matrix<16x16xf16, "BOp">
        -> !gpu.mma_matrix<16x16xf32, "COp">
    gpu.subgroup_mma_store_matrix %d, %C[%c0, %c0] {leadDimension = 16 : index}
      : !gpu.mma_matrix<16x16xf32, "COp">, memref<16x16xf32>
    gpu.return
  }"""
NAMES = [*COLLECTIVES, "mma"]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kernels = "".join(
        KERNEL.format(name=name, body=body, place=PLACE_IN_GRID) for name, body in COLLECTIVES.items()
    )
    text = f"gpu.module @k {{{kernels}{MATRICES}}}"
    return compile_module(text, tmp_path_factory.mktemp("collectives"), opt_level=2)


@pytest.mark.parametrize("name", NAMES)
def test_vectors_change_places(out: Path, name: str) -> None:
    """What is left of single elements are the rests of loops: loads and stores come in fours at least."""
    (tier,) = {k["tier"] for k in json.loads((out / "info").read_text())["kernels"] if k["name"] == name}
    assert tier == "fission"
    code = functions_of(out)
    run = f"gpubuild.run.{NAMES.index(name)}"  # of whole workgroups, for any arguments
    body = code.get(f"{run}.any") or code[run]
    assert "shufflevector" in body
    assert not re.search(r"call [^(\n]*@(?!llvm\.)", body)  # of the runtime, say
    element = "half" if name == "mma" else "float"
    assert re.search(rf"load <(?:4|8|16|32) x (?:{element}|i32)>", body)
    if "reduce" in name or name == "mma":
        assert re.search(r"= (?:fadd|fmul|fcmp|tail call|call)[^\n]* <(?:4|8|16|32) x float>", body)
