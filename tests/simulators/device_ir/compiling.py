"""The LLVM IR of a module as a code generator for a GPU gets it, or the PTX that it makes, and no more."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from simulators.device_ir.runner import DeviceModule
from unit.engine.device_steps import compile_params, in_child, tools

from gpubuild.engine.backends.amd import compile as amd_compile
from gpubuild.engine.backends.gpu_compile import DeviceBuild, run_stages
from gpubuild.engine.backends.nvidia import compile as nvidia_compile
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput
from gpubuild.model.step import StepKind
from gpubuild.targets.target import Kind

_BEFORE_CODE = ("check", "lower", "link", "optimize")


def optimised_ir(chip: str, text: str, **options: Any) -> str:
    """Compile the gpu.module in ``text`` in a child, up to where code generation would begin."""
    with tempfile.TemporaryDirectory() as folder:
        return in_child(_compile, Path(folder), chip, text, "llvm", options)


def ptx_text(chip: str, text: str, **options: Any) -> str:
    """Compile up to where ptxas would begin."""
    with tempfile.TemporaryDirectory() as folder:
        return in_child(_compile, Path(folder), chip, text, "asm", options)


def _compile(folder: Path, chip: str, text: str, output: str, options: dict[str, Any]) -> str:
    source = folder / "module.mlir"
    source.write_text(text)
    params = compile_params(chip, **options)
    job = Job(
        step_id="test",
        kind=StepKind.COMPILE,
        params=params,
        inputs=(JobInput(name="module", path=source, digest=digest_bytes(text.encode())),),
        output_names=("llvm", "asm"),
        tools=tools(),
        workdir=folder,
    )
    names = {*_BEFORE_CODE, "emit"} if output == "asm" else set(_BEFORE_CODE)
    if params.target.kind is Kind.NVVM:
        stages = [stage for stage in nvidia_compile.STAGES if stage[0] in names]
        run_stages(DeviceBuild(params=params, io=StepIO(job)), stages)
    else:
        stages = [stage for stage in amd_compile.STAGES if stage[0] in names]
        run_stages(amd_compile.AmdBuild(params=params, io=StepIO(job)), stages)
    return (folder / "out" / output).read_text()


def load(chip: str, text: str, **options: Any) -> DeviceModule:
    """Compile and load; to be used in a child."""
    return DeviceModule.load(optimised_ir(chip, text, **options), chip)
