"""Checks that remain in the copy of a kernel that runs where proofs hold, and in the other one.

Errors that proofs must not hide are in programs that run: tests/e2e/test_checked.py.
"""

import pytest
from mlir import ir

from gpubuild.cli.single_pass import target_params
from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.fission.uniformity import VERSIONED, nested
from gpubuild.engine.backends.cpu.passes import PASSES, start
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import run_passes, selected
from gpubuild.targets.target import Sanitize

WG = "memref<16x16xf32, #gpu.address_space<workgroup>>"
SUMS = "memref<256xf32, #gpu.address_space<workgroup>>"
HEAD = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c16 = arith.constant 16 : index
      %tx = gpu.thread_id x
      %ty = gpu.thread_id y
      %x = gpu.global_id x
      %y = gpu.global_id y
      %one = arith.constant 1.0 : f32
      %n = memref.dim %A, %c0 : memref<?x?xf32>
"""
TILES = f"""
      scf.for %k = %c0 to %n step %c16 {{
        %kx = arith.addi %k, %tx : index
        %a = memref.load %A[%y, %kx] : memref<?x?xf32>
        memref.store %a, %s[%ty, %tx] : {WG}
        gpu.barrier
        scf.for %j = %c0 to %c16 step %c1 {{
          %v = memref.load %s[%j, %tx] : {WG}
          memref.store %v, %B[%y, %x] : memref<?x?xf32>
        }}
        gpu.barrier
      }}"""
STENCIL = """
      %x1 = arith.addi %x, %c1 : index
      %last = arith.subi %n, %c1 : index
      %in = arith.cmpi ult, %x1, %last : index
      scf.if %in {
        %x2 = arith.addi %x1, %c1 : index
        %a = memref.load %A[%x, %c0] : memref<?x?xf32>
        %b = memref.load %A[%x2, %c0] : memref<?x?xf32>
        memref.store %b, %B[%x1, %y] : memref<?x?xf32>
      }"""
# The index comes from memory: its range is not known.
INDIRECT = """
      %i = memref.load %C[%x] : memref<?xindex>
      %a = memref.load %A[%i, %c0] : memref<?x?xf32>
      memref.store %a, %B[%y, %x] : memref<?x?xf32>"""
NEIGHBOURS = f"""
      memref.store %one, %s[%ty, %tx] : {WG}
      %a = memref.load %s[%tx, %ty] : {WG}"""
TREE = f"""
      memref.store %one, %t[%tx] : {SUMS}
      gpu.barrier
      %c8 = arith.constant 8 : index
      %c128 = arith.constant 128 : index
      %e = scf.for %k = %c0 to %c8 step %c1 iter_args(%h = %c128) -> index {{
        %in = arith.cmpi ult, %tx, %h : index
        scf.if %in {{
          %far = arith.addi %tx, %h : index
          %a = memref.load %t[%tx] : {SUMS}
          %b = memref.load %t[%far] : {SUMS}
          %z = arith.addf %a, %b : f32
          memref.store %z, %t[%tx] : {SUMS}
        }}
        gpu.barrier
        %next = arith.shrui %h, %c1 : index
        scf.yield %next : index
      }}
      %first = arith.cmpi eq, %tx, %c0 : index
      scf.if %first {{
        %sum = memref.load %t[%c0] : {SUMS}
        %bx = gpu.block_id x
        memref.store %sum, %B[%bx, %c0] : memref<?x?xf32>
      }}"""
# Rows of a matrix in a buffer of one dimension.
FLAT = """
      %bx = gpu.block_id x
      %n1 = memref.dim %A, %c1 : memref<?x?xf32>
      %row = arith.muli %y, %n1 : index
      %at = arith.addi %row, %x : index
      memref.store %c1, %C[%at] : memref<?xindex>"""
HALO = f"""
      memref.store %one, %t[%tx] : {SUMS}
      %edge = arith.cmpi eq, %tx, %c0 : index
      scf.if %edge {{ memref.store %one, %t[%c16] : {SUMS} }}"""
BACK = f"""
      %d = memref.load %C[%x] : memref<?xindex>
      %far = arith.cmpi uge, %tx, %d : index
      scf.if %far {{
        %back = arith.subi %tx, %d : index
        %a = memref.load %t[%back] : {SUMS}
      }}"""
INNER = """
      %inside = arith.cmpi ugt, %x, %c0 : index
      scf.if %inside {
        %left = arith.subi %x, %c1 : index
        %a = memref.load %A[%left, %y] : memref<?x?xf32>
      }
      %short = arith.subi %n, %c1 : index
      %other = arith.cmpi ne, %short, %y : index
      scf.if %other {
        %o = memref.load %A[%x, %y] : memref<?x?xf32>
      }
      %edge = arith.cmpi eq, %y, %c0 : index
      scf.if %edge {
      } else {
        %up = arith.subi %y, %c1 : index
        %b = memref.load %A[%x, %up] : memref<?x?xf32>
      }"""
TILE = "memref<16x16xf32, #gpu.address_space<workgroup>>"
DYNAMIC = f"""
      %c1024 = arith.constant SECOND : index
      %all = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      %p = memref.view %all[%c0][] : memref<?xi8, #gpu.address_space<workgroup>> to {TILE}
      %q = memref.view %all[%c1024][] : memref<?xi8, #gpu.address_space<workgroup>> to {TILE}
      memref.store %one, %p[%ty, %tx] : {TILE}
      memref.store %one, %q[%ty, %tx] : {TILE}
      gpu.barrier
      %a = memref.load %p[%ty, %c0] : {TILE}
      %b = memref.load %q[%c0, %tx] : {TILE}"""
VIEW = """
      %v = memref.reinterpret_cast %A to offset: [0], sizes: [64], strides: [1]
        : memref<?x?xf32> to memref<64xf32>
      memref.store %one, %v[%tx] : memref<64xf32>"""


def left(body: str, *kinds: Sanitize) -> list[tuple[int, int]]:
    """Return (recorded accesses, checked dimensions) of the copy with fewer checks, and of the other one.

    A kernel with one copy has one entry.
    """
    return [
        (c.count(image_layout.CHECK_ACCESS), c.count(image_layout.CHECK_BOUNDS)) for c in calls(body, *kinds)
    ]


def calls(body: str, *kinds: Sanitize, launched: bool = False) -> list[list[str]]:
    """Return the calls of each copy; of a ``launched`` kernel only those of the copy that runs."""
    text = (
        "module { gpu.module @m { gpu.func @k(%A: memref<?x?xf32>, %B: memref<?x?xf32>, %C: memref<?xindex>)"
        f" workgroup(%s : {WG}, %t : {SUMS}) kernel {{{HEAD}{body}\n      gpu.return\n    }}\n  }}\n}}"
    )
    with contexts.context():
        module = contexts.parse(text)
        source = SourceText(text, "k.mlir")
        lowering = start(target_params("cpu", sanitize=",".join(kinds)), source)
        gpu_module = contexts.gpu_modules(module)[0]
        run_passes(module, selected(PASSES, "expand-masked-lanes", "insert-checks"), lowering)
        contexts.verify(module.operation, source=source)
        if launched:
            _launch(gpu_module)
            contexts.run_passes(module, "builtin.module(gpu.module(canonicalize,cse))", source=source)
        branch = [op for op in nested(gpu_module) if VERSIONED in op.attributes]
        copies = [list(region.blocks[0]) for region in branch[0].regions] if branch else [[gpu_module]]
        return [_called(copy) for copy in copies]


def _launch(gpu_module: ir.Operation) -> None:
    """Set the sizes: 4 x 4 workgroups of 16 x 16, matrices of 64 x 64, an array of as many elements."""
    for op in nested(gpu_module):
        if op.name in ("gpu.block_dim", "gpu.grid_dim", "memref.dim"):
            array = op.name == "memref.dim" and ir.MemRefType(op.operands[0].type).rank == 1
            one = "dim z" in str(op.attributes["dimension"]) if op.name != "memref.dim" else False
            size = 1 if one else {"gpu.block_dim": 16, "gpu.grid_dim": 4}.get(op.name, 64**2 if array else 64)
            op.results[0].replace_all_uses_with(Emitter(op).constant(size))


def _called(ops: list[ir.Operation]) -> list[str]:
    inner = [op for top in ops for op in nested(top.operation) if op.name == "func.call"]
    return [ir.FlatSymbolRefAttr(op.attributes["callee"]).value for op in inner]


@pytest.mark.parametrize(
    ("body", "fast", "whole"),
    [(TILES, 0, 8), (STENCIL, 0, 6), (INDIRECT, 2, 5)],
    ids=["tiles", "stencil", "indirect"],
)
def test_indices_with_a_range_are_not_checked(body: str, fast: int, whole: int) -> None:
    assert left(body, Sanitize.BOUNDS) == [(0, fast), (0, whole)]


@pytest.mark.parametrize(
    ("body", "fast", "whole"),
    [
        (TILES, 0, 4),
        (STENCIL, 0, 3),
        (INDIRECT, 0, 3),
        (TREE, 0, 6),
        (NEIGHBOURS, 2, 2),
        (FLAT, 0, 1),
        (HALO, 2, 2),
        (DYNAMIC.replace("SECOND", "1024"), 0, 4),
        (DYNAMIC.replace("SECOND", "1020"), 2, 4),
    ],
    ids=[
        "tiles", "stencil", "indirect", "tree", "neighbours", "flat", "halo", "parts of dynamic memory",
        "parts that overlap",
    ],
)  # fmt: skip
def test_accesses_without_conflicts_are_not_recorded(body: str, fast: int, whole: int) -> None:
    expected = [(fast, 0), (whole, 0)] if fast < whole else [(whole, 0)]
    assert left(body, Sanitize.RACE) == expected


def test_initialized_workgroup_memory_is_not_checked() -> None:
    assert left(TILES, Sanitize.UNINITIALIZED) == [(0, 0), (2, 0)]
    assert left(DYNAMIC.replace("SECOND", "1024"), Sanitize.UNINITIALIZED)[0] == (0, 0)
    assert left(DYNAMIC.replace("SECOND", "1020"), Sanitize.UNINITIALIZED) == [(4, 0)]
    assert left(NEIGHBOURS, Sanitize.UNINITIALIZED) == [(2, 0)]  # no barrier between the two


def test_a_reinterpret_cast_has_no_proof() -> None:
    assert left(VIEW, Sanitize.RACE) == [(1, 0)]


def test_all_checks_together() -> None:
    # The two checks are of host memory.
    assert left(TILES, *Sanitize) == [(2, 0), (4, 8)]


@pytest.mark.parametrize(
    ("body", "expected"), [(TREE, [0, 2]), (TILES, [0, 2]), (NEIGHBOURS + "\ngpu.barrier", [1])]
)
def test_barriers_are_counted_only_where_accesses_are_recorded(body: str, expected: list[int]) -> None:
    """In a copy without records they would only slow down loops with barriers."""
    assert [c.count(image_layout.CHECK_MEET) for c in calls(body, Sanitize.RACE)] == expected


@pytest.mark.parametrize(
    ("body", "kind"),
    [(FLAT, Sanitize.RACE), (FLAT, Sanitize.BOUNDS), (BACK, Sanitize.BOUNDS), (INNER, Sanitize.BOUNDS)],
)
def test_conditions_hold_for_usual_launches(body: str, kind: Sanitize) -> None:
    assert calls(body, kind, launched=True) == [[]]
