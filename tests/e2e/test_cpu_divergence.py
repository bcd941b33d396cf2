"""Control flow around barriers that differs between work-items, or might: fission, fibers and NumPy agree."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from e2e.cpu_harness import Device, build_runtime, compile_module
from e2e.place_text import PLACE_IN_GRID

WG = "#gpu.address_space<workgroup>"
SHARED = f"memref<1024xi32, {WG}>"
GRID = 2
BLOCKS = [1, 7, 32, 96, (8, 4, 2), 77]
PROLOGUE = (
    """
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c32 = arith.constant 32 : index
    %i1 = arith.constant 1 : i32
    %i32 = arith.constant 32 : i32"""
    + PLACE_IN_GRID
    + """
    %sg = arith.divui %t, %c32 : index
    %lane = arith.remui %t, %c32 : index
    %lim = memref.load %N[%c0] : memref<4xi32>
    %limit = arith.index_cast %lim : i32 to index
    %mine = memref.load %A[%g] : memref<?xi32>
"""
)
HELPERS = f"""
  memref.global "private" @mail : {SHARED} = uninitialized
  func.func private @next(%v: i32, %t: index, %n: index) -> i32 {{
    %one = arith.constant 1 : index
    %mail = memref.get_global @mail : {SHARED}
    %after = arith.addi %t, %one : index
    %from = arith.remui %after, %n : index
    memref.store %v, %mail[%t] : {SHARED}
    gpu.barrier
    %r = memref.load %mail[%from] : {SHARED}
    gpu.barrier
    return %r : i32
  }}
  func.func private @twice(%v: i32, %t: index, %n: index, %more: i1) -> i32 {{
    %a = func.call @next(%v, %t, %n) : (i32, index, index) -> i32
    cf.cond_br %more, ^again, ^end(%a : i32)
  ^again:
    %b = func.call @next(%a, %t, %n) : (i32, index, index) -> i32
    cf.br ^end(%b : i32)
  ^end(%r: i32):
    return %r : i32
  }}
"""
NEXT = "func.call @next({}, %t, %n) : (i32, index, index) -> i32"
LIMIT = 3
EDGE = 1 << 20
NUMBERS = np.array([LIMIT, 1, EDGE, 0], np.int32)


def _rolled(a: np.ndarray, by: int) -> np.ndarray:
    return np.roll(a, -by, axis=1)


def _turns(a: np.ndarray) -> np.ndarray:
    """Each turn adds its number and takes the next work-item's value."""
    for turn in range(LIMIT):
        a = _rolled(a + turn, 1)
    return a


def _rows(a: np.ndarray) -> np.ndarray:
    """Subgroup s sums its rows s, s + subgroups, …; lanes exchange values in each of them."""
    out = np.zeros_like(a)
    items = a.shape[1]
    groups = -(-items // 32)
    for block in range(GRID):
        for t in range(items):
            size = min(32, items - t // 32 * 32)
            total = 0
            for row in range(t // 32, 2 * groups + 1, groups):
                other = t % 32 ^ 1
                there = t // 32 * 32 + (other if other < size else t % 32)
                total += row + a[block, there]
            out[block, t] = total
    return out


def _first_subgroup(a: np.ndarray) -> np.ndarray:
    out = a.copy()
    size = min(32, a.shape[1])
    for lane in range(size):
        out[:, lane] = a[:, lane ^ 1 if lane ^ 1 < size else lane] + 1
    return _rolled(out, 1)


FORMS = {
    # a bound out of memory
    "loaded": (f"""
    %r = scf.for %k = %c0 to %limit step %c1 iter_args(%v = %mine) -> (i32) {{
      %ki = arith.index_cast %k : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      scf.yield %w : i32
    }}""", _turns),
    # every work-item from its own place on: as many iterations
    "strided": (f"""
    %end = arith.muli %n, %c3 : index
    %r = scf.for %k = %t to %end step %n iter_args(%v = %mine) -> (i32) {{
      %turn = arith.divui %k, %n : index
      %ki = arith.index_cast %turn : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      scf.yield %w : i32
    }}""", _turns),
    "while": (f"""
    %k:2 = scf.while (%i = %c0, %v = %mine) : (index, i32) -> (i32, index) {{
      %go = arith.cmpi slt, %i, %limit : index
      scf.condition(%go) %v, %i : i32, index
    }} do {{
    ^bb0(%v: i32, %i: index):
      %ki = arith.index_cast %i : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      %j = arith.addi %i, %c1 : index
      scf.yield %j, %w : index, i32
    }}
    %r = arith.addi %k#0, %i1 : i32""", lambda a: _turns(a) + 1),
    # the barrier is in the condition's part
    "do_while": (f"""
    %k:2 = scf.while (%i = %c0, %v = %mine) : (index, i32) -> (index, i32) {{
      %ki = arith.index_cast %i : index to i32
      %s = arith.addi %v, %ki : i32
      %w = {NEXT.format("%s")}
      %j = arith.addi %i, %c1 : index
      %go = arith.cmpi slt, %j, %limit : index
      scf.condition(%go) %j, %w : index, i32
    }} do {{
    ^bb0(%j: index, %w: i32):
      scf.yield %j, %w : index, i32
    }}
    %r = arith.addi %k#1, %i1 : i32""", lambda a: _turns(a) + 1),
    # values change places on their way around
    "swap": (f"""
    %k:3 = scf.while (%i = %c0, %v = %mine, %u = %lim) : (index, i32, i32) -> (index, i32, i32) {{
      %go = arith.cmpi slt, %i, %limit : index
      scf.condition(%go) %i, %u, %v : index, i32, i32
    }} do {{
    ^bb0(%i: index, %u: i32, %v: i32):
      %w = {NEXT.format("%v")}
      %j = arith.addi %i, %c1 : index
      scf.yield %j, %w, %u : index, i32, i32
    }}
    %r = arith.subi %k#1, %k#2 : i32""", None),
    "parallel": (f"""
    %p = scf.parallel (%i, %j) = (%c0, %c1) to (%c2, %limit) step (%c1, %c1) init (%mine) -> i32 {{
      %ij = arith.muli %i, %j : index
      %ki = arith.index_cast %ij : index to i32
      %s = arith.addi %mine, %ki : i32
      %w = {NEXT.format("%s")}
      scf.reduce(%w : i32) {{
      ^bb0(%l: i32, %h: i32):
        %sum = arith.addi %l, %h : i32
        scf.reduce.return %sum : i32
      }}
    }}
    %r = arith.addi %p, %i1 : i32""", lambda a: a + 4 * _rolled(a, 1) + 3 + 1),
    "switch": (f"""
    %r = scf.index_switch %limit -> i32
    case 1 {{
      %w = {NEXT.format("%mine")}
      scf.yield %w : i32
    }}
    case 3 {{
      %w = {NEXT.format("%mine")}
      %u = {NEXT.format("%w")}
      scf.yield %u : i32
    }}
    default {{
      scf.yield %i1 : i32
    }}""", lambda a: _rolled(a, 2)),
    # branches, with a way out in the middle of a loop, and a return that nobody takes
    "branches": (f"""
    %edge = memref.load %N[%c2] : memref<4xi32>
    %gi = arith.index_cast %g : index to i32
    %in = arith.cmpi slt, %gi, %edge : i32
    cf.cond_br %in, ^head(%c0, %mine : index, i32), ^out
  ^head(%i: index, %v: i32):
    %ki = arith.index_cast %i : index to i32
    %s = arith.addi %v, %ki : i32
    %w = {NEXT.format("%s")}
    %j = arith.addi %i, %c1 : index
    %enough = arith.cmpi sge, %j, %limit : index
    cf.cond_br %enough, ^done, ^more
  ^more:
    %ten = arith.cmpi sge, %j, %c32 : index
    cf.cond_br %ten, ^out, ^head(%j, %w : index, i32)
  ^done:
    memref.store %w, %C[%g] : memref<?xi32>
    gpu.return
  ^out:""", _turns),
    "called": ("""
    %go = arith.cmpi slt, %lim, %i32 : i32
    %r = func.call @twice(%mine, %t, %n, %go) : (i32, index, index, i1) -> i32""", lambda a: _rolled(a, 2)),
    # of a memref only its user knows where it begins
    "view": ("""
    %at = arith.subi %g, %c0 : index
    %one = memref.load %N[%c1] : memref<4xi32>
    %far = arith.index_cast %one : i32 to index
    %place = arith.muli %at, %far : index
    %m = memref.subview %A[%place] [1] [1] : memref<?xi32> to memref<1xi32, strided<[1], offset: ?>>
    gpu.barrier
    %r = memref.load %m[%c0] : memref<1xi32, strided<[1], offset: ?>>""", lambda a: a),
    "chosen": ("""
    %odd = arith.cmpi slt, %mine, %i1 : i32
    %m = arith.select %odd, %A, %C : memref<?xi32>
    gpu.barrier
    memref.store %i1, %C[%g] : memref<?xi32>
    gpu.barrier
    %r = memref.load %m[%g] : memref<?xi32>""", lambda a: np.where(a < 1, a, 1)),
    # subgroups go their own ways
    "subgroup": ("""
    %in = arith.cmpi eq, %sg, %c0 : index
    %v = scf.if %in -> (i32) {
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      %p = arith.addi %o, %i1 : i32
      scf.yield %p : i32
    } else {
      scf.yield %mine : i32
    }
    %r = func.call @next(%v, %t, %n) : (i32, index, index) -> i32""", _first_subgroup),
    "rows": ("""
    %zero = arith.constant 0 : i32
    %up = arith.addi %n, %c32 : index
    %before = arith.subi %up, %c1 : index
    %groups = arith.divui %before, %c32 : index
    %twice = arith.muli %groups, %c2 : index
    %end = arith.addi %twice, %c1 : index
    %v = scf.for %k = %sg to %end step %groups iter_args(%sum = %zero) -> (i32) {
      %ki = arith.index_cast %k : index to i32
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      %one = arith.addi %o, %ki : i32
      %next = arith.addi %sum, %one : i32
      scf.yield %next : i32
    }
    %u = func.call @next(%v, %t, %n) : (i32, index, index) -> i32
    %r = arith.addi %u, %i1 : i32""", lambda a: _rolled(_rows(a), 1) + 1),
    # lanes that have returned take no part
    "tail": ("""
    memref.store %i1, %C[%g] : memref<?xi32>
    %in = arith.cmpi ult, %t, %c3 : index
    cf.cond_br %in, ^work, ^out
  ^work:
    %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
    %p = arith.addi %o, %i1 : i32
    memref.store %p, %C[%g] : memref<?xi32>
    gpu.return
  ^out:""", None),
    # a loop with a barrier that nobody runs, where not all are
    "no_turn": ("""
    %none = memref.load %N[%c3] : memref<4xi32>
    %end = arith.index_cast %none : i32 to index
    %in = arith.cmpi ult, %t, %c3 : index
    %r = scf.if %in -> (i32) {
      %v = scf.for %k = %c0 to %end step %c1 iter_args(%u = %i1) -> (i32) {
        gpu.barrier
        %w = arith.addi %u, %i1 : i32
        scf.yield %w : i32
      }
      scf.yield %v : i32
    } else {
      scf.yield %mine : i32
    }""", lambda a: np.where(np.arange(a.shape[1]) < 3, 1, a)),
}  # fmt: skip


def _kernel(name: str, body: str, arguments: str = "") -> str:
    store = "" if body.rstrip().endswith("^out:") else "memref.store %r, %C[%g] : memref<?xi32>"
    return f"""
  gpu.func @{name}(%A: memref<?xi32>, %C: memref<?xi32>, %N: memref<4xi32>) kernel {{{PROLOGUE}{body}
    {store}
    gpu.return
  }}"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory) -> Path:
    return build_runtime(tmp_path_factory.mktemp("divergence_runtime"))


def test_forms_of_control_flow(runtime, tmp_path):
    text = "gpu.module @k {" + HELPERS + "".join(_kernel(n, body) for n, (body, _) in FORMS.items()) + "}"
    module = Device(runtime).load(compile_module(text, tmp_path, opt_level=1))
    assert {k["name"]: k["tier"] for k in module.info["kernels"]} == dict.fromkeys(FORMS, "fission")
    for name, (_, expected) in FORMS.items():
        for block in BLOCKS:
            items = int(np.prod(block))
            a = np.random.default_rng(items).integers(-50, 50, (GRID, items)).astype(np.int32)
            found = []
            for fibers in (False, True):
                found.append(np.zeros(a.size, np.int32))
                module.launch(name, GRID, block, a.reshape(-1), found[-1], NUMBERS, fibers=fibers)
            np.testing.assert_array_equal(*found, err_msg=f"{name} {block}")
            if expected is not None:
                wanted = expected(a).astype(np.int32).reshape(-1)
                np.testing.assert_array_equal(found[0], wanted, err_msg=f"{name} {block}")


# What is wrong, and how many work-items wait where. There are 40; the value of work-item i is i.
WRONG = {
    "bounds": ("""
    %b = arith.index_cast %mine : i32 to index
    scf.for %k = %c0 to %b step %c1 { gpu.barrier }""", "39 of 40 work-items wait at gpu.barrier"),
    "condition": ("""
    %five = arith.constant 5 : i32
    %r = scf.while (%i = %mine) : (i32) -> i32 {
      %go = arith.cmpi slt, %i, %five : i32
      scf.condition(%go) %i : i32
    } do {
    ^bb0(%i: i32):
      gpu.barrier
      %j = arith.addi %i, %i1 : i32
      scf.yield %j : i32
    }""", "5 of 40 work-items wait at gpu.barrier"),
    "returned": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    cf.cond_br %in, ^work, ^out
  ^work:
    gpu.barrier
    cf.br ^out
  ^out:""", "32 of 40 work-items wait at gpu.barrier"),
    "otherwise": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    scf.if %in {
      memref.store %i1, %C[%g] : memref<?xi32>
    } else {
      gpu.barrier
    }""", "8 of 40 work-items wait at gpu.barrier"),
    "inner": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    scf.if %in {
      memref.store %i1, %C[%g] : memref<?xi32>
      scf.for %k = %c0 to %limit step %c1 {
        gpu.barrier
      }
    }""", "32 of 40 work-items wait at gpu.barrier"),
    "reduced": ("""
    %in = arith.cmpi slt, %mine, %i32 : i32
    scf.if %in {
      %s = gpu.all_reduce add %mine uniform {} : (i32) -> (i32)
      memref.store %s, %C[%g] : memref<?xi32>
    }""", "32 of 40 work-items wait at gpu.all_reduce"),
    "lanes": ("""
    %four = arith.constant 4 : i32
    %in = arith.cmpi slt, %mine, %four : i32
    scf.if %in {
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      memref.store %o, %C[%g] : memref<?xi32>
    }
    gpu.barrier""", "4 of 32 work-items wait at gpu.shuffle"),
    "both_lanes": ("""
    %four = arith.constant 4 : i32
    %in = arith.cmpi slt, %mine, %four : i32
    %v = scf.if %in -> (i32) {
      %o, %ok = gpu.shuffle xor %mine, %i1, %i32 : i32
      scf.yield %o : i32
    } else {
      %o, %ok = gpu.shuffle xor %i1, %i1, %i32 : i32
      scf.yield %o : i32
    }
    memref.store %v, %C[%g] : memref<?xi32>""", "4 of 32 work-items wait at gpu.shuffle"),
}  # fmt: skip
DRIVER = """
import os, sys
from pathlib import Path
import numpy as np
from e2e.cpu_harness import Device
from e2e.test_cpu_divergence import NUMBERS, WRONG
for name in WRONG:
    for fibers in (False, True):
        sys.stderr.flush()
        child = os.fork()
        if child == 0:
            module = Device(Path(sys.argv[1])).load(Path(sys.argv[2]))
            a = np.arange(40, dtype=np.int32)
            module.launch(name, 1, 40, a, np.zeros_like(a), NUMBERS, fibers=fibers)
            os._exit(77)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(f"== {name} {'fibers' if fibers else 'fission'} {code}", file=sys.stderr, flush=True)
"""


def test_work_items_that_do_not_agree_are_reported(runtime, tmp_path):
    """In both tiers, with the same counts: never a wrong result."""
    body = "".join(
        _kernel(
            n, b + ("\n    %r = arith.addi %mine, %i1 : i32" if "%r =" not in b and "^out" not in b else "")
        )
        for n, (b, _) in WRONG.items()
    )
    out = compile_module("gpu.module @k {" + body + "}", tmp_path, opt_level=1)
    tiers = {k["name"]: k["tier"] for k in json.loads((out / "info").read_text())["kernels"]}
    assert tiers == dict.fromkeys(WRONG, "fission")
    environment = {"PYTHONPATH": str(Path(__file__).parents[1]), "GPUBUILD_CPU_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(runtime), str(out)],
        env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    reports = re.findall(r"gpubuild: ([^\n]*)\n[^=]*== (\w+) (\w+) (-?\d+)\n", done.stderr)
    assert len(reports) == 2 * len(WRONG) - 1, done.stderr
    for message, name, tier, code in reports:
        assert code == "1", (name, tier, done.stderr)
        count, _, place = WRONG[name][1].partition(" wait at ")
        assert f"{count} wait at " in message, (name, tier, message)
        if tier == "fission":  # the launch in the fibers tier is of a copy, whose sites have no names
            assert f"{place} in @{name}, but work-item (" in message, (name, tier, message)
    # Upstream's passes make one shuffle of the two, and with it an error right.
    assert "== both_lanes fibers 77" in done.stderr
