"""Blocks of their own on the ways from branches."""

from __future__ import annotations

import pytest
from mlir import ir

from gpubuild.engine.host import tokens
from gpubuild.engine.ir import contexts

BRANCHES = {
    "cond_br": """func.func @f(%c: i1, %x: i32, %y: i64) {
 cf.cond_br %c weights([3, 4]), ^a(%x : i32), ^b(%y, %x : i64, i32)
^a(%p: i32):
 return
^b(%q: i64, %r: i32):
 return
}""",
    "switch": """func.func @f(%c: i32, %x: i32, %y: i64) {
 cf.switch %c : i32, [default: ^a(%x : i32), 4: ^b(%y, %x : i64, i32), 5: ^a(%c : i32)]
^a(%p: i32):
 return
^b(%q: i64, %r: i32):
 return
}""",
    "plain switch": """func.func @f(%c: i32, %x: i32) {
 cf.switch %c : i32, [default: ^a(%x : i32)]
^a(%p: i32):
 return
}""",
}


def terminator(block: ir.Block) -> ir.Operation:
    return block.operations[len(block.operations) - 1].operation


@pytest.mark.parametrize("name", BRANCHES)
def test_a_split_edge_passes_what_the_branch_passed(name: str) -> None:
    with contexts.context():
        module = contexts.parse(BRANCHES[name])
        entry = module.body.operations[0].regions[0].blocks[0]
        branch = terminator(entry)
        passed, successors = tokens.passed(branch), list(branch.successors)
        kept = {name: a for name, a in branch.attributes.items() if "egment" not in name}
        for number in range(len(successors)):
            branch, edge = tokens.split(branch, number)
            contexts.verify(module)
            assert branch.successors[number] == edge
            assert list(terminator(edge).operands) == passed[number]
            assert list(terminator(edge).successors) == [successors[number]]
            assert tokens.passed(branch) == [[]] * (number + 1) + passed[number + 1 :]
            assert list(branch.successors)[number + 1 :] == successors[number + 1 :]
        assert {name: a for name, a in branch.attributes.items() if "egment" not in name} == kept
        assert list(branch.operands) == [entry.arguments[0]]
