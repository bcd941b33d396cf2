"""Give every gpu.async token of host code a stream of its own, as ``gpu-to-llvm`` does not.

For that pass, an operation with one dependency continues in the stream of that token, and waiting for a
token on the host destroys its stream. Both are correct only if every token has one consumer, in the
block that defines it. All other consumers, in loops, branches and other blocks, too, get streams here.
Tokens that are arguments and results of blocks, loops, branches and functions are passed as pointers to
streams: the sender creates a stream that waits for the token; the receiver creates one that waits for
it, and releases the first. So each stream is released once, whichever path control takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText, about, refuse
from gpubuild.engine.ir.query import enclosing, host_operations, matching, symbol_name, terminator

TOKEN_TYPE = "!gpu.async.token"  # noqa: S105 - a type
_POINTER = "!llvm.ptr"
# Operations that pass tokens to a block, to results of a region, to a function or its caller.
_PASSING = frozenset(
    {"cf.br", "func.call", "func.return", "scf.condition", "scf.for", "scf.while", "scf.yield"}
)
# Operations with tokens as results that come from their regions or their callee.
_RETURNING = _PASSING | {"scf.execute_region", "scf.if", "scf.index_switch"}
_BRANCHES = frozenset({"cf.cond_br", "cf.switch"})  # whose edges can be split
_SEGMENTS = "operandSegmentSizes"
_CASE_SEGMENTS = "case_operand_segments"
_SCOPES = frozenset({"func.func", "async.execute", "async.func"})
RELEASE = "gpubuildStreamRelease"  # runtime/abi/mgpu.c
JOIN = "gpubuildStreamJoin"


def is_token(value: ir.Value) -> bool:
    """Return whether ``value`` is a gpu.async token."""
    return str(value.type) == TOKEN_TYPE


def token_of(op: ir.Operation) -> ir.Value:
    """Return the first token that ``op`` depends on."""
    return next(operand for operand in op.operands if is_token(operand))


def is_join(op: ir.Operation) -> bool:
    """Return whether ``op`` is `gpu.wait async`: it begins a stream that waits for others."""
    return bool(op.name == "gpu.wait" and len(op.results) > 0)


def needs_mark(token: ir.Value) -> bool:
    """Return whether an event is recorded where ``token`` is defined, which then must be late enough."""
    uses = [use.owner for use in token.uses]
    return len(uses) > 1 or any(is_join(op) for op in uses)


def mark(op: ir.Operation, token: ir.Value) -> ir.Value:
    """Define a token before ``op`` for all work in the stream of ``token`` up to then.

    Upstream records the event that others wait for where a token is defined. An empty copy defines one.
    """
    nothing = local_array(op, 0, ir.IntegerType.get_signless(8))
    return Emitter(op).op("gpu.memcpy", [token, nothing, nothing], [token.type]).results[0]


def local_array(op: ir.Operation, count: int, kind: ir.Type) -> ir.Value:
    """Create an array on the stack at the beginning of the function, outside its loops."""
    scope = enclosing(op.parent.operation, _SCOPES)
    assert scope is not None  # noqa: S101 - host code is in functions
    start = scope.regions[0].blocks[0].operations[0]
    sizes = {_SEGMENTS: ir.DenseI32ArrayAttr.get([0, 0])}
    array = ir.MemRefType.get([count], kind)
    return Emitter(start.operation).op("memref.alloca", [], [array], sizes).results[0]


def declare(
    module: ir.Module, name: str, operands: Sequence[ir.Type], results: Sequence[ir.Type] = ()
) -> None:
    """Declare a runtime function, once; tokens become streams in calls of it."""
    if any(symbol_name(op.operation) == name for op in module.body.operations):
        return
    with ir.InsertionPoint(module.body), module.operation.location:
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(list(operands), list(results))),
            "sym_visibility": ir.StringAttr.get("private"),
        }
        ir.Operation.create("func.func", attributes=attributes, regions=1)


def check(module: ir.Module, source: SourceText | None = None) -> None:
    """Raise ``StepError`` for tokens that are passed to operations which are not supported."""
    found = [
        about(op, f"a gpu token is passed to '{op.name}'", source or SourceText())
        for op in _users(module)
        if op.name not in _PASSING and op.name.partition(".")[0] not in ("gpu", "async", "nvgpu")
    ]
    refuse(
        "host code passes gpu tokens where they cannot be followed",
        found,
        "use scf.for, scf.while, scf.if, arith.select or branches of cf, or end the chain with "
        "`gpu.wait [%token]` where it began, and begin another with `%token = gpu.wait async`",
    )


# ---- choices between tokens ----


def lower_choices(module: ir.Module) -> None:
    """Rewrite choices between tokens, in place, so that only the chosen one is waited for.

    `arith.select` becomes an `scf.if`, and branches pass tokens through blocks that end with `cf.br`.
    """
    chooses = {"arith.select", *_BRANCHES}
    for op in matching(module.operation, lambda op: op.name in chooses and any(map(is_token, op.operands))):
        if op.name == "arith.select":
            _select(op)
        else:
            branch = op
            for number, values in enumerate(passed(op)):
                if any(is_token(value) for value in values):
                    branch, _ = split(branch, number)


def _select(op: ir.Operation) -> None:
    condition, *tokens = op.operands
    emit = Emitter(op)
    choice = emit.op("scf.if", [condition], [op.results[0].type], regions=2)
    for region, token in zip(choice.regions, tokens, strict=True):
        emit.inside(region.blocks.append()).op("scf.yield", [token], [])
    emit.replace(choice.results[0])


def passed(branch: ir.Operation) -> list[list[ir.Value]]:
    """Return what a branch passes to each of its successors, in order."""
    sizes = list(branch.attributes[_SEGMENTS])[1:]  # without the condition
    if branch.name == "cf.switch":
        sizes = [sizes[0], *branch.attributes[_CASE_SEGMENTS]]
    operands = iter(list(branch.operands)[1:])
    return [[next(operands) for _ in range(size)] for size in sizes]


def split(branch: ir.Operation, number: int) -> tuple[ir.Operation, ir.Block]:
    """Insert a block on the edge to successor ``number``, which passes on what the branch passed.

    Returns the branch, which is a new operation, and the block, which ends with `cf.br`.
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


# ---- tokens that are passed on ----


def lower_passing(module: ir.Module) -> None:
    """Pass streams instead of tokens in host code, in place. Runs before :func:`fork`."""
    ops = host_operations(module)
    received = False
    for op in ops:
        if op.name in _PASSING:
            _send(op)
    for op in ops:
        if op.name in _RETURNING:
            received |= _receive(op.results, op.block, after=op)
        if op.name == "func.func":
            _retype(op)
        for region in op.regions:
            for block in region.blocks:
                received |= _receive(block.arguments, block)
    if received:
        token = ir.Type.parse(TOKEN_TYPE)
        declare(module, JOIN, [token, token])
        declare(module, RELEASE, [token])


def _send(op: ir.Operation) -> None:
    emit = Emitter(op)
    for number, operand in enumerate(op.operands):
        if is_token(operand):
            stream = emit.op("gpu.wait", [operand], [operand.type]).results[0]
            op.operands[number] = emit.cast(stream, ir.Type.parse(_POINTER))


def _receive(values: Sequence[ir.Value], block: ir.Block, after: ir.Operation | None = None) -> bool:
    """Replace tokens among ``values`` by streams, created after an operation of ``block`` or at its start.

    Returns whether there are any.
    """
    tokens = [value for value in values if is_token(value)]
    if not tokens:
        return False
    ops = [view.operation for view in block.operations]
    op = ops[0] if after is None else ops[ops.index(after) + 1]
    emit = Emitter(op)
    kind = ir.Type.parse(TOKEN_TYPE)
    for token in tokens:
        late = needs_mark(token)
        stream = emit.op("gpu.wait", [], [kind]).results[0]
        uses = [(use.owner, use.operand_number) for use in token.uses]
        token.set_type(ir.Type.parse(_POINTER))
        given = emit.cast(token, kind)
        emit.call_function(JOIN, [stream, given])
        emit.call_function(RELEASE, [given])
        if late:
            stream = mark(op, stream)
        for user, number in uses:
            user.operands[number] = stream
    return True


def _retype(function: ir.Operation) -> None:
    """Replace tokens by pointers in the type of a function."""
    kind = function.attributes["function_type"].value
    inputs, results = (
        [ir.Type.parse(_POINTER) if str(t) == TOKEN_TYPE else t for t in types]
        for types in (kind.inputs, kind.results)
    )
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))


# ---- waits of the host ----


def wait_for_followers(module: ir.Module) -> None:
    """Let a wait of the host for a token include what followed it in the block until then.

    The dialect does not ask for that. Upstream does it, with one stream for everything that depends on
    a token, and programs written for it rely on it.
    """
    for wait in [op for op in _users(module) if op.name == "gpu.wait" and not is_join(op)]:
        before = {op.operation for op in wait.block.operations if op.operation.is_before_in_block(wait)}
        awaited = list(wait.operands)
        added = []
        for token in awaited:
            added += [end for end in _followers(token, before) if end not in awaited and end not in added]
        if added:
            Emitter(wait).op("gpu.wait", [*awaited, *added], [])
            wait.erase()


def _followers(token: ir.Value, before: set[ir.Operation]) -> list[ir.Value]:
    """Return the ends of the chains that begin with ``token``, within the operations ``before``."""
    ends: list[ir.Value] = []
    for use in token.uses:
        op = use.owner.operation
        if op not in before or not op.name.startswith("gpu.") or is_join(op):
            continue
        for result in op.results:
            if is_token(result):
                ends += _followers(result, before) or [result]
    return ends


def wait_for_copies(module: ir.Module) -> None:
    """Let the host wait at a `gpu.wait async` for copies that nothing else orders before what follows.

    That is the end of a function, if the wait's token is unused, or a launch without tokens. Programs
    written for CUDA rely on both: there, copies from and to pageable memory are complete on return.
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
            Emitter(wait).op("gpu.wait", awaited, [])


def _before_launch(wait: ir.Operation) -> bool:
    """Return whether a launch without tokens follows in the block."""
    return any(
        op.name == "gpu.launch_func"
        and wait.is_before_in_block(op.operation)
        and not any(is_token(v) for v in (*op.operation.operands, *op.operation.results))
        for op in wait.block.operations
    )


# ---- streams for consumers ----


def fork(module: ir.Module) -> None:
    """Give every consumer of a token but the last a stream of its own, which waits for the token.

    If a token is used in another block, all its consumers get such streams: which of them run, and how
    often, is not known here.
    """
    far = [token for token in _tokens(module) if _is_used_elsewhere(token)]
    if far:
        declare(module, JOIN, [ir.Type.parse(TOKEN_TYPE)] * 2)
    while far:
        token = far.pop()
        for use in list({use.owner.operation: None for use in token.uses}):
            if use.name == "func.call":  # our own, at the right location already
                continue
            # A join is replaced, and its token may be in this list.
            numbers = [number for number, other in enumerate(far) if is_join(use) and other == use.results[0]]
            stream = _depend_on_join(use, token)
            for number in numbers:
                far[number] = stream
    seen: list[ir.Value] = []
    consumers = [op for op in _users(module) if _continues(op)]
    for op in reversed(consumers):
        for number in reversed(range(len(op.operands))):
            token = op.operands[number]
            if not is_token(token):
                continue
            if token not in seen:
                seen.append(token)
                continue
            op.operands[number] = Emitter(op).value("gpu.wait", [token], ir.Type.parse(TOKEN_TYPE))


def _is_used_elsewhere(token: ir.Value) -> bool:
    home = token.owner.operation.block
    return any(use.owner.operation.block != home for use in token.uses)


def _depend_on_join(op: ir.Operation, token: ir.Value) -> ir.Value:
    """Let ``op`` depend on a new stream that waits for the token's, by a call of the runtime.

    Returns that stream. If ``op`` is a join, the stream replaces it.
    """
    kind = ir.Type.parse(TOKEN_TYPE)
    # A join creates a new stream itself. One created before would not do: upstream records the event
    # that the join waits for where that stream is created.
    others = [o for o in op.operands if o != token] if is_join(op) else []
    emit = Emitter(op)
    stream = emit.value("gpu.wait", others, kind)
    emit.call_function(JOIN, [stream, token])
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


# ---- the end of streams ----


def release(module: ir.Module) -> None:
    """Destroy the streams that no host code waits for, in place, which upstream does not do.

    The work in a destroyed stream is still done. Runs after :func:`fork`.
    """
    ends = [token for token in _tokens(module) if not any(_continues(use.owner) for use in token.uses)]
    for token in ends:
        for point in _points_after(token):
            with point, token.owner.operation.location:
                callee = {"callee": ir.FlatSymbolRefAttr.get(RELEASE)}
                ir.Operation.create("func.call", operands=[token], attributes=callee)
    if ends:
        declare(module, RELEASE, [ir.Type.parse(TOKEN_TYPE)])


def _points_after(token: ir.Value) -> list[ir.InsertionPoint]:
    """Return points after all uses, one of which control passes each time the token is defined.

    A token that is used in its own block only has one, after its last use there or its definition.
    Blocks may be inserted on edges. Branches of other dialects than cf are unchanged: on an edge of
    them that leads away from all uses the token is not released.
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
        branch = terminator(block)
        for number, is_entered in enumerate(following):
            if not is_entered and branch.name in _BRANCHES:
                branch, edge = split(branch, number)
                found.append(ir.InsertionPoint.at_block_begin(edge))
    return found


def _last_uses(token: ir.Value) -> dict[ir.Block, ir.Operation]:
    """Return the last operation of each block that uses the token, itself or in its regions."""
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
    """Return the blocks that control enters between the definition of the token and a use."""
    waiting = [block for block in last if block != home]
    entered: list[ir.Block] = []
    while waiting:
        block = waiting.pop()
        if block not in entered:
            entered.append(block)
            waiting += [before for before in block.predecessors if before != home]
    return entered


def _users(module: ir.Module) -> list[ir.Operation]:
    return matching(module.operation, lambda op: any(is_token(o) for o in op.operands))


def _tokens(module: ir.Module) -> list[ir.Value]:
    ops = matching(module.operation, lambda op: op.name.startswith(("gpu.", "nvgpu.")))
    return [result for op in ops for result in op.results if is_token(result)]


def _continues(op: ir.Operation) -> bool:
    """Return whether ``op`` continues in the stream of its token."""
    return not is_join(op) and op.name != "func.call"
