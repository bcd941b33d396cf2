"""Kernels to WebAssembly objects. Work-item ids are functions that the machine provides."""

from __future__ import annotations

import re

from gpubuild.engine.backends.gpu_compile import KernelInfo, info_json
from gpubuild.engine.ir import contexts, llvm
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.query import kernel_functions
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.model.step import CompileParams

PASSES = (
    "builtin.module(gpu.module(convert-scf-to-cf,expand-strided-metadata,"
    "convert-gpu-to-nvvm{index-bitwidth=32},canonicalize,cse,reconcile-unrealized-casts))"
)
_REGISTER = re.compile(r"llvm\.nvvm\.read\.ptx\.sreg\.(\w+)\.([xyz])")


def run(params: CompileParams, io: StepIO) -> None:
    with io.stage("lower"), contexts.context():
        text = io.text("module")
        source = SourceText(text, f"@{params.module}")
        module = contexts.parse(text)
        contexts.run_passes(module, PASSES, source=source)
        (kernels,) = contexts.gpu_modules(module)
        entries = [f.attributes["sym_name"].value for f in kernel_functions(kernels)]
        ir = contexts.translate(kernels, target=params.module, source=source)
    ir = _REGISTER.sub(r"work_item_\1_\2", ir).replace("ptx_kernel ", "")
    with io.stage("emit"):
        code = llvm.parse_assembly(ir, llvm.new_context(params.target.triple))
        chip = params.target.chip.removeprefix("wasm-")
        machine = llvm.target_machine(
            params.target.triple, chip, params.target.features, params.target.opt_level
        )
        llvm.set_target(code, machine)
        llvm.optimize(code, machine, params.target.opt_level)
        io.write("llvm", str(code))
        assembly, data = llvm.emit_both(code, machine)
        io.write("asm", assembly)
        io.write("object", data)
        infos = [
            KernelInfo(
                name=name,
                parameters=len(list(code.get_function(name).arguments)),
                registers=len(re.findall(r"\.local", assembly)) + 1,
            )
            for name in entries
        ]
        io.write("info", info_json(infos))
