"""`gpubuild.constant`: values of `constants:` in constants of MLIR sources."""

from pathlib import Path

import pytest
from unit.engine.device_steps import outline_source
from unit.engine.steps import failing_step

from gpubuild.model.step import OutlineParams, StepKind

SOURCE = """\
gpu.module @k {
  gpu.func @k(%out: memref<?xf32>) kernel {
    %tile = arith.constant {gpubuild.constant = "TILE"} 8 : index
    %scale = arith.constant {gpubuild.constant = "SCALE"} 1.0 : f32
    %row = arith.constant {gpubuild.constant = "SCALE"} dense<0.0> : vector<4xf32>
    memref.store %scale, %out[%tile] : memref<?xf32>
    vector.store %row, %out[%tile] : memref<?xf32>, vector<4xf32>
    gpu.return
  }
}
func.func @flag() -> (i1, i8) {
  %on = arith.constant {gpubuild.constant = "ON"} false
  %byte = arith.constant {gpubuild.constant = "BYTE"} 0 : i8
  return %on, %byte : i1, i8
}
"""
GIVEN = ("TILE=0x20", "SCALE=2", "ON=true", "BYTE=-128")


def test_values() -> None:
    outputs = outline_source(SOURCE, constants=GIVEN)
    module, host = outputs["module.0.mlir"], outputs["host.mlir"]
    assert "gpubuild" not in module + host
    for text in ("32 : index", "2.000000e+00 : f32", "dense<2.000000e+00> : vector<4xf32>"):
        assert f"arith.constant {text}" in module
    assert "arith.constant true" in host
    assert "arith.constant -128 : i8" in host
    # The values that the source has are not in what is compiled.
    assert (
        outline_source(SOURCE.replace(" 8 : index", " 9 : index"), constants=GIVEN)["module.0.mlir"] == module
    )


@pytest.mark.parametrize(
    "given, place, message",
    [
        (GIVEN[1:], (3, 13), "`constants:` has no 'TILE'"),
        (("TIL=1", *GIVEN[1:]), (3, 13), "has no 'TILE' (did you mean 'TIL'?)"),
        (("TILE=2.5", *GIVEN[1:]), (3, 13), "TILE = 2.5 is no index"),
        (("TILE=x", *GIVEN[1:]), (3, 13), "TILE = x is no index"),
        ((*GIVEN[:3], "BYTE=256"), (13, 11), "BYTE = 256 is no i8"),
    ],
)
def test_errors(tmp_path: Path, given: tuple[str, ...], place: tuple[int, int], message: str) -> None:
    params = OutlineParams(constants=given, source_name="k.mlir")
    error = failing_step(tmp_path, StepKind.OUTLINE, params, {"source": SOURCE.encode()}, ())
    (flaw,) = error.diagnostics
    assert (flaw.location.line, flaw.location.column) == place
    assert message in flaw.message
    assert "constants: {NAME: VALUE}" in error.hint


def test_it_is_for_constants_only(tmp_path: Path) -> None:
    source = 'func.func private @f() attributes {gpubuild.constant = "TILE"}\n'
    error = failing_step(tmp_path, StepKind.OUTLINE, OutlineParams(), {"source": source.encode()}, ())
    assert "is for arith.constant" in error.diagnostics[0].message
