"""Write what callers of a library use (step ``interface``): header, Python module, entry points."""

from __future__ import annotations

from gpubuild.engine.host import c_header, call_table, interface, python_module
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.model.step import InterfaceParams


def run(params: InterfaceParams, io: StepIO) -> None:
    """Write ``header``, ``module`` and ``object``."""
    functions: dict[str, interface.Function] = {}
    with io.stage("write interface"):
        for role in io.input_names:
            for function in interface.read(io.text(role)):
                functions.setdefault(function["name"], function)
        listed = list(functions.values())
        io.write("header", c_header.write(params.program, listed))
        io.write("module", python_module.write(params.program, listed))
    with io.stage("emit object"):
        machine = llvm.target_machine(params.triple, "generic", "", 2)
        made = llvm.parse_assembly(
            call_table.write(params.program, listed), llvm.new_context(), name="interface"
        )
        llvm.set_target(made, machine)
        io.out_path("object").write_bytes(llvm.emit_object(made, machine))
