"""Passes of AMD GPUs, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from gpubuild.engine.backends.amd import ops, printf
from gpubuild.engine.backends.lowering import (
    CALL_LIBRARIES_DIRECTLY,
    EXPAND_OPERATIONS,
    EXPAND_TYPES,
    FINISH_LLVM,
    LINK_WORKGROUP_MEMORY,
    LOWER_STRUCTURES,
    TO_BLOCKS,
    TO_LOOPS,
    GpuLowering,
    debug_scope,
    flush_denormals,
    mark_kernels,
    replaceable,
)
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Pass, rewriting, upstream
from gpubuild.engine.ir.query import operations
from gpubuild.engine.legalize import (
    all_reduce,
    arith_expansions,
    debug_variables,
    subgroup_reduce,
    unroll_and_jam,
    unsupported_ops,
    workarounds,
)
from gpubuild.engine.legalize.state import Capabilities, Shuffles
from gpubuild.model.step import CompileParams
from gpubuild.targets.amd import AMD, features_with_flags, gfx_version, rounds_roots
from gpubuild.targets.target import FULL

_PRIVATE_SPACE = 5  # of a work-item's own memory
_EXTREMA = frozenset({"f16", "f32", "f64"})  # LLVM selects at most three instructions
_STACK_SAVE = "llvm.intr.stacksave"
_WORKGROUP_SIZES = (
    "rocdl.flat_work_group_size",
    "rocdl.reqd_work_group_size",
    "rocdl.max_flat_work_group_size",
)


@dataclass(slots=True, kw_only=True)
class AmdLowering(GpuLowering):
    """The state of a lowering for AMD."""

    formats: tuple[str, ...] = field(default=(), init=False)  # of the messages that kernels write


def start(params: CompileParams, source: SourceText) -> AmdLowering:
    """Return the state in which the passes begin."""
    capabilities = Capabilities(
        devices="AMD GPUs",
        subgroup_size=AMD.subgroup_size(
            params.target.chip, features_with_flags(params.target.features, params.target.flags)
        ),
        shuffles=Shuffles.REGISTERS,
        dialects=frozenset({"rocdl", "amdgpu"}),
        intrinsics=frozenset({"amdgcn", "r600"}),
        exchanges_lanes=AMD.exchanges_lanes(params.target.chip),
        clusters=AMD.has_clusters(params.target.chip),
        private_space=_PRIVATE_SPACE,
        private_variables=False,
        memory_spaces=range(10),
        widest_all_reduce=None,
        workgroup_bytes=AMD.workgroup_bytes(params.target.chip),
    )
    return AmdLowering(
        source=source,
        capabilities=capabilities,
        target=params.target.name,
        fast_math=params.target.fast_math,
        finite_only="finite_only" in params.target.flags,
        exact_roots=rounds_roots(params.target),
        params=params,
        debug_variables=params.target.debug == FULL,
    )


def _refusal(op: ir.Operation, state: AmdLowering) -> str:
    return ops.chip_refusal(op, state.params.target.chip)


def _chip(state: GpuLowering) -> str:
    """Return the chip to convert for: a generic one is lowered as the first chip that it covers."""
    major, minor, stepping = gfx_version(state.params.target.chip)
    return f"gfx{major}{minor:x}{stepping:x}"


def _attach_target(state: GpuLowering) -> str:
    return f"builtin.module(rocdl-attach-target{{chip={_chip(state)} O={state.params.target.opt_level}}})"


def _convert_math(state: GpuLowering) -> str:
    """Convert complex numbers first: this conversion would otherwise see them."""
    convert = f"convert-math-to-rocdl{{chipset={_chip(state)}}}"
    return f"builtin.module(gpu.module(convert-complex-to-standard),{convert})"


def _convert(state: GpuLowering) -> str:
    chip = _chip(state)
    return (
        f"builtin.module(gpu.module(convert-amdgpu-to-rocdl{{chipset={chip}}},convert-vector-to-llvm,"
        f"convert-index-to-llvm,convert-gpu-to-rocdl{{chipset={chip} runtime=HIP}}))"
    )


def _allow_large_workgroups(kernel: ir.Operation, _: GpuLowering) -> None:
    """Allow 1024 work-items: for unknown sizes MLIR compiles for at most 256, and larger launches fail."""
    if "rocdl.kernel" in kernel.attributes and not any(n in kernel.attributes for n in _WORKGROUP_SIZES):
        kernel.attributes["rocdl.flat_work_group_size"] = ir.StringAttr.get("1,1024")


def _move_stack(module: ir.Module, _: GpuLowering) -> None:
    """Move stack memory to the address space where AMDGPU has it; casts make generic pointers of it."""
    for op in operations(module.operation, ("llvm.alloca", _STACK_SAVE)):
        if str(op.results[0].type) == "!llvm.ptr":
            _move_to_private(op)


def _move_to_private(op: ir.Operation) -> None:
    emit = Emitter(op)
    attributes = {name: op.attributes[name] for name in op.attributes}
    private = ir.Type.parse(f"!llvm.ptr<{_PRIVATE_SPACE}>")
    moved = emit.op(op.name, list(op.operands), [private], attributes)
    if op.name == _STACK_SAVE:  # the op that restores the stack takes any pointer
        emit.replace(moved.results[0])
        return
    emit.replace(emit.value("llvm.addrspacecast", [moved.results[0]], op.results[0].type))


def _take_formats(module: ir.Module, state: AmdLowering) -> None:
    for kernels in contexts.gpu_modules(module):
        state.formats = printf.take_formats(kernels)


PASSES: tuple[Pass[AmdLowering], ...] = (
    debug_variables.RECORD,
    *replaceable(
        ops.EXPAND_MATRICES,
        unroll_and_jam.JAM,
        *LOWER_STRUCTURES,
        unsupported_ops.checking(_refusal),
        *EXPAND_OPERATIONS,
        ops.BROADCAST,
        printf.EXPAND,
        arith_expansions.EXPAND_IS_INFINITE,
        arith_expansions.EXPAND_SINCOS,
        subgroup_reduce.EXPAND,
        all_reduce.WIDEN,
        all_reduce.SEPARATE,
        all_reduce.EXPAND,
        *EXPAND_TYPES,
        arith_expansions.extrema_to_llvm(lambda _: _EXTREMA),
        workarounds.KEEP_SIGNED_ZEROS,
        workarounds.FLOOR_WIDE_INTEGERS,
        upstream("attach-target", _attach_target),
        upstream("convert-math-to-rocdl", _convert_math),
        TO_LOOPS,
        *TO_BLOCKS,
        upstream("convert-to-rocdl", _convert),
        FINISH_LLVM,
    ),
    debug_variables.describe(workgroup_variables=True, only_registers=True),
    debug_scope("LineTablesOnly"),
    mark_kernels("rocdl.kernel"),
    rewriting("allow-large-workgroups", {"llvm.func": _allow_large_workgroups}),
    flush_denormals(lambda target: target.fast_math or "daz" in target.flags),
    LINK_WORKGROUP_MEMORY,
    CALL_LIBRARIES_DIRECTLY,
    Pass(name="move-stack-to-private", run=_move_stack),
    Pass(name="take-message-formats", run=_take_formats),
)  # fmt: skip
