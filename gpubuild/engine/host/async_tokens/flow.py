"""Token flow: what becomes of gpu.async tokens, which ``gpu-to-llvm`` takes for streams without looking.

An operation with one dependency goes on in that dependency's stream, and waiting for a token on the
host destroys its stream. Both are right only when every token is consumed once, in the block that
makes it. All other consumers, in loops, branches and other blocks, too, get streams of their own.
Tokens that are passed on as arguments or results, which upstream would take for events, become
streams that whoever receives them joins and releases (token_passing).
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.host.async_tokens import points
from gpubuild.engine.host.async_tokens.points import mark
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.query import matching
from gpubuild.errors import StepError

TOKEN_TYPE = "!gpu.async.token"  # noqa: S105 - a type
# Operations that hand tokens to a block, a region's results, a function or its caller.
PASSING = frozenset(
    {
        "cf.br", "func.call", "func.return", "scf.condition", "scf.for", "scf.while", "scf.yield",
    }
)  # fmt: skip
RELEASE = "gpubuildStreamRelease"  # runtime/abi/mgpu.c
JOIN = "gpubuildStreamJoin"


def is_token(value: ir.Value) -> bool:
    """Whether ``value`` is a gpu.async token."""
    return str(value.type) == TOKEN_TYPE


def check(module: ir.Module, source: SourceText | None = None) -> None:
    """Raise ``StepError`` for tokens that are passed on in a way that cannot be followed."""
    lines = source or SourceText()
    found = [about(op, reason, lines) for op in _users(module) if (reason := _refusal(op))]
    if found:
        raise StepError(
            "host code passes gpu tokens where they cannot be followed",
            diagnostics=found,
            hint="use scf.for, scf.while, scf.if, arith.select or branches of cf, or end the chain with "
            "`gpu.wait [%token]` where it began, and begin another with `%token = gpu.wait async`",
        )


def wait_for_followers(module: ir.Module) -> None:
    """Let the host, when it waits for a token, also wait for what followed it in the block until then.

    The dialect does not ask for that. Upstream does it, with one stream for all that depends on a
    token, and programs written for it rely on it.
    """
    for wait in [op for op in _users(module) if op.name == "gpu.wait" and not is_join(op)]:
        before = set()
        for op in wait.block.operations:
            if op.operation == wait:
                break
            before.add(op.operation)
        awaited = list(wait.operands)
        added = []
        for token in awaited:
            added += [end for end in _followers(token, before) if end not in awaited and end not in added]
        if added:
            with ir.InsertionPoint(wait), wait.location:
                ir.Operation.create("gpu.wait", operands=[*awaited, *added])
            wait.erase()


def wait_for_copies(module: ir.Module) -> None:
    """Let the host wait at a `gpu.wait async` for copies that nothing else orders before what follows.

    Two things would not be: the end of a function, when nothing uses the wait's token, and a launch
    without tokens. Programs written for CUDA rely on both, since its copies from and to memory that
    is not registered are done, or as good as done, on return.
    """
    for wait in [op for op in _users(module) if op.name == "gpu.wait" and is_join(op)]:
        awaited = list(wait.operands)
        if list(wait.results[0].uses):
            if not _before_launch(wait):
                continue
            awaited = [
                t
                for t in awaited
                if not isinstance(t.owner, ir.Block) and t.owner.operation.name == "gpu.memcpy"
            ]
        if awaited:
            with ir.InsertionPoint(wait), wait.location:
                ir.Operation.create("gpu.wait", operands=awaited)


def _before_launch(wait: ir.Operation) -> bool:
    """Whether a launch without tokens follows in the block."""
    return any(
        op.name == "gpu.launch_func"
        and wait.is_before_in_block(op.operation)
        and not any(is_token(v) for v in (*op.operation.operands, *op.operation.results))
        for op in wait.block.operations
    )


def _followers(token: ir.Value, before: set[ir.Operation]) -> list[ir.Value]:
    """The ends of the chains that begin with ``token``, as far as these operations go."""
    ends: list[ir.Value] = []
    for use in token.uses:
        op = use.owner.operation
        if op not in before or not op.name.startswith("gpu.") or is_join(op):
            continue
        for result in op.results:
            if is_token(result):
                ends += _followers(result, before) or [result]
    return ends


def fork(module: ir.Module) -> None:
    """Give every consumer of a token but the last a stream of its own, which waits for the token.

    A token that is used in another block, inside its own or not, gives all its consumers such streams:
    which of them run, and how often, is not known here.
    """
    far = [token for token in _tokens(module) if _is_used_elsewhere(token)]
    if far:
        declare(module, JOIN, [ir.Type.parse(TOKEN_TYPE)] * 2)
    while far:
        token = far.pop()
        for use in list({use.owner.operation: None for use in token.uses}):
            if use.name == "func.call":  # of ours, at the right place already
                continue
            # The token of a join that is made anew is another one, and may be of this list itself.
            places = [number for number, other in enumerate(far) if is_join(use) and other == use.results[0]]
            stream = _join_anew(use, token)
            for number in places:
                far[number] = stream
    seen: list[ir.Value] = []
    consumers = [op for op in _users(module) if _goes_on(op)]
    for op in reversed(consumers):
        for number in reversed(range(len(op.operands))):
            token = op.operands[number]
            if not is_token(token):
                continue
            if token not in seen:
                seen.append(token)
                continue
            with ir.InsertionPoint(op), op.location:
                wait = ir.Operation.create("gpu.wait", results=[ir.Type.parse(TOKEN_TYPE)], operands=[token])
            op.operands[number] = wait.results[0]


def _is_used_elsewhere(token: ir.Value) -> bool:
    home = token.owner.operation.block
    return any(use.owner.operation.block != home for use in token.uses)


def _join_anew(op: ir.Operation, token: ir.Value) -> ir.Value:
    """Let ``op`` depend on a stream that waits for the token's, by a call of the runtime.

    Returns that stream, which takes the place of ``op`` if that is a join.
    """
    kind = ir.Type.parse(TOKEN_TYPE)
    # A join makes a new stream itself. One made before it would not do: upstream records the event
    # that the join waits for where that stream is made.
    others = [o for o in op.operands if o != token] if is_join(op) else []
    with ir.InsertionPoint(op), op.location:
        stream = ir.Operation.create("gpu.wait", results=[kind], operands=others).results[0]
        callee = {"callee": ir.FlatSymbolRefAttr.get(JOIN)}
        ir.Operation.create("func.call", operands=[stream, token], attributes=callee)
    if is_join(op):
        if needs_mark(op.results[0]):
            stream = mark(op, stream)
        op.results[0].replace_all_uses_with(stream)
        op.erase()
        return stream
    for number, operand in enumerate(op.operands):
        if operand == token:
            op.operands[number] = stream
    return stream


def _users(module: ir.Module) -> list[ir.Operation]:
    return matching(module.operation, lambda op: any(is_token(o) for o in op.operands))


def needs_mark(token: ir.Value) -> bool:
    """Whether an event will be recorded where ``token`` is made: it has to be made late enough."""
    uses = [use.owner for use in token.uses]
    return len(uses) > 1 or any(is_join(op) for op in uses)


def is_join(op: ir.Operation) -> bool:
    """`gpu.wait async` begins a stream that waits for others and leaves those as they are."""
    return bool(op.name == "gpu.wait" and len(op.results) > 0)


def release(module: ir.Module) -> None:
    """Destroy the streams of chains that no host code waits for, in place: upstream leaves them behind.

    A stream that is destroyed still does what it has to do. Runs after :func:`fork`.
    """
    ends = [token for token in _tokens(module) if not any(_goes_on(use.owner) for use in token.uses)]
    for token in ends:
        for place in points.places(token):
            with place, token.owner.operation.location:
                callee = {"callee": ir.FlatSymbolRefAttr.get(RELEASE)}
                ir.Operation.create("func.call", operands=[token], attributes=callee)
    if ends:
        declare(module, RELEASE, [ir.Type.parse(TOKEN_TYPE)])


def declare(module: ir.Module, name: str, operands: Sequence[ir.Type]) -> None:
    """Declare a function of the runtime without results, once; tokens become streams in a call of it."""
    symbols = (op.operation.attributes for op in module.body.operations)
    if any("sym_name" in a and a["sym_name"].value == name for a in symbols):
        return
    with ir.InsertionPoint(module.body), module.operation.location:
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(operands), [])),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        ir.Operation.create("func.func", attributes=attributes, regions=1)


def _tokens(module: ir.Module) -> list[ir.Value]:
    ops = matching(module.operation, lambda op: op.name.startswith(("gpu.", "nvgpu.")))
    return [result for op in ops for result in op.results if is_token(result)]


def _goes_on(op: ir.Operation) -> bool:
    return not is_join(op) and op.name != "func.call"


def _refusal(op: ir.Operation) -> str:
    if op.name in PASSING:
        return ""
    if op.name.partition(".")[0] not in ("gpu", "async", "nvgpu"):
        return f"a gpu token is passed to '{op.name}'"
    return ""
