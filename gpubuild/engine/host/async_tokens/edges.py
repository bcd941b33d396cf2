"""Edges: blocks of their own on the ways from a branch to its successors."""

from __future__ import annotations

from mlir import ir

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
