"""Streams of tokens that branches choose or several blocks use are released once."""

import itertools

import pytest
from mlir import ir

from gpubuild.engine.host import async_ops
from gpubuild.engine.host.tokens import JOIN, RELEASE
from gpubuild.engine.ir import contexts

# Each function is `(%c: i1, %m: memref<8xi32>, %v: i32)`.
BODIES = {
    "select": """ %t = gpu.wait async
 %u = gpu.wait async
 %r = arith.select %c, %t, %u : !gpu.async.token
 gpu.wait [%r]
 return""",
    "one way only": """ %t = gpu.wait async
 cf.cond_br %c, ^a, ^b
^a:
 gpu.wait [%t]
 cf.br ^b
^b:
 return""",
    "passed on one way": """ %t = gpu.wait async
 cf.cond_br %c, ^a(%t : !gpu.async.token), ^b
^a(%x: !gpu.async.token):
 gpu.wait [%x]
 cf.br ^b
^b:
 return""",
    "both to one block": """ %t = gpu.wait async
 %u = gpu.memset async [%t] %m, %v : memref<8xi32>, i32
 cf.cond_br %c, ^a(%t : !gpu.async.token), ^a(%u : !gpu.async.token)
^a(%x: !gpu.async.token):
 gpu.wait [%x]
 return""",
    "never used": """ %t = gpu.wait async
 %u = gpu.memset async [%t] %m, %v : memref<8xi32>, i32
 cf.switch %v : i32, [default: ^a(%u : !gpu.async.token), 1: ^a(%t : !gpu.async.token), 2: ^b]
^a(%x: !gpu.async.token):
 cf.br ^b
^b:
 return""",
    "loop": """ %t = gpu.wait async
 cf.br ^a(%t : !gpu.async.token)
^a(%x: !gpu.async.token):
 %u = gpu.memset async [%x] %m, %v : memref<8xi32>, i32
 %side = gpu.wait async [%t]
 cf.cond_br %c, ^a(%u : !gpu.async.token), ^b
^b:
 gpu.wait [%side]
 return""",
    # A join of two tokens from other blocks, whose own token other blocks use: it is replaced twice.
    "joins of joins": """ %t = gpu.wait async
 %u = gpu.wait async
 cf.cond_br %c, ^a, ^b
^a:
 %x = gpu.wait async [%t, %u]
 cf.cond_br %c, ^b, ^d
^d:
 %y = gpu.wait async [%x, %t]
 gpu.wait [%x]
 cf.cond_br %c, ^e, ^b
^e:
 gpu.wait [%y, %x]
 cf.br ^b
^b:
 return""",
}


def paths(entry: ir.Block) -> list[list[ir.Operation]]:
    """Return the operations on each path from the entry to a return, at most twice through a block."""
    found = []
    waiting = [[entry]]
    while waiting:
        path = waiting.pop()
        following = list(path[-1].successors)
        if not following:
            found.append([op.operation for block in path for op in block.operations])
        waiting += [[*path, block] for block in following if path.count(block) < 2]
    return found


def callee(op: ir.Operation) -> str:
    return str(op.attributes["callee"].value) if op.name == "func.call" else ""


def follow(path: list[ir.Operation]) -> tuple[int, int]:
    """Return how many streams a path creates and destroys; fail if it uses one that does not exist.

    Streams are known by the operation that made them; one that is made again is another.
    """
    made = ended = 0
    stream: dict[ir.Value, int] = {}  # by token or pointer
    alive: set[int] = set()
    for op, after in itertools.zip_longest(path, path[1:]):
        known = [stream[operand] for operand in op.operands if operand in stream]
        assert alive.issuperset(known), f"{op} uses a stream that was destroyed"
        if op.name == "gpu.wait" and len(op.results):
            made += 1
            stream[op.results[0]] = made
            alive.add(made)
        elif op.name == "gpu.wait" or callee(op) == RELEASE:
            ended += len(known)
            alive.difference_update(known)
        elif callee(op) != JOIN and known and len(op.results):
            stream[op.results[-1]] = known[0]
        if op.name == "cf.br" and after is not None:
            given = zip(after.block.arguments, op.operands, strict=True)
            stream |= {argument: stream[operand] for argument, operand in given if operand in stream}
    assert len(alive) == made - ended
    return made, ended


@pytest.mark.parametrize("name", BODIES)
def test_each_stream_is_released_once_on_every_way(name: str) -> None:
    with contexts.context():
        module = contexts.parse(f"func.func @f(%c: i1, %m: memref<8xi32>, %v: i32) {{\n{BODIES[name]}\n}}")
        async_ops.normalize(module)
        contexts.verify(module)
        contexts.run_passes(module, "builtin.module(convert-scf-to-cf)")
        functions = [op for op in module.body.operations if op.operation.name == "func.func"]
        (function,) = [op for op in functions if len(op.regions[0].blocks)]
        ways = paths(function.regions[0].blocks[0])
        assert len(ways) > 1
        for way in ways:
            made, ended = follow(way)
            assert made == ended > 0
