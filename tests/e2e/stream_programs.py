"""Programs whose host code uses streams, their common text; run on the CPU and a stand-in of CUDA."""

from __future__ import annotations

import os
from pathlib import Path

from e2e.command import Outcome, build_project, execute
from simulators.cuda_driver import standin

ORDERS = ("late", "early")
TARGETS = "{sm_80: {}, gfx90a: {}, cpu: {}}"
# A kernel: m = m * by + plus.
AFFINE = """
    gpu.func @affine(%m: memref<1000xi64>, %by: i64, %plus: i64) kernel {
      %i = gpu.global_id x
      %x = memref.load %m[%i] : memref<1000xi64>
      %y = arith.muli %x, %by : i64
      %z = arith.addi %y, %plus : i64
      memref.store %z, %m[%i] : memref<1000xi64>
      gpu.return
    }
"""


def program(*, main: str, before: str = "") -> str:
    """A module with ``before`` and a main function of ``main``, for which %c0, %c1 and @show are there."""
    return f"""
module attributes {{gpu.container_module}} {{
{before}
  func.func private @printI64(i64)
  func.func private @printNewline()
  func.func private @show(%v: i64) {{
    call @printI64(%v) : (i64) -> ()
    call @printNewline() : () -> ()
    return
  }}
  func.func @main() {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
{main}
    return
  }}
}}
"""


def build(folder: Path, programs: dict[str, str], cache: dict[str, str], *entries: str) -> Path:
    """The build folder of a project of these programs, and of those that ``entries`` of its file describe."""
    yaml = ["version: 1", f"targets: {TARGETS}", "programs:", *(f"  {entry}" for entry in entries)]
    for name, text in programs.items():
        # Printing from kernels is not to be had on AMD GPUs.
        only = ", targets: [sm_80, cpu]" if "gpu.printf" in text else ""
        yaml.append(f"  {name}: {{sources: [{name}.mlir]{only}}}")
    files = {f"{name}.mlir": text for name, text in programs.items()}
    return build_project(folder, "\n".join(yaml) + "\n", files, env=cache)


def run(built: Path, name: str, threads: str = "", **variables: str) -> Outcome:
    """Run a program on the CPU, with a number of threads or as many as there are CPUs.

    Or, with one of ``ORDERS`` for the threads, its PTX on the stand-in of the CUDA driver.
    """
    environment = {**os.environ, "GPUBUILD_DEVICE": "cpu", "GPUBUILD_CPU_THREADS": threads, **variables}
    if threads in ORDERS:
        modules = built.parent / "modules"
        driver = standin.environment("9.0", modules=modules, EMU_CUDA_ORDER=threads)
        environment |= {"GPUBUILD_CPU_THREADS": "", **driver}
    return execute(built / name / name, env=environment)


def assert_all_destroyed(built: Path, name: str) -> None:
    """A program ends without a stream or event of its own."""
    lines = run(built, name, GPUBUILD_TRACE="1").err.splitlines()
    for noun in ("stream", "event"):
        events = [line for line in lines if f" {noun} " in line]
        made = [line for line in events if line.endswith(" created")]
        ended = [line for line in events if line.endswith(("destroyed", "released"))]
        assert (noun, len(made)) == (noun, len(ended))
