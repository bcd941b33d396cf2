"""Lowering of a gpu.module by the ordered table of passes of a back end.

Here are the driver for GPUs, which ends in LLVM IR text, the driver of single passes for tests and
``gpubuild pass``, and the passes that several back ends have in their tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from mlir import ir

from gpubuild.engine.ir import contexts, user_pipeline
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.dump import dump, stage
from gpubuild.engine.ir.kernel_table import KernelEntry, entry_of
from gpubuild.engine.ir.locations import restore_assert_locations
from gpubuild.engine.ir.passes import Lowering, Pass, only_when, rewriting, run_passes, selected, upstream
from gpubuild.engine.ir.query import kernel_functions, module_dialect
from gpubuild.engine.ir.resources import NO_RESOURCES, External, StepResources
from gpubuild.engine.ir.step_io import StepIO, lower_input
from gpubuild.engine.legalize import (
    arith_expansions,
    booleans,
    memory_ops,
    printf,
    small_floats,
    softmax,
    subgroup_reduce,
    subgroup_shuffle,
    vectors,
)
from gpubuild.engine.legalize.state import Legalization
from gpubuild.errors import StepError
from gpubuild.model.step import CompileParams
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import Target

_FLUSH_DENORMALS = '["denormal-fp-math-f32", "preserve-sign"]'
_WORKGROUP_SPACE = 3
_DYNAMIC_ALIGNMENT = 16  # bytes, enough for any vector access
# An option of upstream's pipelines that says what a target says.
_TARGET_OPTION = re.compile(
    r"\b(cubin-chip|cubin-features|cubin-triple|opt-level|ptxas-cmd-options)="
    r"('[^']*'|\"[^\"]*\"|{[^}]*}|[^\s{}]*)"
)
_C_INTERFACE = "_mlir_ciface_"


@dataclass(slots=True, kw_only=True)
class GpuLowering(Legalization):
    """The state of one lowering: its parameters, and the results of passes."""

    params: CompileParams
    kernels: tuple[KernelEntry, ...] = field(default=(), init=False)  # in order
    llvm: str = field(default="", init=False)  # LLVM IR text
    resources: StepResources = field(default=NO_RESOURCES, init=False)
    externals: tuple[External, ...] = field(default=(), init=False)  # variables that are resources


S = TypeVar("S", bound=GpuLowering)


def lower(
    params: CompileParams,
    io: StepIO,
    passes: Sequence[Pass[S]],
    start: Callable[[CompileParams, SourceText], S],
) -> S:
    """Lower input ``module``. Raises ``StepError``."""
    resources = StepResources.of(io)
    lowered = lower_input(io, "module", lambda text: lower_text(text, params, passes, start, resources))
    for warning in lowered.warnings:
        io.warn(warning)
    return lowered


def lower_text(
    text: str,
    params: CompileParams,
    passes: Sequence[Pass[S]],
    start: Callable[[CompileParams, SourceText], S],
    resources: StepResources = NO_RESOURCES,
) -> S:
    """Lower a module that holds one gpu.module. Raises ``StepError``."""
    with contexts.context():
        source = SourceText(text, f"@{params.module} (canonical text)")
        state = start(params, source)
        state.resources = resources
        module = contexts.parse(text)
        restore_assert_locations(module.operation)
        with stage("input"):
            dump("mlir", lambda: contexts.canonical_text(module))
        _check_dialect(only_module(module, params), state)
        try:
            run_passes(module, passes, state)
        except StepError as error:
            if params.target.passes:
                raise
            raise contexts.with_target(error, params.target.name) from error.__cause__
        kernels = only_module(module, params)
        state.kernels = tuple(map(entry_of, kernel_functions(kernels)))
        if not state.kernels:
            raise StepError(
                f"gpu.module @{params.module} has no kernel",
                hint="mark a gpu.func with `kernel`",
            )
        state.externals = resources.externalize(kernels)
        state.llvm = contexts.translate(kernels, target=params.target.name, source=source)
        return state


def replaceable(*passes: Pass[S]) -> tuple[Pass[S], ...]:
    """Return ``passes``, which a target's own ``passes:`` replace if it has any."""
    own: Pass[S] = Pass(
        name="own-passes", run=_run_own, when=_has_own, pipeline=lambda state: state.params.target.passes
    )
    return (own, *only_when(lambda state: not state.params.target.passes, passes))


def _run_own(module: ir.Module, state: GpuLowering) -> None:
    run_own_passes(module, state.params.target, state.resources, state.source)


def run_own_passes(module: ir.Module, target: Target, resources: StepResources, source: SourceText) -> None:
    """Run the passes that a target has instead of gpubuild's own. Raises ``StepError``."""
    of_target = {
        "cubin-chip": target.chip,
        "cubin-features": target.features,
        "cubin-triple": target.triple,
        "opt-level": str(target.opt_level),
        "ptxas-cmd-options": " ".join(target.assembler_options),
    }
    for option, value in _TARGET_OPTION.findall(target.passes):
        if (wanted := of_target[option]) != value.strip("'\"{}"):
            raise StepError(
                f"the pass pipeline sets {option}={value}, and target {target.name} has {wanted or 'none'}",
                hint=f"leave {option} out of the pipeline, and set it for the target",
            )
    resources.bind(module)
    user_pipeline.run(module, target.passes, source=source, serializes=lambda *_: True)


def _has_own(state: GpuLowering) -> bool:
    return bool(state.params.target.passes)


def only_module(module: ir.Module, params: CompileParams) -> ir.Operation:
    """Return the gpu.module of a compile step. Raises ``StepError`` if there is none or more than one."""
    found = contexts.gpu_modules(module)
    if len(found) != 1:
        raise StepError(
            f"expected one gpu.module, @{params.module}, and found {len(found)}",
            hint="a pass pipeline must keep the gpu.module" if params.target.passes else "",
        )
    return found[0]


def _check_dialect(kernels: ir.Operation, state: GpuLowering) -> None:
    dialect = module_dialect(kernels)
    if dialect in {"nvvm", "rocdl"} and dialect not in state.capabilities.dialects:
        params = state.params
        raise StepError(
            f"gpu.module @{params.module} is already in the {dialect} dialect and cannot be compiled "
            f"for {params.target.name}",
            hint="leave this target out for the module, or write it in the gpu dialect",
        )


# ---- the parts that the tables of all back ends have, in this order ----

LOWER_STRUCTURES: tuple[Pass[Legalization], ...] = (
    memory_ops.DECLARE_ALLOCATIONS,
    memory_ops.EXPAND_CASTS,
    memory_ops.EXPAND_REALLOC,
    booleans.lower_structured("gpu.module"),
)
EXPAND_OPERATIONS: tuple[Pass[Legalization], ...] = (
    arith_expansions.SET_FAST_MATH,
    subgroup_reduce.EXPAND_IDS,
    subgroup_shuffle.EXPAND_SHUFFLES,
    printf.PROMOTE_ARGUMENTS,
    booleans.USE_BYTES,
    memory_ops.EXPAND_COPIES,
    vectors.SPLIT_ACCESSES,
    vectors.EXPAND_POSITIONS,
    arith_expansions.WIDEN_CONTRACT_FACTORS,
    arith_expansions.EXPAND_MATH,
    arith_expansions.ROUND_INTEGERS_ONCE,
    arith_expansions.EXPAND_COMPLEX_BITCAST,
    softmax.EXPAND_SOFTMAX,
    memory_ops.EXPAND_ATOMIC_PRODUCTS,
    memory_ops.FLOAT_ATOMICS_TO_INTEGERS,
)
EXPAND_TYPES: tuple[Pass[Legalization], ...] = (
    subgroup_reduce.EXPAND_EXECUTE_ON_LANE_0,
    memory_ops.TAKE_POINTERS,
    small_floats.EXPAND_SCALING,
    small_floats.EMULATE,
    small_floats.EXPAND_CONVERSIONS,
    small_floats.EXPAND_SCALE_CONVERSIONS,
    arith_expansions.LOWER_VECTORS,
)

# ---- upstream's conversions that all GPUs share; vectors go before those of gpu, which do not know them ----

TO_LOOPS: Pass[GpuLowering] = upstream(
    "lower-to-loops",
    "builtin.module(gpu.module(convert-complex-to-standard,convert-linalg-to-loops,canonicalize,cse,"
    "scf-forall-to-for,lower-affine,convert-vector-to-scf))",
)
TO_BLOCKS: tuple[Pass[GpuLowering], ...] = (
    memory_ops.EXPAND_SHAPES,
    memory_ops.EXCHANGE_VALUES,
    upstream(
        "lower-to-blocks",
        "builtin.module(gpu.module(convert-scf-to-cf,expand-strided-metadata,lower-affine,"
        "arith-expand{include-bf16=false}))",
    ),
)
FINISH_LLVM: Pass[GpuLowering] = upstream(
    "finish-llvm",
    "builtin.module(gpu.module(convert-math-to-llvm,convert-complex-to-llvm,convert-ub-to-llvm,canonicalize,"
    "cse,reconcile-unrealized-casts))",
)


def debug_scope(emission: str) -> Pass[GpuLowering]:
    """Return the pass that turns locations into debug information, where the target asks for it."""

    def text(state: GpuLowering) -> str:
        kind = "Full" if state.debug_variables else emission
        return f"builtin.module(ensure-debug-info-scope-on-llvm-func{{emission-kind={kind}}})"

    return upstream("add-debug-scopes", text, when=lambda state: bool(state.params.target.debug))


# ---- for functions in LLVM's dialect, also those that passes of the user made ----


def mark_kernels(mark: str) -> Pass[GpuLowering]:
    """Return the pass that gives kernels the attribute ``mark``, which LLVM's back end needs."""

    def run(op: ir.Operation, _: GpuLowering) -> None:
        if "gpu.kernel" in op.attributes and mark not in op.attributes:
            op.attributes[mark] = ir.UnitAttr.get()

    return rewriting("mark-kernels", {"llvm.func": run})


def _flush_denormals(function: ir.Operation, _: GpuLowering) -> None:
    existing = list(function.attributes["passthrough"]) if "passthrough" in function.attributes else []
    function.attributes["passthrough"] = ir.ArrayAttr.get([*existing, ir.Attribute.parse(_FLUSH_DENORMALS)])


def _link_workgroup_memory(op: ir.Operation, _: GpuLowering) -> None:
    """Make workgroup memory of a known size internal, and that with a size chosen at launch external.

    Upstream has both the other way round. ptxas warns of a declared array that nothing defines, and a
    defined array of no elements may get an address in front of others, which it then overlaps.
    """
    space = op.attributes["addr_space"].value if "addr_space" in op.attributes else 0
    if space != _WORKGROUP_SPACE or op.regions[0].blocks:
        return
    dynamic = "array<0 x" in str(op.attributes["global_type"])
    op.attributes["linkage"] = ir.Attribute.parse(f"#llvm.linkage<{'external' if dynamic else 'internal'}>")
    if dynamic and "alignment" not in op.attributes:
        i64 = ir.IntegerType.get_signless(64)
        op.attributes["alignment"] = ir.IntegerAttr.get(i64, _DYNAMIC_ALIGNMENT)


def flush_denormals(when: Callable[[Target], bool]) -> Pass[GpuLowering]:
    """Return the pass that allows functions to flush subnormal numbers of f32, for some targets."""
    return rewriting(
        "flush-denormals", {"llvm.func": _flush_denormals}, when=lambda state: when(state.params.target)
    )


def _call_libraries_directly(module: ir.Module, _: Lowering) -> None:
    """Let a declared function without memrefs be the symbol of its own name in a device library.

    Upstream makes it a wrapper around ``_mlir_ciface_<name>``, which passes memrefs by pointer and
    means nothing where there are none.
    """
    for kernels in contexts.gpu_modules(module):
        functions = {
            op.operation.attributes["sym_name"].value: op.operation
            for op in kernels.regions[0].blocks[0]
            if op.operation.name == "llvm.func"
        }
        for name, declared in functions.items():
            plain = name.removeprefix(_C_INTERFACE)
            wrapper = functions.get(plain) if plain != name else None
            if wrapper is None or len(declared.regions[0].blocks):
                continue
            if declared.attributes["function_type"] == wrapper.attributes["function_type"]:
                wrapper.erase()
                declared.attributes["sym_name"] = ir.StringAttr.get(plain)


CALL_LIBRARIES_DIRECTLY: Pass[Lowering] = Pass(name="call-libraries-directly", run=_call_libraries_directly)
LINK_WORKGROUP_MEMORY = rewriting("link-workgroup-memory", {"llvm.mlir.global": _link_workgroup_memory})


def passes_of(kind: str) -> Sequence[Pass[Any]]:
    """Return the ordered table of a back end: ``PASSES`` of the module ``passes`` in its folder."""
    table: Sequence[Pass[Any]] = _module(kind).PASSES
    return table


def run_range(text: str, params: CompileParams, first: str, last: str = "", *, name: str = "") -> str:
    """Return the canonical text of a module after the passes from ``first`` to ``last``.

    ``name`` is that of its file, for messages. The module may have operations of unknown dialects.
    Raises ``UsageError`` for passes that are not in the table of the target, and ``StepError``.
    """
    passes = selected(passes_of(params.target.kind), first, last)
    with contexts.context() as context:
        context.allow_unregistered_dialects = True
        module = contexts.parse(text, source_name=name)
        source = SourceText(text, name)
        run_passes(module, passes, _module(params.target.kind).start(params, source))
        contexts.verify(module.operation, source=source)
        return contexts.canonical_text(module)


def _module(kind: str) -> Any:  # noqa: ANN401 - modules are no types
    return import_module(f"{vendor(kind).backend}.passes")
