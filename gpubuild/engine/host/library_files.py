"""Write what callers of a library use (step ``interface``): header, Python module, entry points."""

from __future__ import annotations

from gpubuild.engine.host import c_header, call_table, interface, python_module
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.model.step import InterfaceParams


def run(params: InterfaceParams, io: StepIO) -> None:
    """Write ``header``, ``object`` and, with ``python``, ``module``."""
    found = interface.Interface(functions=[], kernels=[])
    with io.stage("write interface"):
        for role in io.input_names:
            read = interface.read(io.text(role))
            names = {function["name"] for function in found["functions"]}
            found["functions"] += [
                function for function in read["functions"] if function["name"] not in names
            ]
            found["kernels"] += read["kernels"] if params.kernels else []
        io.write("header", c_header.write(params.program, found["functions"]))
        if params.python:
            io.write("module", python_module.write(params.program, found))
    with io.stage("emit object"):
        machine = llvm.target_machine(params.triple, "generic", "", 2)
        made = llvm.parse_assembly(
            call_table.write(params.program, found, table=params.python), llvm.new_context(), name="interface"
        )
        llvm.set_target(made, machine)
        io.out_path("object").write_bytes(llvm.emit_object(made, machine))
