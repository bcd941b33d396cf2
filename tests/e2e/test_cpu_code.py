"""The code of workgroups: vectors where the size is known, sums in registers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module, functions_of
from variants import few

from gpubuild.engine.backends.cpu.lower.abi import LARGEST_VECTORISED_BLOCK


@pytest.mark.parametrize("width", few([8, 64, 16, 32], 2))
def test_workgroups_of_a_known_width_are_vectors(tmp_path: Path, width: int) -> None:
    """LLVM unrolls short loops before it makes vectors; what it knows of memory must survive that."""
    text = f"""gpu.module @k {{
      gpu.func @f(%a: memref<512x640xf32>, %out: memref<512x640xf32>) kernel
          attributes {{known_block_size = array<i32: {width}, 4, 1>}} {{
        %i = gpu.global_id x
        %j = gpu.global_id y
        %x = memref.load %a[%j, %i] : memref<512x640xf32>
        %n = gpu.grid_dim x
        %m = arith.index_cast %n : index to i32
        %y = arith.sitofp %m : i32 to f32
        %z = arith.addf %x, %y : f32
        memref.store %z, %out[%j, %i] : memref<512x640xf32>
        gpu.return
      }}
    }}"""
    entry = functions_of(compile_module(text, tmp_path))["gpubuild.run.0.apart"]
    assert "store <8 x float>" in entry
    assert "store float" not in entry


def test_reductions_stay_in_registers(tmp_path: Path) -> None:
    """Sums keep nothing in memory while they read."""
    text = """gpu.module @k {
      gpu.func @sums(%a: memref<?xf32>, %out: memref<?xf32>) kernel {
        %c0 = arith.constant 0 : index
        %t = gpu.thread_id x
        %g = gpu.global_id x
        %v = memref.load %a[%g] : memref<?xf32>
        %sum = gpu.all_reduce add %v uniform {} : (f32) -> (f32)
        %first = arith.cmpi eq, %t, %c0 : index
        scf.if %first {
          %b = gpu.block_id x
          memref.store %sum, %out[%b] : memref<?xf32>
        }
        gpu.return
      }
      gpu.func @tree(%a: memref<?xf32>, %out: memref<?xf32>)
          workgroup(%s: memref<256xf32, #gpu.address_space<workgroup>>) kernel {
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c8 = arith.constant 8 : index
        %half = arith.constant 128 : index
        %t = gpu.thread_id x
        %g = gpu.global_id x
        %v = memref.load %a[%g] : memref<?xf32>
        memref.store %v, %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
        gpu.barrier
        %end = scf.for %i = %c0 to %c8 step %c1 iter_args(%n = %half) -> index {
          %in = arith.cmpi ult, %t, %n : index
          scf.if %in {
            %o = arith.addi %t, %n : index
            %x = memref.load %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
            %y = memref.load %s[%o] : memref<256xf32, #gpu.address_space<workgroup>>
            %z = arith.addf %x, %y : f32
            memref.store %z, %s[%t] : memref<256xf32, #gpu.address_space<workgroup>>
          }
          gpu.barrier
          %next = arith.shrui %n, %c1 : index
          scf.yield %next : index
        }
        %first = arith.cmpi eq, %t, %c0 : index
        scf.if %first {
          %b = gpu.block_id x
          %sum = memref.load %s[%c0] : memref<256xf32, #gpu.address_space<workgroup>>
          memref.store %sum, %out[%b] : memref<?xf32>
        }
        gpu.return
      }
      gpu.func @copy(%a: memref<?xf32>, %out: memref<?xf32>) kernel {
        %g = gpu.global_id x
        %v = memref.load %a[%g] : memref<?xf32>
        memref.store %v, %out[%g] : memref<?xf32>
        gpu.return
      }
    }"""
    entries = functions_of(compile_module(text, tmp_path))
    # The loop over chunks of 64 adds to registers: between its loads nothing is stored.
    [loop] = [
        b
        for b in re.split(r"\n\n", entries["gpubuild.run.0.any"])
        if b.count("load <8 x float>, ptr %") >= 16
    ]
    assert "store <8 x float>" not in loop
    # A workgroup of 256 goes through all rounds without a loop.
    assert entries["gpubuild.run.1.apart"].count("phi i64") == 1


def test_very_large_blocks_are_not_vectorised(tmp_path: Path) -> None:
    """LLVM's time for vectors grows with the square of a block's size. Other kernels keep theirs."""
    added = LARGEST_VECTORISED_BLOCK
    lines = (f"%v{n + 1} = arith.addf %v{n}, %v0 : f32" for n in range(added))
    kernels = {"large": "\n".join(lines), "small": f"%v{added} = arith.addf %v0, %v0 : f32"}
    text = "".join(
        f"""gpu.func @{name}(%a: memref<?xf32>, %out: memref<?xf32>) kernel {{
          %i = gpu.global_id x
          %v0 = memref.load %a[%i] : memref<?xf32>
          {body}
          memref.store %v{added}, %out[%i] : memref<?xf32>
          gpu.return
        }}"""
        for name, body in kernels.items()
    )
    warnings: list[str] = []
    out = compile_module(f"gpu.module @k {{ {text} }}", tmp_path / "k", warnings=warnings)
    [warning] = warnings
    assert warning.startswith("@large has 4,0")
    entries = functions_of(out)
    assert set(entries) >= {"gpubuild.run.0.any", "gpubuild.run.1.any", "gpubuild.run.1.apart"}
    assert "fadd <" not in entries["gpubuild.run.0.any"]
    assert "fadd <" in entries["gpubuild.run.1.apart"]
    x = np.linspace(1, 2, 100, dtype=np.float32)
    expected = x.copy()
    for _ in range(added):
        expected += x
    found = np.zeros(100, np.float32)
    module = Device(build_runtime(tmp_path)).load(out)
    module.launch("large", 4, 25, x, found)
    np.testing.assert_array_equal(found, expected)
