"""Compile: one gpu.module for CPUs: NVVM route, rewriting, LLVM IR, object, shared object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from llvmlite import binding
from mlir import ir

from gpubuild.engine.backends import gpu_compile, libdevice
from gpubuild.engine.backends.cpu import half_conversions, image_layout, libdevice_calls, wide_integers
from gpubuild.engine.backends.cpu.alias_versioning import Parameters, separable_parameters
from gpubuild.engine.backends.cpu.fission.fission import Fissions, fission_kernels
from gpubuild.engine.backends.cpu.image import Kernel, chip_mark, image_text, large_entries
from gpubuild.engine.backends.cpu.llvm_text import mark_stores
from gpubuild.engine.backends.cpu.lower.abi import Contextualized, contextualize
from gpubuild.engine.backends.cpu.lower.loop_allocations import hoist_allocations
from gpubuild.engine.backends.cpu.lower.state import ModuleState, written_ops
from gpubuild.engine.backends.cpu.passes import LEGALIZE, PLAIN_MEMORY, start
from gpubuild.engine.backends.cpu.sanitizer import instrument
from gpubuild.engine.backends.cpu.sanitizer.reports import Checks
from gpubuild.engine.backends.cpu.workarounds import keep_odd_halves
from gpubuild.engine.backends.cpu.workgroup_coalescing import join_workgroups
from gpubuild.engine.backends.gpu_compile import user_libraries
from gpubuild.engine.backends.kernel_info import KernelInfo, info_json
from gpubuild.engine.ir import contexts, files_read, llvm, locations, resource_objects
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.dump import dump
from gpubuild.engine.ir.locations import restore_places
from gpubuild.engine.ir.passes import run_passes
from gpubuild.engine.ir.resources import NO_RESOURCES, StepResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.legalize.library_calls import call_libraries_directly
from gpubuild.engine.legalize.workarounds import KEEP_SIGNED_ZEROS
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.cpu import CPU, NATIVE
from gpubuild.targets.target import Sanitize
from gpubuild.toolchain.run import run_tool

# Up to structured loops, where fission works.
LOOP_PASSES = (
    "builtin.module(gpu.module(convert-complex-to-standard,convert-linalg-to-loops,canonicalize,cse,"
    "scf-forall-to-for,lower-affine))"
)
VECTOR_PASSES = "builtin.module(gpu.module(convert-vector-to-scf))"  # makes private memory
# As for NVIDIA, but nvvm ops stay: convert-nvvm-to-llvm would turn them into inline PTX.
PASSES = (
    "builtin.module(gpu.module(convert-scf-to-cf,expand-strided-metadata,lower-affine,"
    "arith-expand{include-bf16=false},convert-nvgpu-to-nvvm,convert-vector-to-llvm,convert-index-to-llvm,"
    "convert-gpu-to-nvvm,convert-math-to-llvm,convert-complex-to-llvm,convert-ub-to-llvm,canonicalize,cse,"
    "reconcile-unrealized-casts))"
)
_FENCE = "llvm.x86.sse.sfence"  # elsewhere the runtime's own synchronisation orders all stores
_DEBUG_PASSES = "builtin.module(ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly})"
_OBJECT_FILE = "module.o"  # fixed names: no path of this machine gets into what lld writes


@dataclass(slots=True, kw_only=True)
class CpuBuild:
    """One compile under way: every stage reads what earlier ones left here."""

    params: CompileParams
    io: StepIO
    llvm_text: str = ""
    facts: Contextualized = field(default_factory=lambda: Contextualized(kernels=(), sites=()))
    module: binding.ModuleRef = None
    machine: binding.TargetMachine = None
    filling: Mapping[str, frozenset[str]] = field(default_factory=dict)  # see llvm_text.mark_stores

    @property
    def resources(self) -> StepResources:
        """The data of variables that LLVM does not see."""
        return StepResources.of(self.io)


def run(params: CompileParams, io: StepIO) -> None:
    """Write ``llvm``, ``asm``, ``object`` (ELF shared object), ``info`` and, when asked for, ``device``.

    Raises ``UsageError`` for an unknown chip, ``ToolNotFoundError``, and ``StepError``.
    """
    build = CpuBuild(params=params, io=io)
    stages = STAGES
    if params.relocatable:
        stages = gpu_compile.stages_with(STAGES, emit_relocatable, after="optimize")
    for name, stage in stages:
        with io.stage(name):
            stage(build)
            if build.module is not None:
                dump("ll", lambda: str(build.module))


def check_target(build: CpuBuild) -> None:
    """Stage: refuse names that LLVM would only warn about; find the host's chip for ``native``."""
    params = build.params
    CPU.check(params.target.chip, params.target.features, params.target.triple)
    chip, features = params.target.chip, params.target.features
    if chip == NATIVE:
        chip, own = llvm.host_cpu()
        features = f"{own},{features}" if features else own
    build.machine = llvm.target_machine(params.target.triple, chip, features, params.target.opt_level)


def lower(build: CpuBuild) -> None:
    """Stage: MLIR to LLVM IR text. A failure is repeated on the located text, for its places."""
    io = build.io
    try:
        build.llvm_text, build.facts = lower_text(io.text("module"), build.params, build.resources)
    except StepError as plain:
        if not io.has("located"):
            raise
        try:
            lower_text(io.text("located"), build.params, build.resources)
        except StepError as located:
            raise contexts.with_target(located, build.params.target.name) from plain
        raise


def lower_text(
    text: str, params: CompileParams, resources: StepResources = NO_RESOURCES
) -> tuple[str, Contextualized]:
    """Lower a module that holds one gpu.module; its kernels take the work-item as last argument."""
    target = params.target.name
    with contexts.context():
        source = SourceText(text, f"@{params.module} (canonical text)")
        fissions = Fissions()
        separable: dict[str, Parameters] = {}
        joined: frozenset[str] = frozenset()
        module = contexts.parse(text)
        restore_places(module.operation)
        names = written_ops(module.operation)
        checks = Checks(wanted=frozenset(params.target.sanitize), source=source, names=names)
        if params.target.passes:
            _run_own_passes(module, params, source, resources)
        else:
            legalization = start(params, source)
            if checks.wanted:
                run_passes(module, PLAIN_MEMORY, legalization)
                instrument.prepare(_only_module(module, params), checks)
            run_passes(module, LEGALIZE, legalization)
            hoist_allocations(module.operation)
            dump("mlir", lambda: contexts.canonical_text(module))
            contexts.run_passes(module, LOOP_PASSES, source=source)
            if checks.wanted:
                _check(module, params, checks)
            else:
                joined = join_workgroups(_only_module(module, params))
            separable = {} if checks.wanted else separable_parameters(_only_module(module, params))
            fissions = _fission(module, checks)
            instrument.keep_barriers_apart(_only_module(module, params), checks)
            dump("mlir", lambda: contexts.canonical_text(module))  # after fission
            contexts.run_passes(module, VECTOR_PASSES, source=source)
            hoist_allocations(module.operation)
            run_passes(module, (KEEP_SIGNED_ZEROS,), legalization)
            contexts.run_passes(module, PASSES, source=source)
        kernels = _only_module(module, params)
        call_libraries_directly(kernels)
        contexts.check_translatable(kernels, target=target, source=source)
        state = ModuleState(
            source=source,
            target=target,
            op_names=names,
            text_digest=locations.text_digest(text),
            fissions=fissions,
            sites=list(checks.sites),
        )
        facts = contextualize(
            kernels,
            state,
            fast_math=params.target.fast_math,
            probe_stack=params.target.triple.startswith("x86_64"),
        )
        facts = replace(facts, separable=separable, joined=joined)
        if not facts.kernels:
            raise StepError(
                f"gpu.module @{params.module} has no kernel", hint="mark a gpu.func with `kernel`"
            )
        contexts.verify(module.operation, source=source)
        if params.target.debug:
            contexts.run_passes(module, _DEBUG_PASSES, source=source)
        kernels = contexts.gpu_modules(module)[0]
        facts = replace(facts, externals=resources.externalize(kernels))
        return contexts.translate(kernels, target=target, source=source), facts


def _run_own_passes(
    module: ir.Module, params: CompileParams, source: SourceText, resources: StepResources
) -> None:
    if params.target.sanitize:
        raise StepError(
            "`sanitize:` cannot be added to passes of your own",
            hint="leave out `passes:` for the checked target, or `sanitize:`",
        )
    resources.bind(module)
    contexts.run_passes(module, params.target.passes, source=source)


def _only_module(module: ir.Module, params: CompileParams) -> ir.Operation:
    found = contexts.gpu_modules(module)
    if len(found) != 1:
        raise StepError(f"expected one gpu.module, @{params.module}, and found {len(found)}")
    return found[0]


def _check(module: ir.Module, params: CompileParams, checks: Checks) -> None:
    contexts.run_passes(module, instrument.PASSES, source=checks.source)
    instrument.instrument(_only_module(module, params), checks)
    contexts.run_passes(module, instrument.TIDY_PASSES, source=checks.source)


def _fission(module: ir.Module, checks: Checks) -> Fissions:
    """What is checked for divergent barriers keeps fibers, which report each and go on."""
    found = contexts.gpu_modules(module)
    may_ask = Sanitize.BARRIER not in checks.wanted
    return fission_kernels(found[0], may_ask=may_ask) if len(found) == 1 else Fissions()


def link_image(build: CpuBuild) -> None:
    """Stage: entries and the image table; from here on only the image is visible outside."""
    module = llvm.parse_assembly(build.llvm_text, llvm.new_context(), name="translated LLVM IR")
    llvm.set_target(module, build.machine)
    resource_objects.declare(module, build.facts.externals)
    kernels = []
    for facts in build.facts.kernels:
        arguments = [str(a.type) for a in module.get_function(facts.name).arguments]
        memrefs = build.facts.separable.get(facts.name)
        if memrefs is not None and (memrefs.count != len(arguments) - 1 or build.params.target.opt_level < 2):
            memrefs = None
        joined = facts.name in build.facts.joined and facts.slot_bytes == 0
        kernels.append(Kernel(facts=facts, parameters=tuple(arguments[:-1]), memrefs=memrefs, joined=joined))
    text = image_text(
        build.params.module,
        kernels,
        build.facts.sites,
        debug=build.params.target.debug,
        flags=image_layout.check_flags(build.params.target.sanitize),
        fence=_FENCE if build.params.target.triple.startswith("x86_64") else "",
    )
    build.filling = large_entries(kernels)
    llvm.link_text(module, text, "kernel entries")
    for value in (*module.functions, *module.global_variables):
        if not value.is_declaration and not value.name.startswith(("llvm.", image_layout.IMAGE_SYMBOL)):
            value.linkage = "internal"
            value.visibility = "default"
    build.module = module


def link_libraries(build: CpuBuild) -> None:
    """Stage: the user's libraries, our mathematics, then libdevice itself for what is left."""
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
        data = Path(io.tool("libdevice")[0]).read_bytes()
        build.module = libdevice.link_libdevice(module, data, fast_math=build.params.target.fast_math)
    wide_integers.link_helpers(build.module)
    half_conversions.link_helpers(build.module, build.params.target.triple)
    _refuse_undefined(build)


def _refuse_undefined(build: CpuBuild) -> None:
    """Raise ``StepError`` for what neither the module nor the C library defines."""
    names = llvm.undefined_symbols(build.module, globals_too=True)
    provided = libdevice_calls.PROVIDED | {item.stand_in for item in build.facts.externals}
    missing = [n for n in names if n not in provided]
    missing += [
        f.name for f in build.module.functions if f.is_declaration and f.name.startswith("llvm.nvvm.")
    ]
    if missing:
        raise StepError(
            f"undefined in @{build.params.module}: {', '.join(missing)}",
            hint="define it in the gpu.module, or name a library for CPUs that does under `device_libs:`",
        )


def optimize(build: CpuBuild) -> None:
    """Stage: LLVM's pipeline; writes output ``llvm``."""
    llvm.optimize(build.module, build.machine, build.params.target.opt_level)
    build.module = mark_stores(build.module, build.filling)
    files_read.discover(str(build.module).encode(), build.io)
    build.module = keep_odd_halves(build.module, build.machine)
    build.io.write("llvm", str(build.module))


def emit(build: CpuBuild) -> None:
    """Stage: assembly for people, a relocatable object for the linker."""
    sections = resource_objects.define(build.module, build.facts.externals, linkage="internal")
    assembly, code = llvm.emit_both(build.module, build.machine)
    build.io.write("asm", assembly)
    resource_objects.write_object(build.io.scratch / _OBJECT_FILE, code, sections, build.resources)


def emit_relocatable(build: CpuBuild) -> None:
    """Stage: the same for clang-linker-wrapper, which links the images of all modules into one."""
    module = build.module.clone()
    chip, name = build.params.target.chip, build.params.module
    module.get_global_variable(image_layout.IMAGE_SYMBOL).name = f"{image_layout.IMAGE_SYMBOL}.{name}"
    llvm.link_text(module, chip_mark(chip), "chip mark")
    sections = resource_objects.define(module, build.facts.externals, linkage="internal")
    code = llvm.emit_object(module, build.machine)
    resource_objects.write_object(build.io.out_path("device"), code, sections, build.resources)


def link(build: CpuBuild) -> None:
    """Stage: ld.lld makes the shared object, which finds the C library's symbols when it is loaded."""
    io = build.io
    command = [
        *io.tool("ld.lld"),
        "--threads=1",  # other steps run beside this one, and to start threads takes a fifth of its time
        "-shared",
        "--build-id=none",
        "--gc-sections",
        "--hash-style=gnu",
        "-z",
        "relro",
        "-z",
        "now",
        "-z",
        "noexecstack",
        _OBJECT_FILE,
        "-o",
        io.tool_out("object"),
    ]
    done = run_tool(command, cwd=io.scratch)
    done.check(f"linking @{build.params.module} for {build.params.target.chip}")


def write_info(build: CpuBuild) -> None:
    """Stage: tier and workgroup memory of each kernel."""
    build.io.write(
        "info",
        info_json(
            [
                KernelInfo(
                    name=k.name,
                    shared_bytes=k.shared_bytes,
                    tier=k.tier.tier.label,
                    tier_reason=k.tier.reason or None,
                )
                for k in build.facts.kernels
            ]
        ),
    )


Stage = tuple[str, Callable[[CpuBuild], None]]
STAGES: tuple[Stage, ...] = (
    ("check", check_target),
    ("lower", lower),
    ("image", link_image),
    ("libraries", link_libraries),
    ("optimize", optimize),
    ("emit", emit),
    ("link", link),
    ("info", write_info),
)
