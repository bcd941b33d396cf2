"""Work: what a work-item computes and moves, as far as its kernel tells."""

from __future__ import annotations

import pytest

from gpubuild.engine.backends.cpu.work import UNKNOWN, Work, kernel_work
from gpubuild.engine.ir import contexts

CONSTANTS = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c10 = arith.constant 10 : index
  %t = gpu.thread_id x
  %v = memref.load %m[%t] : memref<?xf32>
"""
LOADED = 4  # bytes, by the last line

CASES = {
    "nothing more": ("", 0, 0),
    "arithmetic": (
        "%a = arith.addf %v, %v : f32\n %b = arith.mulf %a, %v : f32\n %d = math.fma %a, %b, %v : f32\n"
        "%e = math.exp %d : f32\n %f = arith.cmpf olt, %e, %v : f32\n %g = arith.addi %t, %t : index",
        5,
        0,
    ),
    "a store": ("memref.store %v, %m[%t] : memref<?xf32>", 0, 4),
    "a vector": (
        "%a = vector.load %m[%c0] : memref<?xf32>, vector<8xf32>\n%b = arith.addf %a, %a : vector<8xf32>\n"
        "vector.store %b, %m[%c0] : memref<?xf32>, vector<8xf32>",
        8,
        64,
    ),
    "workgroup memory": ("memref.store %v, %w[%t] : memref<64xf32, #gpu.address_space<workgroup>>", 0, 0),
    "private memory": (
        "%p = memref.alloca() : memref<4xf32>\n%q = memref.cast %p : memref<4xf32> to memref<?xf32>\n"
        "memref.store %v, %q[%c0] : memref<?xf32>",
        0,
        0,
    ),
    "an atomic update": ("%a = memref.atomic_rmw addf %v, %m[%c0] : (f32, memref<?xf32>) -> f32", 1, 8),
    "a loop": ("scf.for %i = %c0 to %c10 step %c3 { %a = arith.addf %v, %v : f32 }", 4, 0),
    "an empty range": ("scf.for %i = %c10 to %c0 step %c3 { %a = arith.addf %v, %v : f32 }", 0, 0),
    "loops in loops": (
        "scf.for %i = %c0 to %c10 step %c1 { scf.for %j = %c0 to %c3 step %c1 {\n"
        "memref.store %v, %m[%j] : memref<?xf32> } }",
        0,
        120,
    ),
    "a loop of unknown length": (
        "scf.for %i = %c0 to %n step %c3 { memref.store %v, %m[%i] : memref<?xf32> }",
        0,
        None,
    ),
    "a loop over integers": ("scf.for %i = %c0 to %n step %c3 { %a = arith.addi %i, %t : index }", 0, 0),
    "a bounds check": (
        "%i = arith.cmpi ult, %t, %n : index\n"
        "scf.if %i { %a = arith.addf %v, %v : f32\n memref.store %a, %m[%t] : memref<?xf32> }",
        1,
        4,
    ),
    "two branches": (
        "%i = arith.cmpi ult, %t, %n : index\nscf.if %i { %a = arith.addf %v, %v : f32 } else {\n"
        "memref.store %v, %m[%t] : memref<?xf32> }",
        1,
        4,
    ),
    "one work-item": (
        "%i = arith.cmpi eq, %t, %c0 : index\nscf.if %i { memref.store %v, %m[%t] : memref<?xf32> }",
        0,
        0,
    ),
    "a while": (
        "scf.while : () -> () { %i = arith.cmpi ult, %t, %n : index\n scf.condition(%i) } do {\n"
        "%a = arith.addf %v, %v : f32\n scf.yield }",
        None,
        0,
    ),
    "a call": ("func.call @f() : () -> ()", None, None),
}  # fmt: skip


def work_of(body: str) -> Work:
    text = f"""gpu.module @k {{
      func.func @f() {{ return }}
      gpu.func @kernel(%m: memref<?xf32>, %n: index)
          workgroup(%w: memref<64xf32, #gpu.address_space<workgroup>>) kernel {{
        {CONSTANTS}{body}
        gpu.return
      }}
    }}"""
    with contexts.context():
        module = contexts.parse(text)
        return kernel_work(contexts.gpu_modules(module)[0])["kernel"]


@pytest.mark.parametrize("case", CASES)
def test_counts(case: str) -> None:
    body, flops, moved = CASES[case]
    found = work_of(body)
    whole = None if moved is None else moved + LOADED
    assert (found.flops, found.bytes) == (flops, whole)


def test_code_without_structure_is_unknown() -> None:
    assert work_of("cf.br ^next\n^next:\n%a = arith.addf %v, %v : f32").flops is None
    assert UNKNOWN + Work() == UNKNOWN
