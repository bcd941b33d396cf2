"""Work-item fission gives the results of fibers, in vector code; test_random_kernels has an evaluator."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from e2e.cpu_harness import compile_module, compile_once, functions_of

WG = "#gpu.address_space<workgroup>"
GRID = 3
RNG = np.random.default_rng(11)


def _agree(module, name: str, shape, arguments, **options) -> None:
    """Both tiers must leave the same in every array."""
    assert module.tier(name) == "fission"
    copies = []
    for fibers in (False, True):
        copy = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        module.launch(name, GRID, shape, *copy, fibers=fibers, **options)
        copies.append([a for a in copy if isinstance(a, np.ndarray)])
    for cut, whole in zip(*copies, strict=True):
        np.testing.assert_array_equal(cut, whole)


def _kernel(body: str, name: str = "f", private: str = "", arguments: str = "%out: memref<?xi32>") -> str:
    return f"""
  gpu.func @{name}({arguments}) workgroup(%s : memref<1024xi32, {WG}>) {private} kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %i1 = arith.constant 1 : i32
    %t = gpu.thread_id x
    %g = gpu.global_id x
    %n = gpu.block_dim x
    %ti = arith.index_cast %t : index to i32
    {body}
    gpu.return
  }}"""


OWN_SLOT = f"memref.store %ti, %s[%t] : memref<1024xi32, {WG}>"
HELPERS = f"""
  func.func private @waits(%more: i1) {{
    gpu.barrier
    scf.if %more {{ func.call @waits(%more) : (i1) -> () }}
    return
  }}
  memref.global "private" @other : memref<8xi32, {WG}> = uninitialized
"""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("scf.for %i = %c0 to %n step %c1 { %k = arith.cmpi eq, %i, %t : index\n scf.if %k { gpu.barrier } }",
         "gpu.barrier in a divergent scf.if"),
        ("%p = memref.alloca(%n) : memref<?xi32>\n gpu.barrier\n memref.store %ti, %p[%c0] : memref<?xi32>\n"
         "%r = memref.load %p[%t] : memref<?xi32>\n memref.store %r, %out[%g] : memref<?xi32>",
         "private memory (memref.alloca)"),
        ("%p = memref.alloca() : memref<2250xi32>\n memref.store %ti, %p[%c0] : memref<2250xi32>\n"
         "gpu.barrier\n%r = memref.load %p[%t] : memref<2250xi32>\n"
         "memref.store %r, %out[%g] : memref<?xi32>",
         "9024 bytes of private memory for each work-item"),
        ("func.call @waits(%q) : (i1) -> ()\n gpu.barrier", "a call of @waits, which waits"),
        ("%v = memref.load %out[%g] : memref<?xi32>\n %u = arith.extsi %v : i32 to i128\n"
         "%w = arith.muli %u, %u : i128\n gpu.barrier\n %y = arith.shrui %w, %u : i128\n"
         "%r = arith.trunci %y : i128 to i32\n memref.store %r, %out[%g] : memref<?xi32>",
         "a value of type i128 is needed after a barrier"),
        ("%m = arith.constant -1 : i32\n %r = nvvm.redux.sync add %ti, %m : i32 -> i32\n"
         "memref.store %r, %out[%g] : memref<?xi32>", "nvvm.redux.sync"),
    ],
)  # fmt: skip
def test_what_is_not_cut_says_why(tmp_path, body, reason):
    arguments = "%out: memref<?xi32>, %q: i1" if "%q" in body else "%out: memref<?xi32>"
    text = "gpu.module @k {" + HELPERS + _kernel(body, arguments=arguments) + "}"
    (kernel,) = json.loads((compile_module(text, tmp_path) / "info").read_text())["kernels"]
    assert kernel["tier"] == "fibers"
    assert "; no fission: " in kernel["tier_reason"]
    assert reason in kernel["tier_reason"].partition("; no fission: ")[2]


def test_called_functions_know_their_work_item(device, tmp_path):
    text = (
        "gpu.module @k {"
        + """
  func.func private @me() -> i32 attributes {no_inline} {
    %x = gpu.thread_id x
    %y = gpu.thread_id y
    %l = gpu.lane_id
    %a = arith.shli %y, %x : index
    %b = arith.xori %a, %l : index
    %r = arith.index_cast %b : index to i32
    return %r : i32
  }"""
        + _kernel(f"""
    %ok = arith.cmpi ult, %t, %n : index
    cf.assert %ok, "never"
    %v = func.call @me() : () -> i32
    {OWN_SLOT}
    gpu.barrier
    %w = func.call @me() : () -> i32
    %r = arith.addi %v, %w : i32
    %y = gpu.thread_id y
    %row = arith.muli %y, %n : index
    %at = arith.addi %row, %t : index
    memref.store %r, %out[%at] : memref<?xi32>
""")
        + "}"
    )
    module = device.load(compile_once(text, tmp_path))
    _agree(module, "f", (5, 3), (np.zeros(15, np.int32),))


def test_a_known_workgroup_size_bounds_the_slots(device, tmp_path):
    text = "gpu.module @k {" + _kernel(f"""
    %v = memref.load %out[%g] : memref<?xi32>
    {OWN_SLOT}
    gpu.barrier
    memref.store %v, %out[%g] : memref<?xi32>
""").replace(" kernel {", " kernel attributes {known_block_size = array<i32: 24, 1, 1>} {") + "}"  # fmt: skip
    module = device.load(compile_once(text, tmp_path))
    _agree(module, "f", 24, (RNG.integers(0, 99, 24 * GRID).astype(np.int32),))
    assert module.kernel("f").contents.context_bytes == 192  # 24 elements, rounded up, and a line apart


def test_bits_in_memory_are_seen_on_both_sides_of_a_barrier(device, tmp_path):
    """Their memory is used as bytes, by way of a cast."""
    bits, mine = f"memref<64xi1, {WG}>", "memref<2xi1, #gpu.address_space<private>>"
    text = "gpu.module @k {" + _kernel(f"""
    %shared = memref.get_global @bits : {bits}
    %p = memref.alloca() : {mine}
    %v = memref.load %out[%g] : memref<?xi32>
    %two = arith.constant 2 : i32
    %rest = arith.remui %v, %two : i32
    %bit = arith.trunci %rest : i32 to i1
    memref.store %bit, %shared[%t] : {bits}
    memref.store %bit, %p[%c1] : {mine}
    gpu.barrier
    %next = arith.addi %t, %c1 : index
    %from = arith.remui %next, %n : index
    %other = memref.load %shared[%from] : {bits}
    %own = memref.load %p[%c1] : {mine}
    %both = arith.xori %own, %other : i1
    %r = arith.extui %both : i1 to i32
    memref.store %r, %out[%g] : memref<?xi32>
""") + f'  memref.global "private" @bits : {bits} = uninitialized\n}}'  # fmt: skip
    module = device.load(compile_once(text, tmp_path))
    assert module.tier("f") == "fission"
    a = RNG.integers(0, 99, 24 * GRID).astype(np.int32)
    out = a.copy()
    module.launch("f", GRID, 24, out)
    groups = a.reshape(GRID, 24) % 2
    np.testing.assert_array_equal(out.reshape(GRID, 24), groups ^ np.roll(groups, -1, axis=1))


def test_many_slots_of_the_largest_workgroup_fit(device, tmp_path):
    """4 MB of slots would overflow a thread's stack if they lay there once per workgroup."""
    wide = "vector<8xf64>"
    products = "\n".join(
        f"%k{i} = arith.constant dense<{[float(8 * i + n) for n in range(8)]}> : {wide}\n"
        f"%q{i} = arith.mulf %w, %k{i} : {wide}"
        for i in range(64)
    )
    sums = "\n".join(f"%r{i + 1} = arith.addf %r{i}, %q{i} : {wide}" for i in range(64))
    text = "gpu.module @k {" + _kernel(f"""
    %v = memref.load %out[%g] : memref<?xi32>
    %f = arith.sitofp %v : i32 to f64
    %w = vector.broadcast %f : f64 to {wide}
    {products}
    gpu.barrier
    %r0 = arith.constant dense<0.0> : {wide}
    {sums}
    %sum = vector.reduction <add>, %r64 : {wide} into f64
    %r = arith.fptosi %sum : f64 to i32
    memref.store %r, %out[%g] : memref<?xi32>
""") + "}"  # fmt: skip
    module = device.load(compile_once(text, tmp_path, opt_level=1))
    assert module.kernel("f").contents.context_bytes > 4_000_000
    a = RNG.integers(0, 1000, 1024 * 5).astype(np.int32)
    expected = a * sum(range(512))  # exact in every order
    module.launch("f", 5, 1024, a)
    np.testing.assert_array_equal(a, expected)


def test_the_inner_loops_of_a_tiled_matmul_are_vectorised(kernels_out):
    """Barriers cost nothing but a loop nest: no call is left, and work-items fill the lanes."""
    found = functions_of(kernels_out).items()
    both = [run for name, run in found if name.startswith("gpubuild.run.") and "fmul" in run]
    assert len(both) == 2  # one for workgroups of the tile's shape, and one for any
    for matmul in both:
        assert re.search(r"fmul <8 x float>", matmul)
        assert re.search(r"fadd <8 x float>", matmul)
        assert "call void %" not in matmul
        assert "@matmul" not in matmul


def test_what_a_loop_carries_past_a_bounds_check(device, tmp_path):
    """Code behind the check must find the iteration's own values, not the next one's, or the last one's."""
    shared = f"memref<1024xi32, {WG}>"
    loop = f"""
    %tf = arith.sitofp %ti : i32 to f32
    %in = arith.cmpi ult, %t, %c3 : index
    %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%sum = %tf) -> (f32) {{
      gpu.barrier
      %part = arith.mulf %sum, %tf : f32
      %next = arith.addf %sum, %part : f32
      scf.if %in {{
        %whole = arith.fptosi %part : f32 to i32
        memref.store %whole, %s[%t] : {shared}
      }}
      WAIT
      scf.yield %next : f32
    }}
    scf.if %in {{
      %last = memref.load %s[%t] : {shared}
      memref.store %last, %out[%g] : memref<?xi32>
    }} else {{
      %whole = arith.fptosi %r : f32 to i32
      memref.store %whole, %out[%g] : memref<?xi32>
    }}"""
    kernels = _kernel(loop.replace("WAIT", ""), name="f") + _kernel(
        loop.replace("WAIT", "gpu.barrier"), name="w"
    )
    module = device.load(compile_once("gpu.module @k {" + kernels + "}", tmp_path))
    t = np.arange(7)
    expected = np.tile(np.where(t < 3, t * t * (t + 1) ** 2, t * (t + 1) ** 3), GRID)
    for name in ("f", "w"):
        assert module.tier(name) == "fission"
        out = np.zeros(7 * GRID, np.int32)
        module.launch(name, GRID, 7, out)
        np.testing.assert_array_equal(out, expected, err_msg=name)
