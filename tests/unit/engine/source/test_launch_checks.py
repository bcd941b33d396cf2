"""Launches with less dynamic workgroup memory than the kernel's views need are refused."""

import pytest
from unit.engine.device_steps import in_child, outline_source
from unit.engine.steps import refused

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.source import launch_checks

TEXT = """module attributes {{gpu.container_module}} {{
  gpu.module @kernels {{
    gpu.func @tile(%shift: index, %use: i1) kernel {{
      %c0 = arith.constant 0 : index
      %c64 = arith.constant 64 : index
      %all = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
      {body}
      gpu.return
    }}
  }}
  func.func @run(%x: index, %use: i1, %unknown: i32) {{
    %c1 = arith.constant 1 : index
    %few = arith.constant 191 : i32
    %enough = arith.constant 192 : i32
    gpu.launch_func @kernels::@tile blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1)
      {given} args(%x : index, %use : i1)
    return
  }}
}}
"""
VIEW = (
    "%v{0} = memref.view %all[%{1}][] : memref<?xi8, #gpu.address_space<workgroup>>"
    " to memref<{2}, #gpu.address_space<workgroup>>"
)
TWO = VIEW.format(0, "c0", "4x4xf32") + "\n      " + VIEW.format(1, "c64", "4x4xindex")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "gives @kernels::@tile no dynamic workgroup memory; it uses 192 bytes"),
        ("dynamic_shared_memory_size %few", "gives @kernels::@tile 191 bytes of dynamic workgroup memory"),
    ],
)
def test_too_little(given: str, said: str) -> None:
    error = refused(outline_source, TEXT.format(body=TWO, given=given), name="run.mlir")
    (found,) = error.diagnostics
    assert said in found.message
    assert str(found.location) == "run.mlir:16:5"
    assert "dynamic_shared_memory_size" in error.hint


@pytest.mark.parametrize(
    ("body", "given"),
    [
        (TWO, "dynamic_shared_memory_size %enough"),
        (TWO, "dynamic_shared_memory_size %unknown"),
        ("", ""),
        (VIEW.format(0, "shift", "4xf32"), ""),  # where it begins is not known
        (f"scf.if %use {{ {TWO} }}", ""),  # perhaps not made by this launch
    ],
)
def test_what_may_be_right(body: str, given: str) -> None:
    assert outline_source(TEXT.format(body=body, given=given))["index.json"]


def test_a_launch_in_place() -> None:
    text = """func.func @run() {
  %c1 = arith.constant 1 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
      threads(%tx, %ty, %tz) in (%sx = %c1, %sy = %c1, %sz = %c1) {
    %c0 = arith.constant 0 : index
    %all = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>
    %v = memref.view %all[%c0][] : memref<?xi8, #gpu.address_space<workgroup>>
      to memref<8xf16, #gpu.address_space<workgroup>>
    %x = memref.load %v[%c0] : memref<8xf16, #gpu.address_space<workgroup>>
    memref.store %x, %v[%c0] : memref<8xf16, #gpu.address_space<workgroup>>
    gpu.terminator
  }
  return
}
"""
    error = refused(outline_source, text)
    assert "it uses 16 bytes" in error.diagnostics[0].message


# ---- known grids ----


GRID_TEXT = """module attributes {gpu.container_module} {
  gpu.module @m {
    gpu.func @k() kernel attributes {KNOWN = array<i32: 2, 2, 1>} {
      gpu.return
    }
  }
  func.func @main(%n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.muli %c2, %c2 : index
    gpu.launch_func @m::@k blocks in (GRID) threads in (%c1, %c1, %c1)
    %t = gpu.launch_func async @m::@k blocks in (GRID) threads in (%c1, %c1, %c1)
    %u = gpu.launch_func async [%t] @m::@k blocks in (GRID) threads in (%c1, %c1, %c1)
    return
  }
}
"""


def _done(text: str) -> tuple[list[str], str]:
    with contexts.context():
        module = contexts.parse(text, source_name="k.mlir")
        warnings = launch_checks.drop_contradicted(module, SourceText(text, "k.mlir"))
        return [warning.render() for warning in warnings], str(module)


@pytest.mark.parametrize("name", ["known_grid_size", "gpu.known_grid_size"])
@pytest.mark.parametrize("grid", ["%c4, %c4, %c1", "%c2, %c1, %c2", "%n, %c4, %c1"])
def test_a_launch_says_otherwise(name: str, grid: str) -> None:
    warnings, text = in_child(_done, GRID_TEXT.replace("KNOWN", name).replace("GRID", grid))
    has = grid.replace(",", " x").replace("%c", "").replace("%n", "?")
    (warning,) = warnings
    assert warning.startswith(
        f"k.mlir:12:5: warning: @m::@k: {name} is 2 x 2 x 1, and this launch has {has}: "
        "the kernel's attribute is ignored"
    )
    assert "known_grid_size" not in text


@pytest.mark.parametrize("grid", ["%c2, %c2, %c1", "%n, %c2, %c1", "%c0, %c4, %c1"])
def test_what_nothing_contradicts_stays(grid: str) -> None:
    warnings, text = in_child(_done, GRID_TEXT.replace("KNOWN", "known_grid_size").replace("GRID", grid))
    assert (warnings, "known_grid_size = array<i32: 2, 2, 1>" in text) == ([], True)
