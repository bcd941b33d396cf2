"""Tokens of host code that conditions choose; run on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e.stream_programs import AFFINE, assert_all_destroyed, build, program, run

# Tokens that a condition chooses, with each way taken: a select, branches to blocks, a loop of blocks, a
# switch, and a token that only some blocks use. What nobody waits for ends when the host lets it.
CHOSEN = program(
    main="""
    %c4 = arith.constant 4 : index
    %c5 = arith.constant 5 : index
    %four = arith.constant 4 : i32
    scf.for %i = %c0 to %c4 step %c1 {
      %first = arith.index_cast %i : index to i1
      func.call @pick(%first) : (i1) -> ()
      scf.for %j = %c0 to %c5 step %c1 {
        %jw = arith.index_cast %j : index to i32
        %way = arith.addi %jw, %four : i32
        %r = func.call @walk(%i, %way) : (index, i32) -> i64
        func.call @show(%r) : (i64) -> ()
      }
    }
""",
    before="  gpu.module @k {"
    + AFFINE
    + """
    gpu.func @until(%flag: memref<1xi32>) kernel {
      %c0 = arith.constant 0 : index
      %zero = arith.constant 0 : i32
      scf.while : () -> () {
        %seen = memref.atomic_rmw addi %zero, %flag[%c0] : (i32, memref<1xi32>) -> i32
        %closed = arith.cmpi eq, %seen, %zero : i32
        scf.condition(%closed)
      } do {
        scf.yield
      }
      gpu.return
    }
  }
  func.func private @step(%t: !gpu.async.token, %m: memref<1000xi64>, %by: i64, %plus: i64)
      -> !gpu.async.token {
    %c10 = arith.constant 10 : index
    %c100 = arith.constant 100 : index
    %c1 = arith.constant 1 : index
    %r = gpu.launch_func async [%t] @k::@affine blocks in (%c10, %c1, %c1) threads in (%c100, %c1, %c1)
      args(%m : memref<1000xi64>, %by : i64, %plus : i64)
    return %r : !gpu.async.token
  }
  // The host waits for the chosen kernel, and lets the other end only then.
  func.func private @pick(%first: i1) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %true = arith.constant true
    %a = gpu.alloc host_shared () : memref<1xi32>
    %b = gpu.alloc host_shared () : memref<1xi32>
    %second = arith.xori %first, %true : i1
    %open_a = arith.extui %first : i1 to i32
    %open_b = arith.extui %second : i1 to i32
    memref.store %open_a, %a[%c0] : memref<1xi32>
    memref.store %open_b, %b[%c0] : memref<1xi32>
    %ta = gpu.launch_func async @k::@until blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%a : memref<1xi32>)
    %tb = gpu.launch_func async @k::@until blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      args(%b : memref<1xi32>)
    %t = arith.select %first, %ta, %tb : !gpu.async.token
    gpu.wait [%t]
    %old_a = memref.atomic_rmw assign %one, %a[%c0] : (i32, memref<1xi32>) -> i32
    %old_b = memref.atomic_rmw assign %one, %b[%c0] : (i32, memref<1xi32>) -> i32
    gpu.wait [%ta, %tb]
    gpu.dealloc %a : memref<1xi32>
    gpu.dealloc %b : memref<1xi32>
    return
  }
  // 1; times two plus one `%rounds` times; by `%way`: plus 100, times 10, both tokens, or as it is.
  func.func private @walk(%rounds: index, %way: i32) -> i64 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %last = arith.constant 999 : index
    %zero = arith.constant 0 : i64
    %one = arith.constant 1 : i64
    %two = arith.constant 2 : i64
    %ten = arith.constant 10 : i64
    %hundred = arith.constant 100 : i64
    %h = memref.alloc() : memref<1000xi64>
    %g = gpu.alloc host_shared () : memref<1000xi64>
    %t0 = gpu.wait async
    %d, %t1 = gpu.alloc async [%t0] () : memref<1000xi64>
    %t2 = gpu.memset async [%t1] %d, %one : memref<1000xi64>, i64
    %side = gpu.memset async %g, %two : memref<1000xi64>, i64
    %some = arith.cmpi ne, %rounds, %c0 : index
    cf.cond_br %some, ^again(%t2, %c0 : !gpu.async.token, index), ^done(%t2, %zero : !gpu.async.token, i64)
  ^again(%t: !gpu.async.token, %i: index):
    %n = func.call @step(%t, %d, %two, %one)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    %j = arith.addi %i, %c1 : index
    %more = arith.cmpi ult, %j, %rounds : index
    // Of use on one way only.
    %extra = gpu.memcpy async [%side] %h, %g : memref<1000xi64>, memref<1000xi64>
    cf.cond_br %more, ^again(%n, %j : !gpu.async.token, index), ^looped
  ^looped:
    gpu.wait [%extra]
    %seen = memref.load %h[%last] : memref<1000xi64>
    cf.br ^done(%n, %seen : !gpu.async.token, i64)
  ^done(%u: !gpu.async.token, %v: i64):
    cf.switch %way : i32, [
      default: ^end(%u, %v : !gpu.async.token, i64),
      5: ^plus(%u : !gpu.async.token),
      6: ^times,
      7: ^both(%u, %side : !gpu.async.token, !gpu.async.token),
      8: ^both(%side, %u : !gpu.async.token, !gpu.async.token)
    ]
  ^plus(%p: !gpu.async.token):
    %p1 = func.call @step(%p, %d, %one, %hundred)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    cf.br ^end(%p1, %v : !gpu.async.token, i64)
  ^times:
    %m1 = func.call @step(%u, %d, %ten, %zero)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    cf.br ^end(%m1, %v : !gpu.async.token, i64)
  ^both(%x: !gpu.async.token, %y: !gpu.async.token):
    %z = gpu.wait async [%x, %y]
    %z1 = func.call @step(%z, %d, %two, %hundred)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    %z2 = func.call @step(%z1, %g, %one, %ten)
      : (!gpu.async.token, memref<1000xi64>, i64, i64) -> !gpu.async.token
    %add = memref.alloc() : memref<1000xi64>
    %z3 = gpu.memcpy async [%z2] %add, %g : memref<1000xi64>, memref<1000xi64>
    gpu.wait [%z3]
    %w = memref.load %add[%last] : memref<1000xi64>
    cf.br ^end(%z1, %w : !gpu.async.token, i64)
  ^end(%e: !gpu.async.token, %f: i64):
    %e1 = gpu.memcpy async [%e] %h, %d : memref<1000xi64>, memref<1000xi64>
    gpu.wait [%e1, %side]
    %r = memref.load %h[%last] : memref<1000xi64>
    %k = arith.constant 1000000 : i64
    %kf = arith.muli %f, %k : i64
    %s = arith.addi %r, %kf : i64
    gpu.dealloc %d : memref<1000xi64>
    gpu.dealloc %g : memref<1000xi64>
    return %s : i64
  }
""",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, shared_cache: dict[str, str]) -> Path:
    return build(tmp_path_factory.mktemp("choices"), {"chosen": CHOSEN}, shared_cache)


@pytest.mark.parametrize("threads", ["1", "4", "late"])
def test_tokens_that_a_condition_chooses(built: Path, threads: str) -> None:
    expected = []
    for rounds in range(4):
        value = 2 ** (rounds + 1) - 1
        seen = 2 if rounds else 0
        ways = [
            (value, seen),
            (value + 100, seen),
            (value * 10, seen),
            (value * 2 + 100, 12),
            (value * 2 + 100, 12),
        ]
        expected += [result + 1000000 * beside for result, beside in ways]
    assert run(built, "chosen", threads).out == "".join(f"{value}\n" for value in expected)


def test_every_stream_and_event_is_destroyed(built: Path) -> None:
    assert_all_destroyed(built, "chosen")
