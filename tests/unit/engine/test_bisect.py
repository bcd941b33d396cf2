"""Failures without a location: the search for their operation."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.engine.device_steps import compile_params, in_child, tools

from gpubuild.engine import bisect
from gpubuild.engine.dispatch import run_job
from gpubuild.engine.ir import contexts
from gpubuild.errors import Diagnostic
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput
from gpubuild.model.step import StepKind

# LLVM aborts on the power ("Cannot select"), in a loop, in a function that only the second kernel calls.
POWER = """gpu.module @k {
  func.func @scale(%v: f32, %n: index) -> f32 {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %v) -> f32 {
      %t = arith.addf %s, %v : f32
      %p = llvm.intr.pow(%t, %s) : (f32, f32) -> f32
      %u = arith.mulf %p, %v : f32
      scf.yield %u : f32
    }
    return %r : f32
  }
  gpu.func @plain(%a: memref<?xf32>, %i: index, %x: f32) kernel {
    %v = math.exp %x : f32
    memref.store %v, %a[%i] : memref<?xf32>
    gpu.return
  }
  gpu.func @f(%a: memref<?xf32>, %i: index, %x: f32) kernel {
    %v = func.call @scale(%x, %i) : (f32, index) -> f32
    memref.store %v, %a[%i] : memref<?xf32>
    gpu.return
  }
}
"""
PARAMETER = """gpu.module @k {
  gpu.func @f(%x: f32) kernel {
    gpu.return
  }
  gpu.func @large(%a: memref<?xf32>, %i: index, %s: !llvm.array<2000 x f32>) kernel {
    %x = llvm.extractvalue %s[7] : !llvm.array<2000 x f32>
    memref.store %x, %a[%i] : memref<?xf32>
    gpu.return
  }
}
"""
# Unknown to LLVM; ptxas would look for a function with dots in its name.
NO_INTRINSIC = """gpu.module @k {
  func.func private @"llvm.no.such"(f32) -> f32
  gpu.func @f(%a: memref<?xf32>, %i: index, %x: f32) kernel {
    %v = func.call @"llvm.no.such"(%x) : (f32) -> f32
    memref.store %v, %a[%i] : memref<?xf32>
    gpu.return
  }
}
"""
GOOD = POWER.replace("llvm.intr.pow(%t, %s) : (f32, f32) -> f32", "arith.addf %t, %s : f32")


def sites(folder: Path, text: str, chip: str) -> tuple[Diagnostic, ...]:
    def located() -> str:
        with contexts.context():
            return contexts.located_text(contexts.parse(text, source_name="user.mlir").operation)

    located_text = in_child(located)
    path = folder / "located"
    path.write_text(located_text)
    workdir = folder / "work"
    workdir.mkdir()
    job = Job(
        step_id="compile",
        kind=StepKind.COMPILE,
        params=compile_params(chip),
        inputs=(JobInput(name="located", path=path, digest=digest_bytes(located_text.encode())),),
        output_names=(),
        tools=tools(),
        workdir=workdir,
    )
    return bisect.find(job, run_job)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (POWER, 7, "'llvm.intr.pow' in @scale: the error disappears without this operation"),
        (PARAMETER, 5, "'gpu.func' @large: the error disappears without this operation"),
        (
            NO_INTRINSIC,
            4,
            "'func.call' of @llvm.no.such in kernel @f: the error disappears without this operation",
        ),
    ],
)
def test_the_operation_is_found(tmp_path: Path, text: str, line: int, message: str) -> None:
    (site,) = sites(tmp_path, text, "sm_80")
    assert site.location is not None and site.location.line == line and site.location.file == "user.mlir"
    assert site.message.startswith(message)


def test_nothing_is_blamed_without_a_failure(tmp_path: Path) -> None:
    assert sites(tmp_path, GOOD, "sm_80") == ()
