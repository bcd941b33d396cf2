"""Compilation of one gpu.module for one NVIDIA chip: MLIR, LLVM IR, PTX, cubin."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from gpubuild.engine.backends import gpu_compile, libdevice
from gpubuild.engine.backends.gpu_compile import (
    DeviceBuild,
    KernelInfo,
    Stage,
    check_target,
    optimize_module,
    refuse_undefined,
    run_stages,
    take_bitcode,
    take_lowered,
    user_libraries,
    with_ptxas_locations,
    write_info,
)
from gpubuild.engine.backends.lowering import lower
from gpubuild.engine.backends.nvidia import passes, workarounds
from gpubuild.engine.ir import llvm
from gpubuild.engine.ir.kernel_table import Value
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.nvidia import ptx_features
from gpubuild.targets.target import FULL
from gpubuild.toolchain.run import run_tool

# Functions that the CUDA driver provides to every kernel.
_PROVIDED = frozenset({"vprintf", "malloc", "free", "__assertfail"})
_PTX_NAME = re.compile(r"[A-Za-z_$][\w$]*", re.ASCII)
_NEEDS_PTX = re.compile(r"requires PTX ISA \.version (\d+)\.(\d) or later")
# Lines of `ptxas -v`.
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
# The directives between the parameters of a kernel and its body.
_KERNEL_HEAD = re.compile(r"\.entry\s+([\w$%]+)\s*\([^()]*\)([^{]*)\{")
_WORKGROUP = re.compile(r"\.(maxntid|reqntid)\s+(\d+(?:\s*,\s*\d+)*)")
_PTX_FILE = "module.ptx"  # a fixed name, so that no path of this machine is in the cubin


def run(params: CompileParams, io: StepIO) -> None:
    """Write ``llvm``, ``asm`` (PTX), ``object`` (cubin), ``info`` and, when asked for, ``device``.

    Raises ``UsageError`` for an unknown chip, ``ToolNotFoundError``, and ``StepError``.
    """
    if params.target.debug == FULL:  # ptxas has no optimised debugging
        params = replace(params, target=replace(params.target, opt_level=0))
    stages = STAGES
    if params.relocatable:
        stages = gpu_compile.stages_with(STAGES, assemble_relocatable, after="ptxas")
    run_stages(DeviceBuild(params=params, io=io), stages)


def lower_module(build: DeviceBuild) -> None:
    """Stage: lower MLIR to an LLVM module, in the PTX version that its instructions need."""
    params = build.params
    if build.io.has("bitcode"):
        build.features = ptx_features(params.target.chip, params.target.features)
        take_bitcode(build)
        return
    lowered = lower(params, build.io, passes.PASSES, passes.start)
    build.features = ptx_features(params.target.chip, params.target.features, needed=lowered.ptx_needed)
    take_lowered(build, lowered)


def link_libraries(build: DeviceBuild) -> None:
    """Stage: link the user's libraries, then libdevice if the module uses it."""
    libraries = user_libraries(build.io)
    if libraries:
        llvm.link_libraries(build.module, libraries)
    if any(n.startswith(libdevice.PREFIX) for n in llvm.undefined_symbols(build.module)):
        library = Path(build.io.tool("libdevice")[0])
        build.module = libdevice.link_libdevice(build.module, library, build.params.target)


def emit_ptx(build: DeviceBuild) -> None:
    """Stage: emit PTX text, if all functions are defined."""
    refuse_undefined(
        build,
        _PROVIDED,
        (
            (libdevice.PREFIX, "libdevice has no such function; is the name right?"),
            ("__ocml_", "that is a function of AMD's library; the module was written for ROCDL"),
        ),
    )
    for name in build.kernel_names:
        if not _PTX_NAME.fullmatch(name):
            raise StepError(
                f"kernel @{name} has a name that PTX cannot spell",
                hint="use letters, digits, _ and $ only, and no digit first",
            )
    workarounds.refuse_packed_calls(build.module)
    text = workarounds.fold_constant_guards(llvm.emit_assembly(build.module, build.machine))
    build.assembly = workarounds.keep_bf16_subnormals(text)
    build.io.write("asm", build.assembly)


def assemble(build: DeviceBuild) -> None:
    """Stage: run ptxas."""
    (build.io.scratch / _PTX_FILE).write_text(build.assembly, encoding="utf-8")
    output = _run_ptxas(build, "-v", role="object")
    limits = workgroup_limits(build.assembly)
    build.kernels = [
        replace(kernel, metadata={**kernel.metadata, **limits.get(kernel.name, {})})
        for kernel in parse_ptxas(output, build.kernel_names)
    ]
    for line in output.splitlines():
        if "warning" in line:
            build.io.warn(line.strip())


def assemble_relocatable(build: DeviceBuild) -> None:
    """Stage: run ptxas again, for relocatable code that nvlink links."""
    _run_ptxas(build, "-c", role="device")


def _run_ptxas(build: DeviceBuild, option: str, *, role: str) -> str:
    """Write output ``role`` and return what ptxas prints."""
    params, io = build.params, build.io
    command = [*io.tool("ptxas"), f"-arch={params.target.chip}", f"-O{params.target.opt_level}", option]
    if params.target.debug:
        command.append("-g" if params.target.debug == FULL else "-lineinfo")  # -g switches optimisation off
    command += params.target.assembler_options
    done = run_tool([*command, _PTX_FILE, "-o", io.tool_out(role)], cwd=io.scratch)
    try:
        done.check(f"assembling @{params.module} for {params.target.chip}")
    except StepError as error:
        raise with_ptxas_locations(_explained(error), build.assembly, io) from error.__cause__
    return done.output


def _explained(error: StepError) -> StepError:
    """Return ``error`` of ptxas without the lines of ``-v`` about other kernels, and with a hint if known."""
    lines = error.output.splitlines()
    notes = [n for n, line in enumerate(lines) if line.startswith("ptxas info")]
    kept = [
        line for n, line in enumerate(lines) if n not in notes and not (n - 1 in notes and line[:1] == " ")
    ]
    output = "\n".join(kept) or error.output
    hint = error.hint
    if "uses too much shared data" in output:
        hint = (
            "memory declared in a kernel ends at 48 KiB on every NVIDIA chip: use less, "
            "or take it with gpu.dynamic_shared_memory, whose size is given at launch"
        )
    elif versions := [int(major) * 10 + int(minor) for major, minor in _NEEDS_PTX.findall(output)]:
        hint = (
            f'write features: "+ptx{max(versions)}" for this target, which then needs a driver that knows it'
        )
    return error.with_(output=output, hint=hint)


def parse_ptxas(output: str, names: Sequence[str]) -> list[KernelInfo]:
    """Parse the output of ``ptxas -v``, for the kernels ``names`` in that order."""
    found: dict[str, dict[str, Any]] = {}
    name = ""
    for line in output.splitlines():
        if match := _ENTRY.search(line) or _PROPERTIES.search(line):
            name = match[1]
        elif match := _FRAME.search(line):
            found.setdefault(name, {}).update(private_bytes=int(match[1]), spill_bytes=int(match[2]))
        if match := _REGISTERS.search(line):
            values = found.setdefault(name, {})
            values["registers"] = int(match[1])
            shared = _SHARED.search(line)
            values["shared_bytes"] = int(shared[1]) if shared else 0
    infos = []
    for name in names:
        metadata = found.get(name, {})
        values = {key: value for key, value in metadata.items() if key != "private_bytes"}
        infos.append(KernelInfo(name=name, **values, metadata=metadata))
    return infos


def workgroup_limits(ptx: str) -> dict[str, dict[str, Value]]:
    """Return by kernel the workgroup sizes that PTX allows."""
    found: dict[str, dict[str, Value]] = {}
    for name, directives in _KERNEL_HEAD.findall(ptx):
        for directive, sizes in _WORKGROUP.findall(directives):
            extents = [int(size) for size in sizes.split(",")]
            limits = found.setdefault(name, {})
            limits["max_work_items"] = prod(extents)
            if directive == "reqntid":
                limits["required_workgroup"] = [*extents, 1, 1][:3]
    return found


STAGES: tuple[Stage[DeviceBuild], ...] = (
    ("check", check_target),
    ("lower", lower_module),
    ("link", link_libraries),
    ("optimize", optimize_module),
    ("emit", emit_ptx),
    ("ptxas", assemble),
    ("info", write_info),
)
