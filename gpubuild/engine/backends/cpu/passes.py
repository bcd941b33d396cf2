"""The passes for CPUs, in order: from the gpu dialect to functions in LLVM's dialect that a CPU runs.

Upstream's conversion for NVIDIA GPUs comes first; later passes replace the operations of these GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from mlir import ir

from gpubuild.engine.backends.cpu import image_layout
from gpubuild.engine.backends.cpu.alias_versioning import version_aliases
from gpubuild.engine.backends.cpu.fission.applicability import inline_barrier_calls, refuse_unknown
from gpubuild.engine.backends.cpu.fission.context_arrays import allocate_attributions, place_private_memory
from gpubuild.engine.backends.cpu.fission.counted_loops import count_loops
from gpubuild.engine.backends.cpu.fission.delinearized_ids import delinearize_ids
from gpubuild.engine.backends.cpu.fission.fission import add_workgroup_functions, fission
from gpubuild.engine.backends.cpu.fission.grid_loops import begin_loops_together
from gpubuild.engine.backends.cpu.fission.loop_blocking import block_reductions
from gpubuild.engine.backends.cpu.fission.private_values import promote_private_memory
from gpubuild.engine.backends.cpu.fission.shuffles import lower_shuffles
from gpubuild.engine.backends.cpu.fission.structured_control_flow import (
    count_in_indices,
    hoist_ids,
    lift_branches,
    open_divergent_loops,
    separate_parallel_loops,
    simplify_structures,
)
from gpubuild.engine.backends.cpu.fission.tree_reductions import shorten_trees
from gpubuild.engine.backends.cpu.fission.workgroup_functions import each_workgroup_function
from gpubuild.engine.backends.cpu.lower import abi, half_floats
from gpubuild.engine.backends.cpu.lower.barriers import lower_barriers
from gpubuild.engine.backends.cpu.lower.calls import lower_calls
from gpubuild.engine.backends.cpu.lower.memory import (
    RELAX_WORKGROUP_ATOMICS,
    drop_address_spaces,
    hoist_allocations,
    place_workgroup_memory,
)
from gpubuild.engine.backends.cpu.lower.special_registers import READ_SPECIAL_REGISTERS
from gpubuild.engine.backends.cpu.machine import converted_by_calls
from gpubuild.engine.backends.cpu.nontemporal import mark_streaming
from gpubuild.engine.backends.cpu.state import CpuLowering, gpu_kernels, kernel_module, record_written_ops
from gpubuild.engine.backends.cpu.workgroup_coalescing import coalesce_workgroups
from gpubuild.engine.backends.lowering import (
    CALL_LIBRARIES_DIRECTLY,
    EXPAND_OPERATIONS,
    EXPAND_TYPES,
    LOWER_STRUCTURES,
)
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.locations import text_digest
from gpubuild.engine.ir.passes import Pass, upstream
from gpubuild.engine.ir.query import matching
from gpubuild.engine.legalize import (
    all_reduce,
    debug_variables,
    matrices,
    memory_ops,
    memory_spaces,
    subgroup_reduce,
    subgroup_shuffle,
    unsupported_ops,
    workarounds,
)
from gpubuild.engine.legalize.state import Capabilities, Shuffles
from gpubuild.model.step import CompileParams
from gpubuild.targets.target import FULL, Sanitize

_CAPABILITIES = Capabilities(
    devices="CPUs",
    subgroup_size=image_layout.SUBGROUP,
    shuffles=Shuffles.MEMORY,
    dialects=frozenset({"nvvm", "nvgpu"}),
    intrinsics=frozenset({"aarch64", "arm", "x86"}),
    wide_floats=True,
)


def _checked(lowering: CpuLowering) -> bool:
    return bool(lowering.sanitize)


def _optimizes(lowering: CpuLowering) -> bool:
    """Return whether work-items may share code: checks and variables are about single ones."""
    return not lowering.sanitize and not lowering.debug_variables


def _checks_barriers(lowering: CpuLowering) -> bool:
    return Sanitize.BARRIER in lowering.sanitize


def _check(name: str) -> Callable[[ir.Module, CpuLowering], None]:
    """Return a function of the sanitizer, which is loaded when it is called: few targets use it."""

    def run(module: ir.Module, lowering: CpuLowering) -> None:
        getattr(import_module("gpubuild.engine.backends.cpu.sanitizer.instrument"), name)(module, lowering)

    return run


def _each(
    name: str, change: Callable[[ir.Operation], None], *, when: Callable[[CpuLowering], bool] = lambda _: True
) -> Pass[CpuLowering]:
    """Return a pass that applies ``change`` to each workgroup function."""

    def run(module: ir.Module, _: CpuLowering) -> None:
        each_workgroup_function(kernel_module(module), change)

    return Pass(name=name, run=run, when=when)


def _hoist_ids(module: ir.Module, _: CpuLowering) -> None:
    for kernel in gpu_kernels(module):
        hoist_ids(kernel)


def _check_translatable(module: ir.Module, lowering: CpuLowering) -> None:
    """Raise ``StepError`` for operations that cannot become LLVM IR, those of GPU vendors first."""
    for op in matching(kernel_module(module), lambda op: op.name.startswith("nvgpu.")):
        raise lowering.unsupported(op)
    contexts.check_translatable(kernel_module(module), target=lowering.target, source=lowering.source)


RECORD_WRITTEN_OPS: Pass[CpuLowering] = Pass(name="record-written-ops", run=record_written_ops)
LEGALIZE: tuple[Pass[CpuLowering], ...] = (
    memory_spaces.NAME_PRIVATE,
    *LOWER_STRUCTURES,
    Pass(name="check-matrices-and-copies", run=_check("check_early"), when=_checked),
    matrices.EXPAND,
    unsupported_ops.checking(),
    subgroup_reduce.EXPAND_SIZE,
    *EXPAND_OPERATIONS,
    subgroup_shuffle.EXPAND_BROADCAST,
    subgroup_reduce.EXPAND,
    all_reduce.WIDEN,
    *EXPAND_TYPES,
)
TO_LOOPS: tuple[Pass[CpuLowering], ...] = (
    Pass(name="hoist-loop-allocations", run=hoist_allocations),
    # Up to structured loops, where fission works.
    upstream(
        "lower-to-loops",
        "builtin.module(gpu.module(convert-complex-to-standard,convert-linalg-to-loops,canonicalize,cse,"
        "scf-forall-to-for,lower-affine))",
    ),
)
SANITIZE: tuple[Pass[CpuLowering], ...] = (
    # Vectors are split before the checks, so that accesses have one dimension.
    upstream(
        "checked-vectors-to-loops",
        "builtin.module(gpu.module(convert-vector-to-scf,canonicalize,cse))",
        when=_checked,
    ),
    Pass(name="expand-masked-lanes", run=_check("expand_masked_lanes"), when=_checked),
    Pass(name="prove-accesses", run=_check("prove_accesses"), when=_checked),
    Pass(name="insert-checks", run=_check("insert_checks"), when=_checked),
    upstream("simplify-checks", "builtin.module(gpu.module(canonicalize,cse))", when=_checked),
)
FISSION: tuple[Pass[CpuLowering], ...] = (
    Pass(name="hoist-ids", run=_hoist_ids, when=_optimizes),
    Pass(name="add-workgroup-functions", run=add_workgroup_functions),
    _each("promote-private-memory", promote_private_memory, when=_optimizes),
    _each("lift-control-flow", lift_branches),
    _each("while-to-for", count_loops),
    Pass(name="inline-barrier-calls", run=inline_barrier_calls),
    _each("delinearize-ids", delinearize_ids, when=_optimizes),
    # Barriers would hide races between iterations.
    _each("block-reductions", block_reductions, when=_optimizes),
    _each("separate-parallel-loops", separate_parallel_loops, when=_optimizes),
    _each("begin-grid-loops-together", begin_loops_together, when=_optimizes),
    _each("structure-control-flow", simplify_structures),
    _each("index-loop-counters", count_in_indices),
    _each("allocate-private-attributions", allocate_attributions),
    _each("shuffle-through-memory", lower_shuffles),
    _each("private-memory-to-context-arrays", place_private_memory),
    # Where barriers are checked, such loops keep fibers: see fission.
    _each(
        "divergent-loops-to-while", open_divergent_loops, when=lambda lowering: not _checks_barriers(lowering)
    ),
    Pass(name="refuse-fission", run=refuse_unknown),
    _each("tree-reductions", shorten_trees),
    Pass(name="fission", run=fission),
    all_reduce.EXPAND_IN_FUNCTIONS,
)
TO_LLVM: tuple[Pass[CpuLowering], ...] = (
    upstream("vectors-to-loops", "builtin.module(gpu.module(convert-vector-to-scf))"),  # makes private memory
    Pass(name="hoist-vector-allocations", run=hoist_allocations),
    workarounds.KEEP_SIGNED_ZEROS,
    workarounds.FLOOR_WIDE_INTEGERS,
    memory_ops.EXPAND_SHAPES,
    memory_ops.EXCHANGE_VALUES,
    # As for NVIDIA, but nvvm ops stay: convert-nvvm-to-llvm would turn them into inline PTX.
    upstream(
        "lower-to-llvm",
        "builtin.module(gpu.module(convert-scf-to-cf,expand-strided-metadata,lower-affine,"
        "arith-expand{include-bf16=false},convert-nvgpu-to-nvvm,convert-vector-to-llvm,convert-index-to-llvm,"
        "convert-gpu-to-nvvm,convert-math-to-llvm,convert-complex-to-llvm,convert-ub-to-llvm,canonicalize,cse,"
        "reconcile-unrealized-casts))",
    ),
)
# From LLVM's dialect with NVIDIA's operations, which passes of the user may produce, to code of a CPU.
TO_CPU: tuple[Pass[CpuLowering], ...] = (
    CALL_LIBRARIES_DIRECTLY,
    Pass(name="check-translatable", run=_check_translatable),
    debug_variables.describe(workgroup_variables=False),
    Pass(name="pass-work-items", run=abi.pass_work_items),
    Pass(name="place-workgroup-memory", run=place_workgroup_memory),
    Pass(name="lower-calls", run=lower_calls),  # the next two call services through pointers
    READ_SPECIAL_REGISTERS,
    Pass(name="lower-barriers", run=lower_barriers),
    Pass(name="refuse-unsupported", run=abi.refuse_unsupported),
    Pass(name="finish-functions", run=abi.finish_functions),
    RELAX_WORKGROUP_ATOMICS,
    Pass(name="drop-address-spaces", run=drop_address_spaces),
    Pass(name="relax-float-operations", run=abi.make_fast, when=lambda lowering: lowering.fast_math),
    half_floats.EMULATE,
    upstream(
        "line-tables",
        "builtin.module(ensure-debug-info-scope-on-llvm-func{emission-kind=LineTablesOnly})",
        when=lambda lowering: lowering.debug,
    ),
)
PASSES: tuple[Pass[CpuLowering], ...] = (
    debug_variables.RECORD,
    RECORD_WRITTEN_OPS,
    *LEGALIZE,
    *TO_LOOPS,
    *SANITIZE,
    Pass(name="coalesce-workgroups", run=coalesce_workgroups, when=_optimizes),
    Pass(name="version-aliases", run=version_aliases, when=_optimizes),
    Pass(name="mark-streaming", run=mark_streaming),
    *FISSION,
    Pass(name="keep-barriers-apart", run=_check("keep_barriers_apart"), when=_checks_barriers),
    *TO_LLVM,
    *TO_CPU,
)


def start(params: CompileParams, source: SourceText) -> CpuLowering:
    """Return the state in which the passes start."""
    return CpuLowering(
        source=source,
        capabilities=_CAPABILITIES,
        target=params.target.name,
        fast_math=params.target.fast_math,
        text_digest=text_digest(source.text),
        sanitize=frozenset(params.target.sanitize),
        debug=bool(params.target.debug),
        debug_variables=params.target.debug == FULL,
        keep_values=params.target.opt_level == 0,
        converted_by_calls=converted_by_calls(params.target, source.text),
        probe_stack=params.target.triple.startswith("x86_64"),
    )
