"""Lowering: one gpu.module's text to LLVM IR text, by the passes of its kind."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.backends.amd import printf
from gpubuild.engine.backends.nvidia import ops
from gpubuild.engine.backends.nvidia.tensor_cores import units_lack
from gpubuild.engine.backends.nvidia.workarounds import pass_in_bytes
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.dump import dump
from gpubuild.engine.ir.locations import restore_places
from gpubuild.engine.ir.query import kernel_functions, module_dialect
from gpubuild.engine.ir.resources import NO_RESOURCES, External, StepResources
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.legalize import driver
from gpubuild.engine.legalize.library_calls import call_libraries_directly
from gpubuild.engine.legalize.matrices import expand_matrices
from gpubuild.engine.legalize.workarounds import keep_signed_zeros
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets import chips
from gpubuild.targets.target import Kind

# Shared by both kinds; vectors go before the gpu conversions, which do not know them.
_COMMON_PASSES = (
    "convert-complex-to-standard,convert-linalg-to-loops,canonicalize,cse,scf-forall-to-for,lower-affine,convert-vector-to-scf,"
    "convert-scf-to-cf,expand-strided-metadata,lower-affine,arith-expand{include-bf16=false}"
)
_CONTROL_FLOW = "convert-scf-to-cf"
_FINAL_PASSES = (
    "convert-math-to-llvm,convert-complex-to-llvm,convert-ub-to-llvm,canonicalize,cse,"
    "reconcile-unrealized-casts"
)
# For NVIDIA without `debug` in the PTX's .target line, with which ptxas refuses to optimise.
_DEBUG_KINDS = {
    Kind.NVVM: "DebugDirectivesOnly",
    Kind.ROCDL: "LineTablesOnly",
    Kind.CPU: "LineTablesOnly",
}
_FLUSH_DENORMALS = '["denormal-fp-math-f32", "preserve-sign"]'
_WORKGROUP_SIZES = (
    "rocdl.flat_work_group_size",
    "rocdl.reqd_work_group_size",
    "rocdl.max_flat_work_group_size",
)
_WORKGROUP_SPACE = 3
_DYNAMIC_ALIGNMENT = 16  # bytes, enough for any vector access
_PRIVATE_SPACE = 5  # of AMDGPU: where a work-item's own memory lies
_STACK_SAVE = "llvm.intr.stacksave"
_OF_THE_STACK = frozenset({"llvm.alloca", _STACK_SAVE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """LLVM IR of one module and the names of its kernels, in order."""

    llvm: str
    kernels: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()  # of the messages that AMD kernels leave for the host
    ptx: int = 0  # the version that NVIDIA's instructions in it need, times ten; 0: any
    externals: tuple[External, ...] = ()  # variables that are resources


def lower(params: CompileParams, io: StepIO) -> Lowered:
    """Lower input ``module``. When that fails, lower ``located`` to say where in the user's file.

    Raises ``StepError``; both inputs hold the same code, so the second run fails the same way.
    """
    try:
        lowered = lower_text(io.text("module"), params, StepResources.of(io))
    except StepError as plain:
        if not io.has("located"):
            raise
        try:
            lower_text(io.text("located"), params, StepResources.of(io))
        except StepError as located:
            raise located from plain
        raise
    for warning in lowered.warnings:
        io.warn(warning)
    return lowered


def lower_text(text: str, params: CompileParams, resources: StepResources = NO_RESOURCES) -> Lowered:
    """Lower a module that holds one gpu.module. Raises ``StepError``."""
    with contexts.context():
        source = SourceText(text, f"@{params.module} (canonical text)")
        module = contexts.parse(text)
        restore_places(module.operation)
        kernels = _only_module(module, params)
        warnings: list[str] = []
        _check_dialect(kernels, params)
        ptx = ops.ptx_needed(kernels) if params.kind is Kind.NVVM else 0
        if params.passes:
            resources.bind(module)
            contexts.run_passes(module, params.passes, source=source)
        else:
            machine = _machine(params)
            warnings += _expand_matrices(module, machine, source)
            driver.prepare(module, machine, source=source)
            dump("mlir", lambda: contexts.canonical_text(module))
            _convert(module, params, source)
        if params.debug:
            scope = f"ensure-debug-info-scope-on-llvm-func{{emission-kind={_DEBUG_KINDS[params.kind]}}}"
            contexts.run_passes(module, f"builtin.module({scope})", source=source)
        kernels = _only_module(module, params)
        _finish_functions(kernels, params)
        names = tuple(f.attributes["sym_name"].value for f in kernel_functions(kernels))
        if not names:
            raise StepError(
                f"gpu.module @{params.module} has no kernel",
                hint="mark a gpu.func with `kernel`",
            )
        formats = printf.take_formats(kernels)
        externals = resources.externalize(kernels)
        return Lowered(
            llvm=contexts.translate(kernels, target=params.target or params.chip, source=source),
            kernels=names,
            warnings=tuple(warnings),
            formats=formats,
            ptx=ptx,
            externals=externals,
        )


def _expand_matrices(module: ir.Module, machine: driver.Machine, source: SourceText) -> list[str]:
    """Make vector code of matrices that the target's units cannot do; warn where it has units."""
    warnings = []
    if machine.multiplies_matrices:
        lack = units_lack(module.operation, machine.chip)
        if not lack:
            return []
        warnings = [
            f"the matrix units of {machine.chip} cannot do {lack}: all matrix operations of the "
            "module are compiled without them"
        ]
    expand_matrices(
        module.operation,
        lanes=machine.subgroup_size,
        target=machine.name,
        source=source,
        kind=machine.kind,
    )
    return warnings


def _convert(module: ir.Module, params: CompileParams, source: SourceText) -> None:
    keep_signed_zeros(module.operation)
    try:
        contexts.run_passes(module, pipeline(params, nvgpu_loops=_carries_nvgpu(module)), source=source)
    except StepError as error:
        contexts.blame_pass(error, params.target or params.chip)
        raise


def pipeline(params: CompileParams, *, nvgpu_loops: bool = False) -> str:
    """The pass pipeline of a target's kind. CPUs take the NVVM route under a stand-in chip.

    ``nvgpu_loops``: loops carry values of nvgpu's types. Upstream's conversion of that dialect takes
    them through scf's ops, not through the blocks of cf; it refuses matrices of gpu in scf's ops.
    """
    if params.kind is Kind.ROCDL:
        return _rocdl_pipeline(params)
    chip = params.chip if params.kind is Kind.NVVM else "sm_90"
    nvgpu = "convert-nvgpu-to-nvvm"
    common = f"{_COMMON_PASSES},{nvgpu}"
    if nvgpu_loops:
        common = _COMMON_PASSES.replace(_CONTROL_FLOW, f"{nvgpu},{_CONTROL_FLOW}")
    return (
        f"builtin.module(nvvm-attach-target{{chip={chip} O={params.opt_level}}},"
        f"gpu.module({common},convert-vector-to-llvm,convert-index-to-llvm,"
        f"convert-gpu-to-nvvm,convert-nvvm-to-llvm,{_FINAL_PASSES}))"
    )


def _carries_nvgpu(module: ir.Module) -> bool:
    found = False

    def visit(op: ir.Operation) -> ir.WalkResult:
        nonlocal found
        found = op.name.startswith("scf.") and any(str(r.type).startswith("!nvgpu.") for r in op.results)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def _rocdl_pipeline(params: CompileParams) -> str:
    # Conversions take plain chips only, so a generic one is lowered as the first it stands for.
    major, minor, stepping = chips.gfx_version(params.chip)
    chip = f"gfx{major}{minor:x}{stepping:x}"
    return (
        f"builtin.module(rocdl-attach-target{{chip={chip} O={params.opt_level}}},"
        f"gpu.module(convert-complex-to-standard),convert-math-to-rocdl{{chipset={chip}}},"
        f"gpu.module({_COMMON_PASSES},convert-amdgpu-to-rocdl{{chipset={chip}}},convert-vector-to-llvm,"
        f"convert-index-to-llvm,convert-gpu-to-rocdl{{chipset={chip} runtime=HIP}},{_FINAL_PASSES}))"
    )


def _machine(params: CompileParams) -> driver.Machine:
    return driver.Machine(
        kind=params.kind,
        subgroup_size=chips.subgroup_size(params.kind, params.chip, params.features),
        exchanges_lanes=chips.exchanges_lanes(params.kind, params.chip),
        clusters=chips.has_clusters(params.kind, params.chip),
        multiplies_matrices=chips.multiplies_matrices(params.kind, params.chip),
        fast_math=params.fast_math,
        name=params.target or params.chip,
        chip=params.chip if params.kind is Kind.NVVM else "",
        amd_chip=params.chip if params.kind is Kind.ROCDL else "",
        ptx=chips.ptx_asked(params.features) if params.kind is Kind.NVVM else 0,
    )


def _only_module(module: ir.Module, params: CompileParams) -> ir.Operation:
    found = contexts.gpu_modules(module)
    if len(found) != 1:
        raise StepError(
            f"expected one gpu.module, @{params.module}, and found {len(found)}",
            hint="a pass pipeline must keep the gpu.module" if params.passes else "",
        )
    return found[0]


def _check_dialect(kernels: ir.Operation, params: CompileParams) -> None:
    dialect = module_dialect(kernels)
    if dialect in {"nvvm", "rocdl"} and dialect != params.kind and params.kind is not Kind.CPU:
        raise StepError(
            f"gpu.module @{params.module} is already in the {dialect} dialect and cannot be compiled "
            f"for {params.target or params.chip}",
            hint="leave this target out for the module, or write it in the gpu dialect",
        )


def _finish_functions(kernels: ir.Operation, params: CompileParams) -> None:
    """What must hold for the LLVM functions of a kind, whichever passes made them."""
    mark = "rocdl.kernel" if params.kind is Kind.ROCDL else "nvvm.kernel"
    of_the_stack: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == "llvm.func":
            if "gpu.kernel" in op.attributes and mark not in op.attributes:
                op.attributes[mark] = ir.UnitAttr.get()
            if mark == "rocdl.kernel" and mark in op.attributes:
                _allow_large_workgroups(op)
            if params.fast_math:
                _add_passthrough(op, _FLUSH_DENORMALS)
        elif op.name == "llvm.mlir.global":
            _link_workgroup_memory(op)
        elif op.name in _OF_THE_STACK and str(op.results[0].type) == "!llvm.ptr":
            of_the_stack.append(op)
        return ir.WalkResult.ADVANCE

    kernels.walk(visit)
    call_libraries_directly(kernels)
    if params.kind is Kind.NVVM:
        pass_in_bytes(kernels)
    if params.kind is Kind.ROCDL:
        for op in of_the_stack:
            _move_to_private(op)


def _link_workgroup_memory(op: ir.Operation) -> None:
    """Workgroup memory of a known size belongs to the module; that settled at launch is external.

    Upstream has both the other way round: ptxas warns of a declared array that nothing defines, and
    a defined array of no elements may get a place in front of others, which it then overlaps.
    """
    space = op.attributes["addr_space"].value if "addr_space" in op.attributes else 0
    if space != _WORKGROUP_SPACE or op.regions[0].blocks:
        return
    dynamic = "array<0 x" in str(op.attributes["global_type"])
    op.attributes["linkage"] = ir.Attribute.parse(f"#llvm.linkage<{'external' if dynamic else 'internal'}>")
    if dynamic and "alignment" not in op.attributes:
        i64 = ir.IntegerType.get_signless(64)
        op.attributes["alignment"] = ir.IntegerAttr.get(i64, _DYNAMIC_ALIGNMENT)


def _allow_large_workgroups(kernel: ir.Operation) -> None:
    """Without a known size, MLIR compiles for at most 256 work-items and larger launches fail."""
    if not any(name in kernel.attributes for name in _WORKGROUP_SIZES):
        kernel.attributes["rocdl.flat_work_group_size"] = ir.StringAttr.get("1,1024")


def _move_to_private(op: ir.Operation) -> None:
    """AMDGPU has stack memory in its own address space only; generic pointers to it are casts."""
    emit = Emitter(op)
    attributes = {name: op.attributes[name] for name in op.attributes}
    private = ir.Type.parse(f"!llvm.ptr<{_PRIVATE_SPACE}>")
    moved = emit.op(op.name, list(op.operands), [private], attributes)
    if op.name == _STACK_SAVE:  # used by what restores the stack, which takes any pointer
        emit.replace(moved.results[0])
        return
    emit.replace(emit.op("llvm.addrspacecast", [moved.results[0]], [op.results[0].type]).results[0])


def _add_passthrough(function: ir.Operation, entry: str) -> None:
    given = list(function.attributes["passthrough"]) if "passthrough" in function.attributes else []
    function.attributes["passthrough"] = ir.ArrayAttr.get([*given, ir.Attribute.parse(entry)])
