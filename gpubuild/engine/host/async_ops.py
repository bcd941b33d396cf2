"""Rewrite gpu operations of host code to the forms that ``gpu-to-llvm`` lowers.

That pass lowers allocations, copies and fills only if they are asynchronous with exactly one
dependency, allocations shared with the host only if they are synchronous, and synchronous launches
only without dependencies. Upstream's ``gpu-async-region`` rewrites only functions that are synchronous
throughout, so all others are rewritten here, one operation at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.host import memory, sparse, tokens
from gpubuild.engine.host.tokens import TOKEN_TYPE, is_token
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.query import first, matching

_ASYNC_OPS = sparse.OPS | {"gpu.alloc", "gpu.dealloc", "gpu.launch_func", "gpu.memcpy", "gpu.memset"}
_REGION_PASSES = "builtin.module(async-to-async-runtime,async-runtime-ref-counting)"
_SEGMENTS, _RESULT_SEGMENTS = "operandSegmentSizes", "resultSegmentSizes"


def lower_regions(module: ir.Module, source: SourceText | None = None) -> bool:
    """Outline regions of the async dialect into functions, in place; return whether there are any.

    Each becomes a task of the runtime (``runtime/abi/async_runtime.c``). Runs first, so that gpu
    operations in them are in ordinary functions.
    """
    found = _uses_async_dialect(module.operation)
    if found:
        contexts.run_passes(module, _REGION_PASSES, source=source)
    return found


def normalize(module: ir.Module, source: SourceText | None = None) -> None:
    """Rewrite a host module in place. Raises ``StepError`` for tokens that upstream would lower wrongly."""
    memory.check(module, source)
    sparse.check(module, source)
    memory.use_default_space(module)
    for function in list(module.body.operations):
        if function.operation.name == "func.func":
            ops = _async_ops(function.operation)
            # A task can be suspended before the end at which upstream would wait.
            is_task = _uses_async_dialect(function.operation)
            # Upstream's pass adds a token and leaves the number of results in this attribute.
            is_wrong = any(_is_async(op) or _RESULT_SEGMENTS in op.attributes for op in ops)
            if ops and not is_task and not is_wrong:
                contexts.run_passes(function, "func.func(gpu-async-region)", source=source)
    tokens.lower_choices(module)
    tokens.check(module, source)
    for op in _async_ops(module.operation):
        _normalize_op(op)
    tokens.wait_for_copies(module)
    tokens.wait_for_followers(module)
    tokens.lower_passing(module)
    tokens.fork(module)
    memory.call_runtime(module)
    sparse.pass_addresses(module)
    tokens.release(module)


def _uses_async_dialect(root: ir.Operation) -> bool:
    return first(root, lambda op: op.name.startswith("async.")) is not None


def _async_ops(root: ir.Operation) -> list[ir.Operation]:
    return matching(root, lambda op: op.name in _ASYNC_OPS or (op.name == "gpu.wait" and _is_async(op)))


def _is_async(op: ir.Operation) -> bool:
    return len(op.results) > 0 and is_token(op.results[-1])


def _normalize_op(op: ir.Operation) -> None:
    if op.name == "gpu.wait":
        return
    awaited = [o for o in op.operands if is_token(o)]
    if op.name == "gpu.alloc" and "hostShared" in op.attributes:
        if awaited or _is_async(op):
            _make_synchronous(op, awaited)
    elif len(awaited) != 1 if _is_async(op) else (awaited or op.name != "gpu.launch_func"):
        with ir.InsertionPoint(op), op.location:
            new = _clone(op, [_wait(awaited, is_async=True)], with_token=True)
            if not _is_async(op):
                _wait([new.results[-1]], is_async=False)
        for old, result in zip(op.results, new.results, strict=False):
            old.replace_all_uses_with(result)
        op.erase()


def _make_synchronous(op: ir.Operation, awaited: Sequence[ir.Value]) -> None:
    with ir.InsertionPoint(op), op.location:
        if awaited:
            _wait(awaited, is_async=False)
        new = _clone(op, [], with_token=False)
        if _is_async(op):
            # The allocation is done when it returns, so its token waits for nothing.
            op.results[-1].replace_all_uses_with(_wait([], is_async=True))
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _wait(awaited: Sequence[ir.Value], *, is_async: bool) -> ir.Value:
    results = [ir.Type.parse(TOKEN_TYPE)] if is_async else []
    wait = ir.Operation.create("gpu.wait", results=results, operands=list(awaited))
    return wait.results[0] if is_async else None


def _clone(op: ir.Operation, awaited: Sequence[ir.Value], *, with_token: bool) -> ir.Operation:
    """Create the same operation with other dependencies, with or without a token as its last result."""
    results = [r.type for r in op.results if not is_token(r)]
    if with_token:
        results.append(ir.Type.parse(TOKEN_TYPE))
    attributes = dict(op.attributes.items())
    if _SEGMENTS in attributes:
        # Dependencies are the first segment.
        sizes = [len(awaited), *list(attributes[_SEGMENTS])[1:]]
        attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get(sizes)
    if _RESULT_SEGMENTS in attributes:
        counts = [*list(attributes[_RESULT_SEGMENTS])[:-1], int(with_token)]
        attributes[_RESULT_SEGMENTS] = ir.DenseI32ArrayAttr.get(counts)
    operands = [*awaited, *(o for o in op.operands if not is_token(o))]
    return ir.Operation.create(op.name, results=results, operands=operands, attributes=attributes)
