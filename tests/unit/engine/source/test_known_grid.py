"""Known grid sizes of kernels that contradict a launch are ignored, with a warning."""

from __future__ import annotations

import pytest
from unit.engine.device_steps import in_child

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.source import launch_checks

TEXT = """module attributes {gpu.container_module} {
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
    warnings, text = in_child(_done, TEXT.replace("KNOWN", name).replace("GRID", grid))
    has = grid.replace(",", " x").replace("%c", "").replace("%n", "?")
    (warning,) = warnings
    assert warning.startswith(
        f"k.mlir:12:5: warning: @m::@k: {name} is 2 x 2 x 1, and this launch has {has}: "
        "the kernel's attribute is ignored"
    )
    assert "known_grid_size" not in text


@pytest.mark.parametrize("grid", ["%c2, %c2, %c1", "%n, %c2, %c1", "%c0, %c4, %c1"])
def test_what_nothing_contradicts_stays(grid: str) -> None:
    warnings, text = in_child(_done, TEXT.replace("KNOWN", "known_grid_size").replace("GRID", grid))
    assert (warnings, "known_grid_size = array<i32: 2, 2, 1>" in text) == ([], True)
