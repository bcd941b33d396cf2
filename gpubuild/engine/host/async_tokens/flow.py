"""Token flow: what becomes of gpu.async tokens, which ``gpu-to-llvm`` takes for streams without looking.

An operation with one dependency goes on in that dependency's stream, and waiting for a token on the
host destroys its stream. Both are right only when every token is consumed once, in the block that
makes it. All other consumers, in loops, branches and other blocks, too, get streams of their own.
Tokens that are passed on as arguments or results, which upstream would take for events, become
streams that whoever receives them joins and releases (token_passing).

Edges: blocks of their own on the ways from a branch to its successors.

Tokens for points of a stream: where a token is last used, and new tokens that mark a point.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText, about
from gpubuild.engine.ir.query import matching
from gpubuild.errors import StepError

# Branches whose edges can be split.
BRANCHES = frozenset({"cf.cond_br", "cf.switch"})
_SEGMENTS = "operandSegmentSizes"
_CASE_SEGMENTS = "case_operand_segments"


def passed(branch: ir.Operation) -> list[list[ir.Value]]:
    """What one of ``BRANCHES`` passes to each of its successors, in their order."""
    sizes = list(branch.attributes[_SEGMENTS])[1:]  # the first is the condition's
    if branch.name == "cf.switch":
        sizes = [sizes[0], *branch.attributes[_CASE_SEGMENTS]]
    operands = iter(list(branch.operands)[1:])
    return [[next(operands) for _ in range(size)] for size in sizes]


def split(branch: ir.Operation, number: int) -> tuple[ir.Operation, ir.Block]:
    """Put a block on the way to successor ``number``, which passes on what the branch passed.

    Returns the branch, which is another operation now, and the block, which ends with `cf.br`.
    """
    groups = passed(branch)
    successors = list(branch.successors)
    edge = branch.block.create_after()
    with ir.InsertionPoint(edge), branch.location:
        ir.Operation.create("cf.br", operands=groups[number], successors=[successors[number]])
    groups[number] = []
    successors[number] = edge
    attributes = dict(branch.attributes.items())
    first, *others = (len(group) for group in groups)
    attributes[_SEGMENTS] = ir.DenseI32ArrayAttr.get([1, first, sum(others)])
    if branch.name == "cf.switch":
        attributes[_CASE_SEGMENTS] = ir.DenseI32ArrayAttr.get(others)
    operands = [branch.operands[0], *(value for group in groups for value in group)]
    with ir.InsertionPoint(branch), branch.location:
        new = ir.Operation.create(
            branch.name, operands=operands, attributes=attributes, successors=successors
        )
    branch.erase()
    return new, edge


_SCOPES = frozenset({"func.func", "async.execute", "async.func"})


def mark(op: ir.Operation, token: ir.Value) -> ir.Value:
    """A token, made before ``op``, of what the stream of ``token`` has to do by then.

    Upstream records the event that others wait for where a token was made. A copy of nothing makes one.
    """
    nothing = local_array(op, 0, ir.IntegerType.get_signless(8))
    return Emitter(op).op("gpu.memcpy", [token, nothing, nothing], [token.type]).results[0]


def local_array(op: ir.Operation, count: int, kind: ir.Type) -> ir.Value:
    """An array on the stack, made where the function begins: a loop must not make one each time round."""
    scope = op.parent.operation
    while scope.name not in _SCOPES:
        scope = scope.parent.operation
    start = scope.regions[0].blocks[0].operations[0]
    sizes = {"operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0])}
    return (
        Emitter(start.operation).op("memref.alloca", [], [ir.MemRefType.get([count], kind)], sizes).results[0]
    )


def places(token: ir.Value) -> list[ir.InsertionPoint]:
    """Points of which control passes one for each time the token is made, after its last use.

    A token that no block but its own uses has one, after its last use there or where it is made.
    Blocks may be put between others. Branches of other dialects than cf's are left as they are: where
    one of them leads away from all uses there is no point, so the token is left behind on that way.
    """
    maker = token.owner.operation
    last = _last_uses(token)
    entered = _entered(maker.block, last)
    found = []
    for block in [maker.block, *entered]:
        following = [successor in entered for successor in block.successors]
        if not any(following):
            found.append(ir.InsertionPoint.after(last.get(block, maker)))
            continue
        branch = block.operations[len(block.operations) - 1].operation
        for number, goes_on in enumerate(following):
            if not goes_on and branch.name in BRANCHES:
                branch, edge = split(branch, number)
                found.append(ir.InsertionPoint.at_block_begin(edge))
    return found


def _last_uses(token: ir.Value) -> dict[ir.Block, ir.Operation]:
    """The last operation of each block that uses the token, itself or somewhere inside."""
    region = token.owner.operation.block.region
    last: dict[ir.Block, ir.Operation] = {}
    for use in token.uses:
        op = use.owner.operation
        while op.block.region != region:
            op = op.parent.operation
        if op.block not in last or last[op.block].is_before_in_block(op):
            last[op.block] = op
    return last


def _entered(home: ir.Block, last: dict[ir.Block, ir.Operation]) -> list[ir.Block]:
    """The blocks before whose beginning the token is made and in or after which it is used."""
    waiting = [block for block in last if block != home]
    entered: list[ir.Block] = []
    while waiting:
        block = waiting.pop()
        if block not in entered:
            entered.append(block)
            waiting += [before for before in block.predecessors if before != home]
    return entered


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
        for place in places(token):
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
