"""Lower the host part of a source, with the modules that it launches, to an object file."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.host import async_ops, call_locations, clang_offload, gpu_binary, object_code
from gpubuild.engine.ir import contexts, locations, user_pipeline
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Lowering, Pass, run_passes
from gpubuild.engine.ir.query import matching
from gpubuild.engine.ir.resources import External, StepResources
from gpubuild.engine.ir.step_io import StepIO, lower_input
from gpubuild.engine.legalize import booleans, memory_ops, vectors, workarounds
from gpubuild.engine.legalize.unsupported_ops import diagnostics, narrow_memory
from gpubuild.errors import StepError
from gpubuild.model.project import Offload
from gpubuild.model.step import HostParams
from gpubuild.support.frozen import frozen

# Runs after async_ops.normalize. `convert-math-to-libm` lowers operations without an LLVM intrinsic to
# calls, which the second `convert-to-llvm` lowers.
PASSES = (
    "builtin.module(expand-realloc,convert-linalg-to-loops,convert-vector-to-scf,lower-affine,convert-scf-to-cf,"
    "expand-strided-metadata,lower-affine,convert-vector-to-llvm,convert-nvgpu-to-nvvm,gpu-to-llvm,"
    "convert-to-llvm,convert-math-to-libm,convert-to-llvm,reconcile-unrealized-casts,canonicalize,cse)"
)
_HINTS = {  # for operations that upstream's conversion does not lower
    "gpu.alloc": "memory spaces of host memrefs must be numbers, or better left out",
    "spirv.": "a spirv.module cannot be linked: write a gpu.module, and list the target spirv",
    "gpu.printf": "only kernels can use it; host code calls printf of the C library",
}
_REPLACE_PASSES = (
    "lower it before the host's passes (`passes: {source: …}` in targets.yaml), "
    "or replace those (`passes: {host: …}`)"
)
# Other compilers write what their target is. Host code is compiled for the machine of the build.
_OTHER_MACHINE = ("llvm.data_layout", "llvm.target_triple")
_TASK_PASSES = "builtin.module(convert-scf-to-cf,convert-async-to-llvm)"
_DEBUG_PASSES = "builtin.module(ensure-debug-info-scope-on-llvm-func)"


@frozen
class _HostLowering:
    source: SourceText
    is_upstream: bool = False  # the code shall be that of upstream's passes


def _check(module: ir.Module, lowering: Lowering) -> None:
    found = matching(module.operation, lambda op: bool(narrow_memory(op)))
    if found:
        refused = [(op, narrow_memory(op)) for op in found]
        raise StepError("host code cannot be compiled", diagnostics=diagnostics(refused, lowering.source))
    on_tensors = matching(module.operation, _is_linalg_on_tensors)
    if on_tensors:  # upstream's conversion would name another cause
        shown = [(op, contexts.ON_TENSORS.format(op.name)) for op in on_tensors[:1]]
        raise StepError(
            "host code cannot be compiled",
            diagnostics=diagnostics(shown, lowering.source),
            hint=contexts.BUFFERIZE,
        )


def _is_linalg_on_tensors(op: ir.Operation) -> bool:
    return op.name.startswith("linalg.") and contexts.has_tensors(op)


# For operations that upstream's conversions fail on. Runs before async_ops.normalize.
LEGALIZE: tuple[Pass[_HostLowering], ...] = (
    Pass(
        name="report-assertions",
        run=call_locations.report_assertions,
        when=lambda lowering: not lowering.is_upstream,
    ),
    memory_ops.EXPAND_CASTS,
    memory_ops.EXPAND_REALLOC,
    memory_ops.EXPAND_SHAPES,
    memory_ops.EXCHANGE_VALUES,
    booleans.lower_structured("func.func"),
    Pass(name="check-operations", run=_check),
    memory_ops.PASS_POINTERS,
    booleans.USE_BYTES,
    vectors.SPLIT_ACCESSES,
    memory_ops.FLOAT_ATOMICS_TO_INTEGERS,
    workarounds.FLOOR_WIDE_INTEGERS,
)


@frozen
class _Lowered:
    mlir_text: str
    llvm_text: str
    externals: tuple[External, ...]


def run(params: HostParams, io: StepIO) -> None:
    """Write ``mlir``, ``llvm`` (as translated) and ``object``.

    Raises ``StepError`` whose diagnostics point into the user's file when ``located`` is there.
    """
    lowered = lower_input(io, "host", lambda text: _lower(text, params, io))
    io.write("mlir", lowered.mlir_text)
    io.write("llvm", lowered.llvm_text)
    object_code.write_object(
        lowered.llvm_text,
        triple=params.triple,
        opt_level=params.opt_level,
        io=io,
        externals=lowered.externals,
    )


def _lower(text: str, params: HostParams, io: StepIO) -> _Lowered:
    carried: list[clang_offload.Carried] = []
    with contexts.context():
        with io.stage("embed binaries"):
            source = SourceText(text, "host part (canonical text)")
            module = contexts.parse(text)
            named = call_locations.names(module)
            placed = _place_binaries(module, params, io)
            mlir_text = contexts.canonical_text(module)
            for number, (name, binary) in enumerate(placed.items()):
                if params.offload is Offload.DISPATCH:
                    gpu_binary.keep_place(binary)
                elif params.offload is Offload.CLANG:
                    kept = gpu_binary.keep_selected(binary) if name in params.chosen else None
                    codes = _device_codes(number, io)
                    codes = codes if kept is None else [codes[kept]]
                    carried.append(clang_offload.embed_record(binary, name, codes))
        resources = StepResources.of(io)
        with io.stage("lower host"):
            if params.passes:
                resources.bind(module)
            is_upstream = params.offload is Offload.SELECT_OBJECT
            lower_host(module, params.passes, source, is_upstream=is_upstream)
            if not is_upstream:
                call_locations.insert_calls(module, named, locations.text_digest(text))
            if params.debug:
                contexts.run_passes(module, _DEBUG_PASSES, source=source)
        with io.stage("translate host"):
            externals = resources.externalize(module.operation)
            text = clang_offload.with_device_code(_translate(module, source), carried)
            if params.offload is Offload.DISPATCH:
                text = gpu_binary.refer_to_images(text, placed)
    return _Lowered(mlir_text=mlir_text, llvm_text=text, externals=externals)


def _device_codes(number: int, io: StepIO) -> list[bytes]:
    """Return the relocatable code of the objects of binary ``number``, in order."""
    prefix = f"device.{number}."
    roles = [role for role in io.input_names if role.startswith(prefix)]
    return [io.read(role) for role in sorted(roles, key=lambda role: int(role.removeprefix(prefix)))]


def lower_host(
    module: ir.Module, passes: str = "", source: SourceText | None = None, *, is_upstream: bool = False
) -> None:
    """Lower a host module to the LLVM dialect in place, by ``passes`` if given, else by our own.

    ``is_upstream``: without calls of functions that only this project's runtime has.
    """
    for name in _OTHER_MACHINE:
        if name in module.operation.attributes:
            del module.operation.attributes[name]
    object_code.return_exit_code(module)
    if not passes:
        tasks = async_ops.lower_regions(module, source)
        lowering = _HostLowering(source=source or SourceText(), is_upstream=is_upstream)
        run_passes(module, LEGALIZE, lowering)
        async_ops.normalize(module, source)
        if tasks:
            contexts.run_passes(module, _TASK_PASSES, source=source)
        contexts.run_passes(module, PASSES, source=source)
    else:
        lines = source or SourceText()
        user_pipeline.run(module, passes, source=lines, serializes=lambda *_: False)


def _place_binaries(module: ir.Module, params: HostParams, io: StepIO) -> dict[str, ir.Operation]:
    """Fill the placeholders, except for dispatch; return them. Other gpu.binary operations are the user's."""
    found = gpu_binary.binaries(module)
    placed = {}
    for number, name in enumerate(params.modules):
        if name not in found:
            raise StepError(f"the host part has no place for the binary of gpu.module @{name}")
        placed[name] = found[name]
        if params.offload is Offload.DISPATCH:
            continue
        real = gpu_binary.binaries(contexts.parse(io.text(f"binary.{number}")))[name]
        for attribute in ("objects", "offloadingHandler"):
            found[name].attributes[attribute] = real.attributes[attribute]
    contexts.verify(module)
    return placed


def _translate(module: ir.Module, source: SourceText) -> str:
    try:
        return contexts.translate(module, target="host", source=source)
    except StepError as error:
        if "cannot lower" not in error.message or error.hint == contexts.BUFFERIZE:
            raise
        hints = [hint for name, hint in _HINTS.items() if name in error.message]
        raise error.with_(hint=hints[0] if hints else _REPLACE_PASSES) from error.__cause__
