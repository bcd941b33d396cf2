"""What a launch in place captures, in every type, and what the host says about devices and its own memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from e2e.command import build_project, run_on_cpu

SHARED, PRIVATE = "#gpu.address_space<workgroup>", "#gpu.address_space<private>"
ODD = "memref<?xf32, strided<[2], offset: 1>>"
SCALARS = {  # name, type: value
    ("s8", "i8"): -7, ("s16", "i16"): -300, ("h", "f16"): 0.5, ("bf", "bf16"): 0.25, ("d", "f64"): 0.125,
    ("n", "index"): 10000, ("fl", "f32"): 0.0625, ("wide", "i128"): 5, ("vec", "vector<3xf32>"): 7,
    ("cx", "complex<f64>"): 3.5,
}  # fmt: skip
CONSTANTS = {
    "vec": "arith.constant dense<[1.0, 2.0, 4.0]> : vector<3xf32>",
    "cx": "complex.constant [0.5 : f64, 3.0 : f64] : complex<f64>",
}
TO_F32 = {
    "i8": "%f_{0} = arith.sitofp %{0} : i8 to f32",
    "i16": "%f_{0} = arith.sitofp %{0} : i16 to f32",
    "f16": "%f_{0} = arith.extf %{0} : f16 to f32",
    "bf16": "%f_{0} = arith.extf %{0} : bf16 to f32",
    "f64": "%f_{0} = arith.truncf %{0} : f64 to f32",
    "f32": "%f_{0} = arith.addf %{0}, %zero : f32",
    "i128": "%i_{0} = arith.trunci %{0} : i128 to i64\n      %f_{0} = arith.sitofp %i_{0} : i64 to f32",
    "vector<3xf32>": "%f_{0} = vector.reduction <add>, %{0} : vector<3xf32> into f32",
    "complex<f64>": """%re_{0} = complex.re %{0} : complex<f64>
      %im_{0} = complex.im %{0} : complex<f64>
      %d_{0} = arith.addf %re_{0}, %im_{0} : f64
      %f_{0} = arith.truncf %d_{0} : f64 to f32""",
    "index": "%i_{0} = arith.index_cast %{0} : index to i64\n      %f_{0} = arith.sitofp %i_{0} : i64 to f32",
}


def program() -> str:
    """Work-item t reads its neighbour 7 - t through dynamic and static workgroup memory."""
    parameters = "".join(f", %{name}: {kind}" for name, kind in SCALARS)
    constants = "\n".join(
        f"    %{name} = {CONSTANTS.get(name, f'arith.constant {value} : {kind}')}"
        for (name, kind), value in SCALARS.items()
    )
    sums, last = [], "%s"
    for name, kind in SCALARS:
        sums += [TO_F32[kind].format(name), f"%sum_{name} = arith.addf {last}, %f_{name} : f32"]
        last = f"%sum_{name}"

    def call(positive: str) -> str:
        names, kinds = ", ".join(f"%{name}" for name, _ in SCALARS), ", ".join(kind for _, kind in SCALARS)
        return (
            f"call @fill(%out_any, %x, %z, {positive}, {names})"
            f" : (memref<*xf32>, {ODD}, memref<f32>, i1, {kinds}) -> ()"
        )

    added = "\n      ".join(sums)
    return f"""
func.func private @printMemrefF32(memref<*xf32>)
func.func @fill(%any: memref<*xf32>, %x: {ODD}, %z: memref<f32>, %b: i1{parameters}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %bytes = arith.constant 64 : i32
  %out = memref.cast %any : memref<*xf32> to memref<8xf32>
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%t, %ty, %tz) in (%dx = %c8, %dy = %c1, %dz = %c1) dynamic_shared_memory_size %bytes
      workgroup(%w : memref<8xf32, {SHARED}>) private(%p : memref<2xf32, {PRIVATE}>) {{
      %zero = arith.constant 0.0 : f32
      %c7 = arith.constant 7 : index
      %all = gpu.dynamic_shared_memory : memref<?xi8, {SHARED}>
      %v = memref.view %all[%c0][] : memref<?xi8, {SHARED}> to memref<8xf32, {SHARED}>
      %own = memref.load %x[%t] : {ODD}
      memref.store %own, %v[%t] : memref<8xf32, {SHARED}>
      memref.store %own, %w[%t] : memref<8xf32, {SHARED}>
      gpu.barrier
      %r = arith.subi %c7, %t : index
      %y = memref.load %v[%r] : memref<8xf32, {SHARED}>
      %y2 = memref.load %w[%r] : memref<8xf32, {SHARED}>
      memref.store %y2, %p[%c1] : memref<2xf32, {PRIVATE}>
      %y3 = memref.load %p[%c1] : memref<2xf32, {PRIVATE}>
      %base = memref.load %z[] : memref<f32>
      %s0 = arith.addf %y, %base : f32
      %s = arith.addf %s0, %y3 : f32
      {added}
      %minus = arith.negf {last} : f32
      %result = arith.select %b, {last}, %minus : f32
      memref.store %result, %out[%t] : memref<8xf32>
      gpu.terminator
  }}
  return
}}
func.func @main() {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %c17 = arith.constant 17 : index
    %device = arith.constant 0 : i32
    gpu.set_default_device %device
    %one = memref.alloc(%c1) : memref<?xf32>
    %thousand = arith.constant 1000.0 : f32
    memref.store %thousand, %one[%c0] : memref<?xf32>
    %m = memref.realloc %one(%c17) : memref<?xf32> to memref<?xf32>
    %z = memref.alloc() : memref<f32>
    %kept = memref.load %m[%c0] : memref<?xf32>
    memref.store %kept, %z[] : memref<f32>
    %out = memref.alloc() : memref<8xf32>
    scf.for %i = %c0 to %c17 step %c1 {{
      %k = arith.index_cast %i : index to i32
      %f = arith.sitofp %k : i32 to f32
      memref.store %f, %m[%i] : memref<?xf32>
    }}
    %m_any = memref.cast %m : memref<?xf32> to memref<*xf32>
    %z_any = memref.cast %z : memref<f32> to memref<*xf32>
    %out_any = memref.cast %out : memref<8xf32> to memref<*xf32>
    gpu.host_register %m_any : memref<*xf32>
    gpu.host_register %z_any : memref<*xf32>
    gpu.host_register %out_any : memref<*xf32>
    %odd = memref.subview %m[1] [8] [2] : memref<?xf32> to memref<8xf32, strided<[2], offset: 1>>
    %x = memref.cast %odd : memref<8xf32, strided<[2], offset: 1>> to {ODD}
    %yes = arith.constant true
    %no = arith.constant false
{constants}
    {call("%yes")}
    call @printMemrefF32(%out_any) : (memref<*xf32>) -> ()
    {call("%no")}
    call @printMemrefF32(%out_any) : (memref<*xf32>) -> ()
    gpu.host_unregister %m_any : memref<*xf32>
    gpu.host_unregister %z_any : memref<*xf32>
    gpu.host_unregister %out_any : memref<*xf32>
    return
}}
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    yaml = "version: 1\ntargets: {cpu: {}}\nprograms: {app: {sources: [app.mlir]}}\n"
    return build_project(folder, yaml, {"app.mlir": program()}) / "app/app"


def test_what_the_host_says_and_kernels_capture(built: Path) -> None:
    values = np.arange(17, dtype=np.float64)[1::2][::-1]
    want = 2 * values + 1000 + sum(SCALARS.values())
    outcome = run_on_cpu(built)
    rows = [line.strip("[] ").split(",") for line in outcome.out.splitlines() if line.startswith("[")]
    assert outcome.code == 0, outcome.err
    assert [[float(v) for v in row] for row in rows] == [
        [float(f"{sign * v:.6g}") for v in want] for sign in (1, -1)
    ]
