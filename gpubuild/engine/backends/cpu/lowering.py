"""Lowering of one gpu.module for CPUs: MLIR to LLVM IR text, by one table of named passes."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.alias_versioning import version_aliases
from gpubuild.engine.backends.cpu.fission.passes import FISSION_PASSES
from gpubuild.engine.backends.cpu.lower.abi import (
    finish_functions,
    make_fast,
    pass_work_items,
    refuse_unsupported,
)
from gpubuild.engine.backends.cpu.lower.address_spaces import drop_address_spaces
from gpubuild.engine.backends.cpu.lower.barriers import lower_barriers
from gpubuild.engine.backends.cpu.lower.calls import lower_calls
from gpubuild.engine.backends.cpu.lower.loop_allocations import hoist_allocations
from gpubuild.engine.backends.cpu.lower.special_registers import read_special_registers
from gpubuild.engine.backends.cpu.lower.workgroup_atomics import relax_workgroup_atomics
from gpubuild.engine.backends.cpu.lower.workgroup_memory import place_workgroup_memory
from gpubuild.engine.backends.cpu.sanitizer import instrument
from gpubuild.engine.backends.cpu.state import CpuLowering, kernel_module, written_ops
from gpubuild.engine.backends.cpu.streaming import mark_streaming
from gpubuild.engine.backends.cpu.workgroup_coalescing import coalesce_workgroups
from gpubuild.engine.ir import contexts, locations
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.locations import restore_places
from gpubuild.engine.ir.passes import Pass, run_passes, upstream
from gpubuild.engine.legalize import driver
from gpubuild.engine.legalize.composite_memory_ops import make_plain
from gpubuild.engine.legalize.library_calls import call_libraries_directly
from gpubuild.engine.legalize.matrices import expand_matrices
from gpubuild.engine.legalize.workarounds import keep_signed_zeros
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.target import Kind, Sanitize


def _checked(lowering: CpuLowering) -> bool:
    return bool(lowering.sanitize)


def _unchecked(lowering: CpuLowering) -> bool:
    return not lowering.sanitize


def _of_module(change: Callable[[ir.Operation], None]) -> Callable[[ir.Module, CpuLowering], None]:
    """Let a function of an operation work on the whole module."""
    return lambda module, _: change(module.operation)


def _of_kernels(change: Callable[[ir.Operation], None]) -> Callable[[ir.Module, CpuLowering], None]:
    """Let a function of an operation work on the gpu.module."""
    return lambda module, _: change(kernel_module(module))


def _expand_matrices(module: ir.Module, lowering: CpuLowering) -> None:
    expand_matrices(
        module.operation, lanes=image_layout.SUBGROUP, target=lowering.target, source=lowering.source
    )


def _legalize(module: ir.Module, lowering: CpuLowering) -> None:
    machine = driver.Machine(
        kind=Kind.CPU,
        subgroup_size=image_layout.SUBGROUP,
        fast_math=lowering.fast_math,
        name=lowering.target,
    )
    driver.prepare(module, machine, source=lowering.source)


# Up to LLVM's dialect; after these, functions ask their work-item for what a GPU has registers for.
DEVICE_PASSES: tuple[Pass[CpuLowering], ...] = (
    Pass(
        name="plain-memory-operations", run=lambda module, _: make_plain(module), when=_checked
    ),  # legalization has it, too
    Pass(name="check-early", run=instrument.check_early, when=_checked),
    Pass(name="expand-matrices", run=_expand_matrices),
    Pass(name="legalize", run=_legalize),
    Pass(name="hoist-loop-allocations", run=_of_module(hoist_allocations)),
    # Up to structured loops, where fission works.
    upstream(
        "lower-to-loops",
        "builtin.module(gpu.module(convert-complex-to-standard,convert-linalg-to-loops,canonicalize,cse,"
        "scf-forall-to-for,lower-affine))",
    ),
    # Vector code is taken apart before it is checked, so that accesses of one dimension are left.
    upstream(
        "checked-vectors-to-loops",
        "builtin.module(gpu.module(convert-vector-to-scf,canonicalize,cse))",
        when=_checked,
    ),
    Pass(name="expand-masked-lanes", run=instrument.expand_masked_lanes, when=_checked),
    Pass(name="prove-accesses", run=instrument.prove_accesses, when=_checked),
    Pass(name="insert-checks", run=instrument.insert_checks, when=_checked),
    upstream("simplify-checks", "builtin.module(gpu.module(canonicalize,cse))", when=_checked),
    Pass(name="coalesce-workgroups", run=coalesce_workgroups, when=_unchecked),
    Pass(name="version-aliases", run=version_aliases, when=_unchecked),
    Pass(name="mark-streaming", run=mark_streaming),
    *FISSION_PASSES,
    Pass(
        name="keep-barriers-apart",
        run=instrument.keep_barriers_apart,
        when=lambda lowering: Sanitize.BARRIER in lowering.sanitize,
    ),
    upstream("vectors-to-loops", "builtin.module(gpu.module(convert-vector-to-scf))"),  # makes private memory
    Pass(name="hoist-vector-allocations", run=_of_module(hoist_allocations)),
    Pass(name="keep-signed-zeros", run=_of_module(keep_signed_zeros)),
    # As for NVIDIA, but nvvm ops stay: convert-nvvm-to-llvm would turn them into inline PTX.
    upstream(
        "lower-to-llvm",
        "builtin.module(gpu.module(convert-scf-to-cf,expand-strided-metadata,lower-affine,"
        "arith-expand{include-bf16=false},convert-nvgpu-to-nvvm,convert-vector-to-llvm,convert-index-to-llvm,"
        "convert-gpu-to-nvvm,convert-math-to-llvm,convert-complex-to-llvm,convert-ub-to-llvm,canonicalize,cse,"
        "reconcile-unrealized-casts))",
    ),
)


def _check_translatable(module: ir.Module, lowering: CpuLowering) -> None:
    contexts.check_translatable(kernel_module(module), target=lowering.target, source=lowering.source)


# From LLVM's dialect with NVIDIA's operations, as passes of the user's own leave it, to what a CPU runs.
HOST_PASSES: tuple[Pass[CpuLowering], ...] = (
    Pass(name="call-libraries", run=_of_kernels(call_libraries_directly)),
    Pass(name="check-translatable", run=_check_translatable),
    Pass(name="pass-work-items", run=pass_work_items),
    Pass(name="place-workgroup-memory", run=place_workgroup_memory),
    Pass(name="lower-calls", run=lower_calls),  # the next two call services through pointers
    Pass(name="special-registers", run=read_special_registers),
    Pass(name="lower-barriers", run=lower_barriers),
    Pass(name="refuse-unsupported", run=refuse_unsupported),
    Pass(name="finish-functions", run=finish_functions),
    Pass(name="relax-workgroup-atomics", run=_of_kernels(relax_workgroup_atomics)),
    Pass(name="drop-address-spaces", run=_of_kernels(drop_address_spaces)),
    Pass(name="fast-math", run=make_fast, when=lambda lowering: lowering.fast_math),
    upstream(
        "line-tables",
        "builtin.module(ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly})",
        when=lambda lowering: lowering.debug,
    ),
)
PASSES = (*DEVICE_PASSES, *HOST_PASSES)


def lower_text(text: str, params: CompileParams) -> tuple[str, CpuLowering]:
    """Lower a module that holds one gpu.module; return LLVM IR and what is known of its kernels.

    The kernels take their work-item as last argument. Raises ``StepError``.
    """
    with contexts.context():
        module = contexts.parse(text)
        restore_places(module.operation)
        lowering = new_lowering(module, text, params)
        passes = PASSES
        if params.passes:
            if params.sanitize:
                raise StepError(
                    "`sanitize:` cannot be added to passes of your own",
                    hint="leave out `passes:` for the checked target, or `sanitize:`",
                )
            passes = (upstream("passes", params.passes), *HOST_PASSES)
        _require_one(module, params)
        run_passes(module, passes, lowering)
        if not lowering.kernels:
            raise StepError(
                f"gpu.module @{params.module} has no kernel", hint="mark a gpu.func with `kernel`"
            )
        contexts.verify(module.operation, source=lowering.source)
        translated = contexts.translate(kernel_module(module), target=lowering.target, source=lowering.source)
        return translated, lowering


def new_lowering(module: ir.Module, text: str, params: CompileParams) -> CpuLowering:
    """Return the state of a lowering that has not begun."""
    return CpuLowering(
        source=SourceText(text, f"@{params.module} (canonical text)"),
        target=params.target or params.chip,
        written_ops=written_ops(module.operation),
        text_digest=locations.text_digest(text),
        sanitize=frozenset(params.sanitize),
        fast_math=params.fast_math,
        debug=params.debug,
        probe_stack=params.triple.startswith("x86_64"),
    )


def _require_one(module: ir.Module, params: CompileParams) -> None:
    found = len(contexts.gpu_modules(module))
    if found != 1:
        raise StepError(f"expected one gpu.module, @{params.module}, and found {found}")
