"""LLVM source: compile a host source that is LLVM IR, as text or bitcode, to an object."""

from __future__ import annotations

from gpubuild.engine.host import object_code
from gpubuild.engine.ir.llvm import new_context, parse_assembly, parse_bitcode
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import LlvmParams


def run(params: LlvmParams, io: StepIO) -> None:
    """Compile input ``source`` to output ``object``.

    A module without a triple takes the host's; one for another machine is a ``StepError``, as is
    text that does not parse (with its line and column) and IR that does not verify.
    """
    name = params.source_name or io.path("source").name
    with io.stage("parse"):
        context = new_context()
        if params.bitcode:
            module = parse_bitcode(io.read("source"), context, name=name)
        else:
            module = parse_assembly(io.text("source"), context, name=name)
        triple = module.triple
        if triple and triple.partition("-")[0] != params.triple.partition("-")[0]:
            raise StepError(
                f"{name} is for {triple}; host code is compiled for {params.triple}",
                hint="device libraries belong under device_libs:, not under sources:",
            )
    object_code.write_object(str(module), triple=params.triple, opt_level=params.opt_level, io=io)
