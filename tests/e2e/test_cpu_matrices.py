"""Matrix operations on the CPU: fission, fibers and NumPy agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from e2e.cpu_harness import compile_module
from e2e.cpu_harness import load as load_module

from gpubuild.errors import StepError

RNG = np.random.default_rng(5)
WG = "#gpu.address_space<workgroup>"
SHAPES = [(16, 16, 16), (8, 32, 16), (32, 8, 16), (16, 16, 8), (5, 7, 3), (64, 48, 2)]  # M, N, K
MIXES = {"f16": ("f16", "f32"), "half": ("f16", "f16"), "f32": ("f32", "f32"), "f64": ("f64", "f64"),
         "si8": ("si8", "i32"), "ui8": ("ui8", "i32")}  # fmt: skip
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "si8": np.int8,
         "ui8": np.uint8}  # fmt: skip

Case = tuple[tuple[int, int, int], str, bool]  # M, N and K, a key of MIXES, whether memory is transposed


def matrix(rows: int, columns: int, element: str, role: str) -> str:
    return f'!gpu.mma_matrix<{rows}x{columns}x{element}, "{role}Op">'


def load(name: str, memory: str, at: str, lead: int, space: str, kind: str, transposed: bool = False) -> str:
    flag = ", transpose" if transposed else ""
    return (f"%{name} = gpu.subgroup_mma_load_matrix %{memory}[{at}] "
            f"{{leadDimension = {lead} : index{flag}}} : {space} -> {kind}\n")  # fmt: skip


def store(name: str, kind: str, memory: str, at: str, lead: int, space: str, transposed: bool = False) -> str:
    flag = ", transpose" if transposed else ""
    return (f"gpu.subgroup_mma_store_matrix %{name}, %{memory}[{at}] "
            f"{{leadDimension = {lead} : index{flag}}} : {kind}, {space}\n")  # fmt: skip


def multiplication(name: str, m: int, n: int, k: int, mix: str, turned: bool) -> str:
    """Each subgroup multiplies its own A and B, which lie in rows with 3 elements to spare."""
    operand, result = MIXES[mix]
    memory, out = f"memref<?x?x{operand[-2:] if operand[0] in 'su' else operand}>", f"memref<?x?x{result}>"
    a, b, c = (matrix(m, k, operand, "A"), matrix(k, n, operand, "B"), matrix(m, n, result, "C"))
    leads = [(rows if turned else columns) + 3 for rows, columns in ((m, k), (k, n), (m, n))]
    body = "".join(
        load(letter.upper(), letter, "%sg, %c2", lead, space, kind, turned)
        for letter, lead, space, kind in zip("abc", leads, (memory, memory, out), (a, b, c), strict=True)
    )
    body += f"%D = gpu.subgroup_mma_compute %A, %B, %C : {a}, {b} -> {c}\n"
    body += store("D", c, "c", "%sg, %c2", leads[2], out, turned)
    return f"""
  gpu.func @{name}(%a: {memory}, %b: {memory}, %c: {out}) kernel {{
    %c2 = arith.constant 2 : index
    %sg = gpu.subgroup_id : index
    {body}
    gpu.return
  }}"""


def products(cases: Sequence[Case]) -> str:
    """Return a kernel ``m<number>`` for each case."""
    return "".join(
        multiplication(f"m{i}", *shape, mix, turned) for i, (shape, mix, turned) in enumerate(cases)
    )


CASES = [(shape, mix, turned) for shape, mix in product(SHAPES, MIXES) for turned in (False, True)
         if shape == SHAPES[0] or (mix == "f16") or (mix == "si8" and not turned)]  # fmt: skip
A, B, C = (matrix(16, 16, *rest) for rest in (("f32", "A"), ("f32", "B"), ("f32", "C")))
FLAT = "memref<?xf32>"
TILE = f"memref<32x24xf32, {WG}>"

SPECIAL = f"""
  // A = A * B in place, again and again: nobody may store before all have loaded.
  gpu.func @in_place(%a: {FLAT}, %b: {FLAT}, %n: index) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c256 = arith.constant 256 : index
    %sg = gpu.subgroup_id : index
    %at = arith.muli %sg, %c256 : index
    %z = arith.constant 0.0 : f32
    scf.for %i = %c0 to %n step %c1 {{
      {load("A", "a", "%at", 16, FLAT, A)}
      {load("B", "b", "%c0", 16, FLAT, B)}
      %C = gpu.subgroup_mma_constant_matrix %z : {C}
      %D = gpu.subgroup_mma_compute %A, %B, %C : {A}, {B} -> {C}
      {store("D", C, "a", "%at", 16, FLAT)}
    }}
    gpu.return
  }}
  // Only the first subgroup works, and each lane of it changes the memory behind the others' backs.
  gpu.func @one_subgroup(%a: {FLAT}, %c: {FLAT}) kernel {{
    %c0 = arith.constant 0 : index
    %c255 = arith.constant 255 : index
    %c8 = arith.constant 8 : index
    %sg = gpu.subgroup_id : index
    %t = gpu.thread_id x
    %z = arith.constant 0.0 : f32
    %one = arith.constant 1.0 : f32
    %first = arith.cmpi eq, %sg, %c0 : index
    scf.if %first {{
      {load("X", "a", "%c0", 16, FLAT, C)}
      %spot = arith.muli %t, %c8 : index
      %back = arith.subi %c255, %spot : index
      memref.store %one, %a[%back] : {FLAT}
      {load("Y", "a", "%c0", 16, FLAT, C)}
      %D = gpu.subgroup_mma_elementwise addf %X, %Y : ({C}, {C}) -> {C}
      {store("D", C, "c", "%c0", 16, FLAT)}
      %other = memref.load %c[%back] : {FLAT}
      memref.store %other, %a[%spot] : {FLAT}
    }}
    gpu.return
  }}
  // Tiles in workgroup memory with padded rows; the sum goes around a loop with barriers, and through scf.if.
  gpu.func @tiled(%a: memref<?x16xf32>, %b: memref<?x16xf32>, %c: memref<?x16xf32>, %n: index)
      workgroup(%s: {TILE}, %r: {TILE}) kernel {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %sg = gpu.subgroup_id : index
    %l = gpu.lane_id
    %t = gpu.thread_id x
    %z = arith.constant 0.0 : f32
    %half = arith.divui %t, %c16 : index
    %column = arith.remui %t, %c16 : index
    %base = arith.muli %sg, %c16 : index
    %zero = gpu.subgroup_mma_constant_matrix %z : {C}
    %sum = scf.for %k = %c0 to %n step %c16 iter_args(%acc = %zero) -> ({C}) {{
      scf.for %row = %c0 to %c16 step %c1 {{
        %from = arith.addi %k, %row : index
        %in = arith.cmpi ult, %t, %c16 : index
        scf.if %in {{
          %x = memref.load %a[%from, %column] : memref<?x16xf32>
          memref.store %x, %s[%row, %column] : {TILE}
          %y = memref.load %b[%from, %column] : memref<?x16xf32>
          memref.store %y, %r[%row, %column] : {TILE}
        }}
      }}
      gpu.barrier
      {load("A", "s", "%c0, %c0", 24, TILE, A)}
      {load("B", "r", "%c0, %c0", 24, TILE, B)}
      %new = gpu.subgroup_mma_compute %A, %B, %acc : {A}, {B} -> {C}
      gpu.barrier
      %odd = arith.andi %k, %c16 : index
      %twice = arith.cmpi eq, %odd, %c0 : index
      %next = scf.if %twice -> ({C}) {{
        %two = gpu.subgroup_mma_elementwise addf %new, %new : ({C}, {C}) -> {C}
        scf.yield %two : {C}
      }} else {{
        scf.yield %new : {C}
      }}
      scf.yield %next : {C}
    }}
    %out = func.call @negated(%sum) : ({C}) -> {C}
    {store("out", C, "c", "%base, %c0", 16, "memref<?x16xf32>")}
    gpu.return
  }}
  func.func private @negated(%m: {C}) -> {C} {{
    %r = gpu.subgroup_mma_elementwise negatef %m : ({C}) -> {C}
    return %r : {C}
  }}
"""


@pytest.fixture(scope="session")
def module(tmp_path_factory):
    text = f"gpu.module @k {{{products(CASES)}{SPECIAL}}}"
    loaded = load_module(text, tmp_path_factory.mktemp("matrices"), opt_level=1)
    tiers = {k["tier"] for k in loaded.info["kernels"]}
    assert tiers == {"fission"}  # also where the lanes of one subgroup wait alone
    return loaded


def check_products(cases: Sequence[Case], launch: Callable[..., object], groups: int = 3) -> None:
    """Compare ``multiplication`` of each case, called ``m<number>``, with NumPy, for some subgroups."""
    for number, ((m, n, k), mix, turned) in enumerate(cases):
        operand, result = (TYPES[t] for t in MIXES[mix])
        low = 0 if mix == "ui8" else -4
        sizes = [(m, k), (k, n), (m, n)]
        parts = [[RNG.integers(low, 5, s) for s in sizes] for _ in range(groups)]
        memory = []
        for place, (rows, columns) in enumerate(sizes):
            flat = np.zeros((groups, (rows + 3) * (columns + 3)), (operand, operand, result)[place])
            for group in range(groups):
                value = parts[group][place].T if turned else parts[group][place]
                view = flat[group, 2 : 2 + value.shape[0] * (value.shape[1] + 3)]
                view.reshape(value.shape[0], -1)[:, : value.shape[1]] = value
            memory.append(flat)
        launch(f"m{number}", groups, memory)
        for group, (a, b, c) in enumerate(parts):
            want = (a @ b + c).T if turned else a @ b + c
            view = memory[2][group, 2 : 2 + want.shape[0] * (want.shape[1] + 3)].reshape(want.shape[0], -1)
            np.testing.assert_array_equal(view[:, : want.shape[1]], want, err_msg=f"{cases[number]}")
            assert not view[:, want.shape[1] :].any()


@pytest.mark.parametrize("fibers", [False, True])
def test_shapes_types_and_layouts(module, fibers):
    check_products(
        CASES, lambda name, groups, memory: module.launch(name, 1, 32 * groups, *memory, fibers=fibers)
    )


@pytest.mark.parametrize("fibers", [False, True])
def test_lanes_wait_before_they_store_over_what_others_load(module, fibers):
    a, b = RNG.integers(-2, 3, (2, 16, 16)), RNG.integers(-1, 2, (16, 16))
    memory = a.astype(np.float32).ravel()
    module.launch("in_place", 1, 64, memory, b.astype(np.float32).ravel(), 4, fibers=fibers)
    np.testing.assert_array_equal(memory.reshape(a.shape), a @ b @ b @ b @ b)
    x = RNG.integers(2, 9, 256).astype(np.float32)
    changed, c = x.copy(), np.zeros(256, np.float32)
    module.launch("one_subgroup", 1, 64, changed, c, fibers=fibers)
    ones = x.copy()
    ones[255 - 8 * np.arange(32)] = 1
    np.testing.assert_array_equal(c, x + ones)
    ones[8 * np.arange(32)] = (x + ones)[255 - 8 * np.arange(32)]
    np.testing.assert_array_equal(changed, ones)


def check_tiled(launch: Callable[..., object], element: type = np.float32) -> None:
    """Compare ``@tiled``, run by two subgroups, with NumPy."""
    a, b = (RNG.integers(-3, 4, (64, 16)).astype(element) for _ in range(2))
    c = np.zeros((32, 16), element)
    launch(a, b, c)
    want = np.zeros((16, 16))
    for k in range(0, 64, 16):
        want = (want + a[k : k + 16] @ b[k : k + 16]) * (1 if k % 32 else 2)
    np.testing.assert_array_equal(c, -np.vstack([want, want]))


@pytest.mark.parametrize("fibers", [False, True])
def test_sums_in_loops_branches_and_calls(module, fibers):
    check_tiled(lambda *args: module.launch("tiled", 1, (32, 2), *args, 64, fibers=fibers))


def _refused(body: str, tmp_path, attributes: str = "") -> str:
    text = f"""gpu.module @k {{ gpu.func @f(%a: {FLAT}, %h: memref<?xf16>) kernel {attributes} {{
      %c0 = arith.constant 0 : index
      {body}
      gpu.return }} }}"""
    with pytest.raises(StepError) as caught:
        compile_module(text, tmp_path)
    return "\n".join(d.message for d in caught.value.diagnostics)


def test_what_cannot_be_done_says_why(tmp_path):
    wrong = load("A", "h", "%c0", 16, "memref<?xf16>", A)
    assert "of f32 elements in memory of f16 elements" in _refused(wrong, tmp_path / "1")
    fine = load("A", "a", "%c0", 16, FLAT, A)
    size = "attributes {known_block_size = array<i32: 48, 1, 1>}"
    assert "has no whole subgroups of 32" in _refused(fine, tmp_path / "2", size)
    flag = fine + load("B", "a", "%c0", 16, FLAT, B) + load("C", "a", "%c0", 16, FLAT, C)
    flag += f"%D = gpu.subgroup_mma_compute %A, %B, %C {{a_transpose}} : {A}, {B} -> {C}"
    assert "says a_transpose of a matrix that was loaded without" in _refused(flag, tmp_path / "3")
    wide_b, wide_c = matrix(16, 64, "f32", "B"), matrix(16, 64, "f32", "C")
    two = flag.replace(" {a_transpose}", "") + "\n" + load("E", "a", "%c0", 64, FLAT, wide_b)
    two += load("F", "a", "%c0", 64, FLAT, wide_c)
    two += f"%G = gpu.subgroup_mma_compute %A, %E, %F : {A}, {wide_b} -> {wide_c}"
    assert "multiplies 16x16 operands to 16x64, and others" in _refused(two, tmp_path / "4")
