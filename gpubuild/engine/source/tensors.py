"""Pipelines ``linalg`` and ``tosa``: lower functions on tensors to kernels and host code.

One table of passes serves both. Upstream's fuse, bufferize and make loops. Kernels of loops are made by
:mod:`parallel_loops`, memory for them by :mod:`device_memory`, and streams by :mod:`token_chains`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.passes import Pass, run_passes, selected, upstream
from gpubuild.engine.ir.query import defining_op, matching, operations, symbol_name, viewed_memory
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.engine.source import (
    carried_tensors,
    device_memory,
    elementwise,
    parallel_loops,
    reductions,
    token_chains,
)
from gpubuild.engine.source.memory_uses import PRINTS
from gpubuild.errors import StepError

# Control flow is lowered first: passes to linalg refuse its tosa.yield.
_FROM_TOSA = (
    "builtin.module(func.func(tosa-optional-decompositions,tosa-infer-shapes,tosa-to-scf,"
    "tosa-make-broadcastable,tosa-to-linalg-named,canonicalize,tosa-layerwise-constant-fold,"
    "tosa-make-broadcastable,tosa-to-linalg,tosa-to-arith{include-apply-rescale=1},tosa-to-tensor),"
    "canonicalize,cse)"
)
_FUSE = "builtin.module(func.func(linalg-fuse-elementwise-ops),canonicalize,cse)"
_BUFFERIZE = (
    "builtin.module(eliminate-empty-tensors,empty-tensor-to-alloc-tensor,"
    "one-shot-bufferize{bufferize-function-boundaries=1 allow-return-allocs-from-loops=1 "
    "function-boundary-type-conversion=identity-layout-map},"
    "buffer-results-to-out-params{add-result-attr=1 hoist-static-allocs=1 hoist-dynamic-allocs=1 "
    "modify-public-functions=1},canonicalize,cse,buffer-deallocation-pipeline,func.func(buffer-hoisting),"
    "func.func(linalg-generalize-named-ops),canonicalize,cse)"
)
_LOOPS = "builtin.module(func.func(convert-linalg-to-parallel-loops),fold-memref-alias-ops,canonicalize,cse)"
# An error of the passes, a part of its source line, and what to do about it.
_HINTS = (
    ("op was not bufferized", "tosa.", "write `pipeline: tosa`, which lowers TOSA, too"),
    (
        "op was not bufferized",
        "",
        "the pipeline has no code for this operation: write it as a linalg.generic, "
        "in which tensor.extract reads single elements",
    ),
    (
        "memory free side-effect on MemRef value not supported!",
        "",
        "leave memref.dealloc out: the pipeline frees what it allocates",
    ),
    (
        "'bufferization.materialize_in_destination' op not bufferizable under the given constraints: "
        "would write to read-only buffer",
        "",
        "arguments are not written: give this one {bufferization.writable = true}",
    ),
    (
        "ops with unknown memory side effects are not supported",
        "gpu.host_register",
        "leave it out: the pipeline copies what kernels use",
    ),
    (
        "ops with unknown memory side effects are not supported",
        "gpu.",
        "the pipeline makes kernels, launches and copies of functions on tensors; "
        "compile functions with gpu operations in a program without `pipeline:`",
    ),
)
_OUTLINE = (
    "builtin.module(canonicalize,cse,gpu-launch-sink-index-computations,gpu-kernel-outlining,"
    "func.func(scf-parallel-for-to-nested-fors),canonicalize,cse)"
)
_FOLD = "builtin.module(canonicalize,cse)"
_ASYNC = "builtin.module(canonicalize,cse,func.func(gpu-async-region),canonicalize)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorLowering:
    """The state of one lowering from tensors."""

    name: str  # of the pipeline
    source: SourceText
    io: StepIO | None = None  # takes the warnings

    def warn(self, op: ir.Operation, message: str) -> None:
        """Report a warning at the location of ``op``."""
        if self.io is not None:
            self.io.warn(about(op, message, self.source, severity="warning").render())


def run(module: ir.Module, name: str, source: SourceText, io: StepIO) -> None:
    """Run pipeline ``name`` on ``module``. Raises ``StepError`` with locations in the source."""
    try:
        run_passes(module, PASSES, TensorLowering(name=name, source=source, io=io))
    except StepError as error:
        for message, part, hint in _HINTS:
            seen = any(d.message == message and part in d.source_line for d in error.diagnostics)
            if seen and f"pipeline: {name}" not in hint:
                raise error.with_(hint=hint) from error.__cause__
        raise


def run_range(text: str, pipeline: str, first: str, last: str = "", *, name: str = "") -> str:
    """Return the canonical text of a module after the passes from ``first`` to ``last``.

    ``name`` is that of its file, for messages. Raises ``UsageError`` for unknown passes, and ``StepError``.
    """
    passes = selected(PASSES, first, last)
    with contexts.context():
        module = contexts.parse(text, source_name=name)
        run_passes(module, passes, TensorLowering(name=pipeline, source=SourceText(text, name)))
        return contexts.canonical_text(module)


def _defined(module: ir.Module) -> list[ir.Operation]:
    """Return the functions that have a body."""
    return [op for op in operations(module.operation, ("func.func",)) if op.regions[0].blocks]


def _keep_arguments(module: ir.Module, _: TensorLowering) -> None:
    """Forbid writes to the caller's tensors, which upstream allows by default.

    Functions that print only read; upstream expects writes of functions that it does not see.
    """
    writable = "bufferization.writable"
    for function in _defined(module):
        kinds = [argument.type for argument in function.regions[0].blocks[0].arguments]
        given = function.attributes["arg_attrs"] if "arg_attrs" in function.attributes else [{}] * len(kinds)
        found = []
        for kind, attributes in zip(kinds, given, strict=True):
            named = {a.name: a.attr for a in attributes} if attributes else {}
            if isinstance(kind, ir.RankedTensorType):
                named.setdefault(writable, ir.BoolAttr.get(False))
            found.append(ir.DictAttr.get(named))
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(found)
    reads = ir.ArrayAttr.get([ir.DictAttr.get({"bufferization.access": ir.StringAttr.get("read")})])
    for function in operations(module.operation, ("func.func",)):
        kind = function.attributes["function_type"].value
        is_print = PRINTS.fullmatch(symbol_name(function)) and not function.regions[0].blocks
        if is_print and [type(of) for of in kind.inputs] == [ir.UnrankedTensorType]:
            function.attributes["arg_attrs"] = reads


def _separate_results(module: ir.Module, _: TensorLowering) -> None:
    """Copy a tensor that a function returns twice: each result has memory of its own."""
    for end in operations(module.operation, ("func.return",)):
        values = list(end.operands)
        for number, value in enumerate(values):
            if isinstance(value.type, ir.RankedTensorType) and value in values[:number]:
                end.operands[number] = carried_tensors.copied(end, value)


def _drop_deallocations(module: ir.Module, _: TensorLowering) -> None:
    """Erase ``memref.dealloc`` of memory that the function allocates: upstream's pass refuses and adds it."""
    for free in operations(module.operation, ("memref.dealloc",)):
        made = defining_op(free.operands[0])
        if made is not None and made.name == "memref.alloc":
            free.erase()


def _separate_fills(module: ir.Module, _: TensorLowering) -> None:
    """Give each user of a filled tensor its own in front of it: each would copy a common one.

    Loops are merged with their neighbours alone.
    """
    for fill in operations(module.operation, ("linalg.fill",)):
        uses = list(fill.results[0].uses) if len(fill.results) else []  # one of memory has no result
        for number, use in enumerate(uses):
            user = use.owner.operation
            if number:
                own = Emitter(user).copy(fill)
                empty = defining_op(fill.operands[1])
                if empty is not None and empty.name == "tensor.empty":
                    own.operands[1] = Emitter(own).copy(empty).results[0]
                user.operands[use.operand_number] = own.results[0]
            elif user.block == fill.block:
                fill.move_before(user)


def _without_parallel_loops(module: ir.Module) -> list[ir.Operation]:
    def only_reduces(op: ir.Operation) -> bool:
        if op.name != "linalg.generic":
            return False
        kinds = [str(kind) for kind in op.attributes["iterator_types"]]
        return bool(kinds) and not any("parallel" in kind for kind in kinds)

    return matching(module.operation, only_reduces)


def _to_parallel_loops(module: ir.Module, state: TensorLowering) -> None:
    """Make loops of operations, and give loops of one shape the same bounds."""
    for op in _without_parallel_loops(module):
        state.warn(op, "this stays on the host: it has no parallel loop")
    extents = {
        symbol_name(function): parallel_loops.shared_extents(function) for function in _defined(module)
    }
    contexts.run_passes(module, _LOOPS, source=state.source)
    for function in _defined(module):
        parallel_loops.share_extents(function, extents[symbol_name(function)])


def _map_to_launches(module: ir.Module, state: TensorLowering) -> None:
    for function in _defined(module):
        parallel_loops.map_to_launches(function, f"{symbol_name(function)}_kernels", state.warn)


def _use_device_memory(module: ir.Module, state: TensorLowering) -> None:
    for launch in operations(module.operation, ("gpu.launch_func",)):
        for value in launch.operands:
            if isinstance(viewed_memory(value).type, ir.UnrankedMemRefType):
                cast = value.owner.operation
                raise StepError(
                    "kernels cannot use memory of unknown rank",
                    diagnostics=[about(cast, "the rank is unknown before this", state.source)],
                    hint="give it a rank where it comes from, such as memref<?x?xf32> for memref<*xf32>",
                )
    for function in _defined(module):
        device_memory.use_device_memory(function)


def _each_function(change: Callable[[ir.Operation], None]) -> Callable[[ir.Module, TensorLowering], None]:
    def run(module: ir.Module, _: TensorLowering) -> None:
        for function in _defined(module):
            change(function)

    return run


PASSES: tuple[Pass[TensorLowering], ...] = (
    upstream("tosa-to-linalg", _FROM_TOSA, when=lambda state: state.name == "tosa"),
    upstream("inline-calls", "builtin.module(inline,symbol-dce,canonicalize,cse)"),
    Pass(name="elementwise-to-linalg", run=elementwise.to_linalg),
    Pass(name="generalize-elementwise", run=elementwise.generalize),
    Pass(name="inits-to-inputs", run=elementwise.inits_to_inputs),
    upstream("fuse-elementwise", _FUSE),
    Pass(name="separate-fills", run=_separate_fills),
    Pass(name="keep-carried-tensors", run=lambda module, _: carried_tensors.keep_carried(module.operation)),
    Pass(name="keep-arguments", run=_keep_arguments),
    Pass(name="separate-results", run=_separate_results),
    Pass(name="drop-deallocations", run=_drop_deallocations),
    upstream("bufferize", _BUFFERIZE),
    Pass(name="move-reductions-inside", run=_each_function(reductions.move_inside)),
    Pass(name="split-reductions", run=_each_function(reductions.split)),
    Pass(name="linalg-to-parallel-loops", run=_to_parallel_loops),
    upstream("fold-extents", _FOLD),
    Pass(name="fuse-parallel-loops", run=_each_function(parallel_loops.fuse)),
    Pass(name="accumulate-in-registers", run=_each_function(parallel_loops.use_registers)),
    upstream("fold-bounds", _FOLD),  # bounds that are constants are known as such after it
    Pass(name="map-to-launches", run=_map_to_launches),
    upstream("outline-kernels", _OUTLINE),
    Pass(name="use-device-memory", run=_use_device_memory),
    upstream("async-regions", _ASYNC),
    Pass(name="split-token-chains", run=_each_function(token_chains.split_chains)),
)
