"""What the CPU compiler makes faster must stay right: atomics, exchanged loops."""

from __future__ import annotations

import re
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


KERNELS = f"gpu.module @k {{{''.join(map(atomic_kernel, ATOMICS))}\n}}"


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


@pytest.mark.parametrize("width", [8, 16, 32, 64])
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
    code = (compile_module(text, tmp_path) / "llvm").read_text()
    [entry] = re.findall(r"^define [^\n]*@gpubuild\.run\.0\.apart\(.*?^}$", code, re.MULTILINE | re.DOTALL)
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
    code = (compile_module(text, tmp_path) / "llvm").read_text()
    entries = {
        found[1]: found[0]
        for found in re.finditer(r"^define [^\n]*@gpubuild\.run\.(\d\.\w+)\(.*?^}$", code, re.M | re.DOTALL)
    }
    # The loop over chunks of 64 adds to registers: between its loads nothing is stored.
    [loop] = [b for b in re.split(r"\n\n", entries["0.any"]) if b.count("load <8 x float>, ptr %") >= 16]
    assert "store <8 x float>" not in loop
    # A workgroup of 256 goes through all rounds without a loop.
    assert entries["1.apart"].count("phi i64") == 1
