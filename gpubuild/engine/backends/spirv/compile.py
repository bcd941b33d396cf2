"""Compilation of one gpu.module to SPIR-V for OpenCL: MLIR, LLVM IR, a SPIR-V module."""

from __future__ import annotations

import re
from importlib import resources

from gpubuild.engine.backends.gpu_compile import (
    DeviceBuild,
    KernelInfo,
    Stage,
    check_target,
    optimize_module,
    refuse_undefined,
    run_stages,
    take_lowered,
    user_libraries,
    write_info,
)
from gpubuild.engine.backends.lowering import lower
from gpubuild.engine.backends.spirv import passes
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.mathlib import libdevice_calls
from gpubuild.model.step import CompileParams
from gpubuild.support.spirv import read_module

_LIBRARY = "opencl.ll"
_INTRINSIC = re.compile(r"@llvm\.(?=nvvm\.)")
_BUILTIN = re.compile(r"_Z\d+\w+")  # a mangled name, which LLVM's back end knows or imports
_ODD_VECTOR = re.compile(r"<(?:(?!(?:2|3|4|8|16) x )\d+ x |\d+ x ptr\b)")


def run(params: CompileParams, io: StepIO) -> None:
    """Write ``llvm``, ``object`` (SPIR-V), ``info`` and, when asked for, ``asm``.

    Raises ``UsageError`` for an unknown chip, and ``StepError``.
    """
    run_stages(DeviceBuild(params=params, io=io), STAGES)


def lower_module(build: DeviceBuild) -> None:
    """Stage: lower MLIR to an LLVM module that calls OpenCL's built-in functions."""
    lowered = lower(build.params, build.io, passes.PASSES, passes.start)
    text = _INTRINSIC.sub("@gpubuild.", lowered.llvm).replace("ptx_kernel", "spir_kernel")
    lowered.llvm = text
    take_lowered(build, lowered)
    for name, count in lowered.added.items():
        build.parameters[name] -= count


def link_libraries(build: DeviceBuild) -> None:
    """Stage: link the user's libraries, mathematics, and the definitions of intrinsics."""
    libraries = user_libraries(build.io)
    if libraries:
        llvm.link_libraries(build.module, libraries)
    own = (resources.files("gpubuild.engine.backends.spirv") / _LIBRARY).read_bytes()
    llvm.link_library(build.module, own, _LIBRARY)
    missing = [n for n in llvm.undefined_symbols(build.module) if n.startswith(libdevice_calls.PREFIX)]
    if missing:
        text = libdevice_calls.library_text(
            missing, fast_math=build.params.target.fast_math, fused=True, gpu=True
        )
        llvm.link_library(build.module, text.encode(), "mathematics")


def split_vectors(build: DeviceBuild) -> None:
    """Stage: split vectors into elements if SPIR-V lacks some: LLVM does not check this, or aborts."""
    if _ODD_VECTOR.search(str(build.module)):
        build.module = llvm.run_passes(
            build.module, "function(scalarizer<load-store;no-variable-insert-extract>)"
        )
        build.module = llvm.run_passes(build.module, "function(instcombine<no-verify-fixpoint>,dce)")


def emit_code(build: DeviceBuild) -> None:
    """Stage: generate the SPIR-V module."""
    provided = frozenset(n for n in llvm.undefined_symbols(build.module) if _BUILTIN.fullmatch(n))
    refuse_undefined(
        build,
        provided,
        (
            (libdevice_calls.PREFIX, "OpenCL devices have no such function"),
            ("malloc", "OpenCL kernels have no heap: use memref.alloca"),
        ),
    )
    # LLVM keeps what it found in the first module of a machine, or of the process: the object comes first.
    text = str(build.module) if build.params.assembly else ""  # code generation changes the module
    code = llvm.emit_object(build.module, build.machine)
    build.io.write("object", code)
    if text:
        target = build.params.target
        machine = llvm.target_machine(target.triple, "", build.features, target.opt_level)
        module = llvm.parse_assembly(text, llvm.new_context(target.triple))
        build.io.write("asm", llvm.emit_assembly(module, machine))
    found = {kernel.name: kernel for kernel in read_module(code).kernels}
    build.kernels = [
        KernelInfo(name=name, shared_bytes=found[name].workgroup_bytes) for name in build.kernel_names
    ]


STAGES: tuple[Stage[DeviceBuild], ...] = (
    ("check", check_target),
    ("lower", lower_module),
    ("link", link_libraries),
    ("optimize", optimize_module),
    ("split", split_vectors),
    ("emit", emit_code),
    ("info", write_info),
)
