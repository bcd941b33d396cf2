"""Async ops: bring gpu operations of host code into the forms that ``gpu-to-llvm`` lowers.

That pass takes allocations, copies and fills only when they are asynchronous with exactly one
dependency, allocations shared with the host only when they are synchronous, and synchronous
launches only without dependencies. Upstream's ``gpu-async-region`` helps functions that are
synchronous throughout and refuses all others, so the rest is done here, one operation at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.host import memory
from gpubuild.engine.host.async_tokens import flow, passing
from gpubuild.engine.host.async_tokens.flow import TOKEN_TYPE, is_token
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.query import first, matching

_ASYNC_OPS = frozenset({"gpu.alloc", "gpu.dealloc", "gpu.launch_func", "gpu.memcpy", "gpu.memset"})
_REGION_PASSES = "builtin.module(async-to-async-runtime,async-runtime-ref-counting)"
_SEGMENTS = "operandSegmentSizes"


def lower_regions(module: ir.Module, source: SourceText | None = None) -> bool:
    """Make functions of the regions of the async dialect, in place; returns whether there are any.

    Each becomes a task of the runtime's (``runtime/abi/async_runtime.c``). Done first, so that gpu
    operations in them are those of ordinary functions.
    """
    found = _uses_async_dialect(module.operation)
    if found:
        contexts.run_passes(module, _REGION_PASSES, source=source)
    return found


def normalize(module: ir.Module, source: SourceText | None = None) -> None:
    """Rewrite a host module in place; what it computes and in which order stays the same.

    Raises ``StepError`` for tokens that upstream would lower to wrong code (see token_flow).
    """
    memory.check(module, source)
    memory.use_default_space(module)
    for function in list(module.body.operations):
        if function.operation.name == "func.func":
            ops = _async_ops(function.operation)
            # A task may be suspended where upstream would wait for what it has begun.
            tasks = _uses_async_dialect(function.operation)
            if ops and not tasks and not any(_is_async(op) for op in ops):
                contexts.run_passes(function, "func.func(gpu-async-region)", source=source)
    passing.lower_choices(module)
    flow.check(module, source)
    for op in _async_ops(module.operation):
        _normalize_op(op)
    flow.wait_for_copies(module)
    flow.wait_for_followers(module)
    passing.lower(module)
    flow.fork(module)
    memory.call_runtime(module)
    flow.release(module)


def _uses_async_dialect(root: ir.Operation) -> bool:
    return first(root, lambda op: op.name.startswith("async.")) is not None


def _async_ops(root: ir.Operation) -> list[ir.Operation]:
    return matching(root, lambda op: op.name in _ASYNC_OPS or (op.name == "gpu.wait" and _is_async(op)))


def _is_async(op: ir.Operation) -> bool:
    return len(op.results) > 0 and is_token(op.results[-1])


def _normalize_op(op: ir.Operation) -> None:
    if op.name == "gpu.wait":
        return
    tokens = [o for o in op.operands if is_token(o)]
    if op.name == "gpu.alloc" and "hostShared" in op.attributes:
        if tokens or _is_async(op):
            _make_synchronous(op, tokens)
    elif _is_async(op):
        if len(tokens) != 1:
            with ir.InsertionPoint(op), op.location:
                new = _clone(op, [_wait(tokens, is_async=True)], with_token=True)
            _replace(op, new)
    elif tokens or op.name != "gpu.launch_func":
        with ir.InsertionPoint(op), op.location:
            new = _clone(op, [_wait(tokens, is_async=True)], with_token=True)
            _wait([new.results[-1]], is_async=False)
        _replace(op, new)


def _make_synchronous(op: ir.Operation, tokens: Sequence[ir.Value]) -> None:
    with ir.InsertionPoint(op), op.location:
        if tokens:
            _wait(tokens, is_async=False)
        new = _clone(op, [], with_token=False)
        if _is_async(op):
            # Who waited for the allocation waits for nothing: it is done when it returns.
            op.results[-1].replace_all_uses_with(_wait([], is_async=True))
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _wait(tokens: Sequence[ir.Value], *, is_async: bool) -> ir.Value:
    results = [ir.Type.parse(TOKEN_TYPE)] if is_async else []
    wait = ir.Operation.create("gpu.wait", results=results, operands=list(tokens))
    return wait.results[0] if is_async else None


def _clone(op: ir.Operation, tokens: Sequence[ir.Value], *, with_token: bool) -> ir.Operation:
    """The same operation with other dependencies, with or without a token as its last result."""
    results = [r.type for r in op.results if not is_token(r)]
    if with_token:
        results.append(ir.Type.parse(TOKEN_TYPE))
    attributes = dict(op.attributes.items())
    if _SEGMENTS in attributes:
        # Dependencies are the first segment of every operation that counts its operands.
        sizes = [len(tokens), *list(attributes[_SEGMENTS])[1:]]
        attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get(sizes)
    operands = [*tokens, *(o for o in op.operands if not is_token(o))]
    return ir.Operation.create(op.name, results=results, operands=operands, attributes=attributes)


def _replace(op: ir.Operation, new: ir.Operation) -> None:
    for old, result in zip(op.results, new.results, strict=False):
        old.replace_all_uses_with(result)
    op.erase()
