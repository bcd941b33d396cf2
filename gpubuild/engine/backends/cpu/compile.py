"""Compile one gpu.module for CPUs: passes, LLVM IR, object file, shared object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from mlir import ir

from gpubuild.engine.backends import gpu_compile, libdevice
from gpubuild.engine.backends.cpu import compiler_rt, image_layout
from gpubuild.engine.backends.cpu.image import Kernel, chip_mark, image_text, large_entries
from gpubuild.engine.backends.cpu.kernel_facts import KernelFacts
from gpubuild.engine.backends.cpu.machine import machine_for
from gpubuild.engine.backends.cpu.nontemporal import mark_stores
from gpubuild.engine.backends.cpu.passes import PASSES, RECORD_WRITTEN_OPS, TO_CPU, start
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module
from gpubuild.engine.backends.cpu.workarounds import keep_odd_halves
from gpubuild.engine.backends.gpu_compile import (
    KernelInfo,
    Stage,
    info_with_table,
    run_stages,
    user_libraries,
)
from gpubuild.engine.backends.lowering import only_module, run_own_passes
from gpubuild.engine.ir import contexts, llvm, resource_objects, step_io
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.kernel_table import Value
from gpubuild.engine.ir.locations import restore_assert_locations
from gpubuild.engine.ir.passes import Pass, run_passes
from gpubuild.engine.ir.resources import NO_RESOURCES, External, StepResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.legalize import debug_variables
from gpubuild.engine.mathlib import libdevice_calls
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.cpu import CPU
from gpubuild.targets.target import Target
from gpubuild.toolchain.run import run_tool

_FENCE = "llvm.x86.sse.sfence"  # on other CPUs the runtime's synchronisation orders all stores
_OBJECT_FILE = "module.o"  # a fixed name, as lld writes it into its output


@dataclass(slots=True, kw_only=True)
class CpuBuild:
    """The state of one compile, which each stage reads and extends."""

    params: CompileParams
    io: StepIO
    llvm_text: str = ""
    lowering: CpuLowering | None = None
    module: llvm.Module = None  # type: ignore[assignment]
    machine: llvm.Machine = None  # type: ignore[assignment]
    filling: Mapping[str, frozenset[str]] = field(default_factory=dict)  # see nontemporal.mark_stores

    @property
    def externals(self) -> tuple[External, ...]:
        """Return the variables whose data LLVM does not see."""
        return self.lowering.externals if self.lowering else ()


def run(params: CompileParams, io: StepIO) -> None:
    """Write ``llvm``, ``asm``, ``object`` (ELF shared object), ``info`` and, when asked for, ``device``.

    Raises ``UsageError`` for an unknown chip, ``ToolNotFoundError``, and ``StepError``.
    """
    stages = STAGES
    if params.relocatable:
        stages = gpu_compile.stages_with(STAGES, emit_relocatable, after="optimize")
    run_stages(CpuBuild(params=params, io=io), stages)


def check_target(build: CpuBuild) -> None:
    """Refuse names that LLVM would only warn about."""
    target = build.params.target
    CPU.check(target.chip, target.features, target.triple)
    build.machine = machine_for(target)


def lower(build: CpuBuild) -> None:
    """Lower MLIR to LLVM IR text; after an error again with locations, for its message."""
    params, resources = build.params, StepResources.of(build.io)
    try:
        build.llvm_text, build.lowering = step_io.lower_input(
            build.io, "module", lambda text: lower_text(text, params, resources)
        )
    except StepError as error:
        raise contexts.with_target(error, params.target.name) from error.__cause__
    for warning in build.lowering.warnings:
        build.io.warn(warning)


def lower_text(
    text: str, params: CompileParams, resources: StepResources = NO_RESOURCES
) -> tuple[str, CpuLowering]:
    """Lower a module that contains one gpu.module; return LLVM IR and the facts about its kernels.

    The kernels have their work-item as last parameter. Raises ``StepError``.
    """
    if params.target.passes and params.target.sanitize:
        raise StepError(
            "`sanitize:` cannot be added to passes of your own",
            hint="leave out `passes:` for the checked target, or `sanitize:`",
        )
    with contexts.context():
        module = contexts.parse(text)
        restore_assert_locations(module.operation)
        lowering = start(params, SourceText(text, f"@{params.module} (canonical text)"))
        only_module(module, params)
        passes = PASSES
        if params.target.passes:
            passes = (
                RECORD_WRITTEN_OPS,
                debug_variables.RECORD,
                _own_passes(params.target, resources),
                *TO_CPU,
            )
        run_passes(module, passes, lowering)
        if not lowering.kernels:
            raise StepError(
                f"gpu.module @{params.module} has no kernel", hint="mark a gpu.func with `kernel`"
            )
        contexts.verify(module.operation, source=lowering.source)
        lowering.externals = resources.externalize(kernel_module(module))
        text = contexts.translate(kernel_module(module), target=lowering.target, source=lowering.source)
        return text, lowering


def _own_passes(target: Target, resources: StepResources) -> Pass[CpuLowering]:
    def run(module: ir.Module, lowering: CpuLowering) -> None:
        run_own_passes(module, target, resources, lowering.source)

    return Pass(name="own-passes", run=run, pipeline=lambda _: target.passes)


def link_image(build: CpuBuild) -> None:
    """Add the entries and the image table; from here on only the image is visible outside."""
    module = llvm.parse_assembly(build.llvm_text, llvm.new_context(), name="translated LLVM IR")
    llvm.set_target(module, build.machine)
    resource_objects.declare(module, build.externals)
    kernels, target = [], build.params.target
    for facts in build.lowering.kernels if build.lowering else ():
        parameters = tuple(str(a.type) for a in module.get_function(facts.name).arguments)[:-1]
        versions = facts.alias_versions
        if versions is not None and (versions.count != len(parameters) or target.opt_level < 2):
            versions = None
        coalesced = facts.coalesced and facts.context_bytes == 0
        facts = replace(facts, alias_versions=versions, coalesced=coalesced)  # noqa: PLW2901
        kernels.append(Kernel(facts=facts, parameters=parameters))
    text = image_text(
        build.params.module,
        kernels,
        build.lowering.sites if build.lowering else (),
        debug=target.debug,
        flags=image_layout.check_flags(target.sanitize),
        fence=_FENCE if target.triple.startswith("x86_64") else "",
    )
    build.filling = large_entries(kernels)
    llvm.link_text(module, text, "kernel entries")
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and not value.name.startswith(("llvm.", image_layout.IMAGE_SYMBOL)):
            value.linkage = "internal"
            value.visibility = "default"
    build.module = module


def link_libraries(build: CpuBuild) -> None:
    """Link the user's libraries, then our mathematics, then libdevice for the remaining functions."""
    module, io = build.module, build.io
    libraries = user_libraries(io)
    if libraries:
        llvm.link_libraries(module, libraries)
    missing = [n for n in llvm.undefined_symbols(module) if n.startswith(libdevice_calls.PREFIX)]
    if missing:
        fused = llvm.has_fused_multiply_add(build.machine)
        text = libdevice_calls.library_text(missing, fast_math=build.params.target.fast_math, fused=fused)
        llvm.link_library(module, text.encode(), "math functions")
    left = [n for n in llvm.undefined_symbols(module) if n.startswith(libdevice.PREFIX)]
    if left and io.has_tool("libdevice"):
        library = Path(io.tool("libdevice")[0])
        build.module = libdevice.link_libdevice(module, library, build.params.target)
    compiler_rt.link_half_conversions(build.module, build.params.target.triple)
    _refuse_undefined(build)


def _refuse_undefined(build: CpuBuild) -> None:
    """Raise ``StepError`` for symbols that neither the module nor the C library defines."""
    names = llvm.undefined_symbols(build.module, globals_too=True)
    provided = libdevice_calls.PROVIDED | {item.stand_in for item in build.externals}
    missing = [n for n in names if n not in provided]
    missing += [
        f.name for f in build.module.functions if f.is_declaration and f.name.startswith("llvm.nvvm.")
    ]
    if missing:
        raise StepError(
            f"undefined in @{build.params.module}: {', '.join(missing)}",
            hint="define it in the gpu.module, or name a library that does under `device_libs:`",
        )


def optimize(build: CpuBuild) -> None:
    """Run LLVM's pipeline; write output ``llvm``."""
    llvm.optimize(build.module, build.machine, build.params.target.opt_level)
    build.module = mark_stores(build.module, build.filling)
    step_io.discover(str(build.module).encode(), build.io)
    build.module = keep_odd_halves(build.module, build.machine)
    build.io.write("llvm", str(build.module))


def emit(build: CpuBuild) -> None:
    """Write assembly for people, and a relocatable object for the linker."""
    sections = resource_objects.define(build.module, build.externals, linkage="internal")
    assembly, code = llvm.emit_both(build.module, build.machine)
    build.io.write("asm", assembly)
    resources = StepResources.of(build.io)
    resource_objects.write_object(build.io.scratch / _OBJECT_FILE, code, sections, resources)


def emit_relocatable(build: CpuBuild) -> None:
    """Write an object for clang-linker-wrapper, which links the images of all modules into one."""
    module = build.module.clone()
    chip, name = build.params.target.chip, build.params.module
    module.get_global_variable(image_layout.IMAGE_SYMBOL).name = f"{image_layout.IMAGE_SYMBOL}.{name}"
    llvm.link_text(module, chip_mark(chip), "chip mark")
    sections = resource_objects.define(module, build.externals, linkage="internal")
    code = llvm.emit_object(module, build.machine)
    resources = StepResources.of(build.io)
    resource_objects.write_object(build.io.out_path("device"), code, sections, resources)


def link(build: CpuBuild) -> None:
    """Link the shared object; the C library's symbols are found when it is loaded."""
    io = build.io
    # One thread: other steps run at the same time, and starting threads takes a fifth of the link's time.
    options = (
        "--threads=1 -shared --build-id=none --gc-sections --hash-style=gnu -z relro -z now -z noexecstack"
    )
    command = [*io.tool("ld.lld"), *options.split(), _OBJECT_FILE, "-o", io.tool_out("object")]
    done = run_tool(command, cwd=io.scratch)
    done.check(f"linking @{build.params.module} for {build.params.target.chip}")


def write_info(build: CpuBuild) -> None:
    """Write the tier and the workgroup memory of each kernel."""
    infos = [
        KernelInfo(
            name=kernel.name,
            shared_bytes=kernel.shared_bytes,
            tier=kernel.tier.tier.label,
            tier_reason=kernel.tier.reason or None,
            metadata=_metadata(kernel),
        )
        for kernel in (build.lowering.kernels if build.lowering else ())
    ]
    build.io.write("info", info_with_table(infos, build.lowering.entries if build.lowering else ()))


def _metadata(kernel: KernelFacts) -> dict[str, Value]:
    found: dict[str, Value] = {"shared_bytes": kernel.shared_bytes, "tier": kernel.tier.tier.label}
    if kernel.tier.reason:
        found["tier_reason"] = kernel.tier.reason
    if most := prod(kernel.required_block) or kernel.max_items:
        found["max_work_items"] = most
    if any(kernel.required_block):
        found["required_workgroup"] = kernel.required_block
    return found


STAGES: tuple[Stage[CpuBuild], ...] = (
    ("check", check_target),
    ("lower", lower),
    ("image", link_image),
    ("libraries", link_libraries),
    ("optimize", optimize),
    ("emit", emit),
    ("link", link),
    ("info", write_info),
)
