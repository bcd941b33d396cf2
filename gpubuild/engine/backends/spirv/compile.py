"""Compilation of one gpu.module to SPIR-V for OpenCL: MLIR, LLVM IR, a SPIR-V module."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable

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
from gpubuild.engine.backends.spirv import atomics, loop_values, odd_integers, opencl, ops, passes
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.mathlib import libdevice_calls
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.support.spirv import read_module, without_extension
from gpubuild.targets.target import Target
from gpubuild.targets.vendor import split_features

_INTRINSIC = re.compile(r"@llvm\.(?=nvvm\.)")
_KERNEL = re.compile(r"^(define (?:\w+ )*)ptx_kernel ", re.MULTILINE)
_BUILTIN = re.compile(r"_Z\d+\w+")  # a mangled name, which LLVM's back end knows or imports
# LLVM looks up the type of the format of each printf among the values of the last function, by its number
# there: it ends the process at some types, and needs an extension at most others. So the last function has
# few values, and the extension is allowed and not declared.
_END = "define internal spir_func void @gpubuild.end() {\n  ret void\n}\n"
_RELAXED_PRINTF = "SPV_EXT_relaxed_printf_string_address_space"
_ASSUMPTION = re.compile(r"^ *(?:tail )?call void @llvm\.assume\(.*\n", re.MULTILINE)
_SPLIT_VECTOR = re.compile(r"<(?:(?!(?:2|3|4|8) x )\d+ x |\d+ x ptr\b)")


def run(params: CompileParams, io: StepIO) -> None:
    """Write ``llvm``, ``object`` (SPIR-V), ``info`` and, when asked for, ``asm``.

    Raises ``UsageError`` for an unknown chip, and ``StepError``.
    """
    run_stages(DeviceBuild(params=params, io=io), STAGES)


def check(build: DeviceBuild) -> None:
    """Stage: refuse unknown names. Features are extensions, which are no features of LLVM's."""
    check_target(build)
    build.features = ""


def lower_module(build: DeviceBuild) -> None:
    """Stage: lower MLIR to an LLVM module that calls OpenCL's built-in functions."""
    lowered = lower(build.params, build.io, passes.PASSES, passes.start)
    text = _KERNEL.sub(r"\1spir_kernel ", _INTRINSIC.sub("@gpubuild.", lowered.llvm))
    lowered.llvm = text
    take_lowered(build, lowered)
    for name, count in lowered.added.items():
        build.parameters[name] -= count


def link_libraries(build: DeviceBuild) -> None:
    """Stage: link the user's libraries, mathematics, and the definitions of intrinsics."""
    libraries = user_libraries(build.io)
    if libraries:
        llvm.link_libraries(build.module, libraries)
    llvm.link_library(build.module, opencl.LIBRARY.encode(), "OpenCL's functions")
    missing = [n for n in llvm.undefined_symbols(build.module) if n.startswith(libdevice_calls.PREFIX)]
    if missing:
        text = libdevice_calls.library_text(
            missing, fast_math=build.params.target.fast_math, fused=True, gpu=True
        )
        llvm.link_library(build.module, text.encode(), "mathematics")


def split_vectors(build: DeviceBuild) -> None:
    """Stage: split vectors into elements if SPIR-V lacks some: LLVM does not check this, or aborts.

    They are split, too, where some have 16 elements, as in products of matrices: Intel's compiler takes
    minutes for such products.
    """
    if _SPLIT_VECTOR.search(str(build.module)):
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
    prints = ops.PRINTF in provided
    # LLVM's code generator ends the process over assumptions with operands.
    text = odd_integers.widen(_ASSUMPTION.sub("", str(build.module)))
    text = loop_values.guard(text, all_loops=build.params.target.opt_level == 0)
    text = atomics.with_memory(text) + (f"\n{_END}" if prints else "")
    if build.params.assembly:
        lines = _emit_apart(build, text, llvm.emit_assembly, prints=prints).decode().splitlines(keepends=True)
        build.io.write("asm", "".join(line for line in lines if _RELAXED_PRINTF not in line))
    code = without_extension(_emit_apart(build, text, llvm.emit_object, prints=prints), _RELAXED_PRINTF)
    build.io.write("object", code)
    found = {kernel.name: kernel for kernel in read_module(code).kernels}
    build.kernels = [
        KernelInfo(name=name, shared_bytes=found[name].workgroup_bytes) for name in build.kernel_names
    ]


def _emit_apart(
    build: DeviceBuild,
    text: str,
    emit: Callable[[llvm.Module, llvm.Machine], str | bytes],
    *,
    prints: bool,
) -> bytes:
    """Generate code in a process of its own, and return it.

    LLVM keeps ids of a module for the next one of a process, which then defines some twice; it ends the
    process over what it does not support; and extensions are an option of the whole process.
    """
    with tempfile.TemporaryFile() as log:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.close(reader)
                os.dup2(log.fileno(), 2)
                code = _emit(build.params.target, text, emit, prints=prints)
                with os.fdopen(writer, "wb") as stream:
                    stream.write(code.encode() if isinstance(code, str) else code)
                status = 0
            finally:
                os._exit(status)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            code = stream.read()
        if os.waitpid(child, 0)[1]:
            log.seek(0)
            raise StepError("LLVM cannot generate SPIR-V for the module", output=log.read().decode())
    return code


def _emit(
    target: Target, text: str, emit: Callable[[llvm.Module, llvm.Machine], str | bytes], *, prints: bool
) -> str | bytes:
    extensions = split_features(target.features) + [f"+{_RELAXED_PRINTF}"] * prints
    if extensions:
        llvm.set_option(f"--spirv-ext={','.join(extensions)}")
    # At other levels LLVM moves addresses, and computes some in elements instead of bytes.
    machine = llvm.target_machine(target.triple, "", "", 0)
    return emit(llvm.parse_assembly(text, llvm.new_context(target.triple)), machine)


STAGES: tuple[Stage[DeviceBuild], ...] = (
    ("check", check),
    ("lower", lower_module),
    ("link", link_libraries),
    ("optimize", optimize_module),
    ("split", split_vectors),
    ("emit", emit_code),
    ("info", write_info),
)
