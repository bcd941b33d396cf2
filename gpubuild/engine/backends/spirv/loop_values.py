"""Loops that Intel's OpenCL compiler for CPUs vectorises wrongly, in LLVM IR text.

In a loop with ``next = value + step``, where both are used behind the loop, ``value`` becomes garbage if
the loop has fewer iterations than a vector has elements. The compiler also moves instructions behind a loop,
which then use such values there. A volatile load keeps a loop from vectorisation, and so does a barrier.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

_NAME = r'(?:[-\w.$]+|"[^"]*")'
_LABEL = re.compile(rf"^({_NAME}):")
_USED = re.compile(rf"%({_NAME})")
_INSTRUCTION = re.compile(rf"^  (?:%({_NAME}) = )?(\w+)(.*)")
_ADDRESS = re.compile(rf", ptr(?: addrspace\(\d\))? %({_NAME})")  # of a store
_TARGET = re.compile(rf"\blabel %({_NAME})")
_BARRIER = "@_Z7barrierj("
_SLOT = "%gpubuild.volatile"


def guard(text: str, *, all_loops: bool = False) -> str:
    """Return LLVM IR text with a volatile load in such loops, or in all: code must be optimised to tell."""
    lines = text.split("\n")
    start = 0
    for number, line in enumerate(lines):
        if line.startswith("define "):
            start = number
        elif line == "}":
            _guard_function(lines, start, number, all_loops=all_loops)
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Instruction:
    name: str  # of its value
    operation: str
    uses: frozenset[str]
    text: str


@dataclass(slots=True)
class _Block:
    head: int  # the line behind which instructions can be added
    instructions: list[_Instruction] = field(default_factory=list)
    before: set[str] = field(default_factory=set)  # its predecessors


def _guard_function(lines: list[str], start: int, end: int, *, all_loops: bool) -> None:
    blocks = _blocks(lines, start, end)
    count = 0
    for header, block in blocks.items():
        body = _loop(header, blocks)
        if not body or any(_BARRIER in one.text for label in body for one in blocks[label].instructions):
            continue
        if all_loops or _is_used_behind(header, body, blocks):
            lines[block.head] += f"\n  {_SLOT}.{count} = load volatile i32, ptr {_SLOT}, align 4"
            count += 1
    if count:
        first = start + bool(_LABEL.match(lines[start + 1]))
        lines[first] += f"\n  {_SLOT} = alloca i32, align 4"


def _blocks(lines: list[str], start: int, end: int) -> dict[str, _Block]:
    """Return the blocks of a function by their names; the first may have none."""
    label = ""
    blocks = {label: _Block(start)}
    edges = []
    for number in range(start + 1, end):
        text = lines[number]
        if found := _LABEL.match(text):
            label = found[1]
            blocks[label] = _Block(number)
        elif found := _INSTRUCTION.match(text):
            name, operation, rest = found.groups()
            uses = frozenset(_USED.findall(rest))
            blocks[label].instructions.append(_Instruction(name or "", operation, uses, rest))
            if operation == "phi":
                blocks[label].head = number
        edges += [(label, target) for target in _TARGET.findall(text)]
    for label, target in edges:
        blocks[target].before.add(label)
    return blocks


def _loop(header: str, blocks: dict[str, _Block]) -> set[str]:
    """Return the blocks of the loops that begin with ``header``."""
    whole: set[str] = set()
    for latch in blocks[header].before:
        body, todo = {header}, [latch]
        while todo:
            label = todo.pop()
            if label not in body:
                body.add(label)
                todo.extend(blocks[label].before)
        if all(blocks[label].before for label in body):  # else ``latch`` is reached past ``header``
            whole |= body
    return whole


def _is_used_behind(header: str, body: set[str], blocks: dict[str, _Block]) -> bool:
    """Return whether a phi of ``header`` is used behind the loop, or by what can be moved there.

    That is what no other instruction of the loop uses, and stores to one address.
    """
    inside = [one for label in body for one in blocks[label].instructions]
    by_name = {one.name: one for one in inside if one.name}
    users = Counter(name for one in inside for name in one.uses)
    phis = {one.name for one in blocks[header].instructions if one.operation == "phi"}
    moved = [one for one in inside if one.operation == "store" and not by_name.keys() & _address(one)]
    behind = {
        name for label in blocks.keys() - body for one in blocks[label].instructions for name in one.uses
    }
    moved += [by_name[name] for name in behind & by_name.keys() if not users[name]]
    while moved and not behind & phis:
        one = moved.pop()
        behind |= one.uses
        users.subtract(one.uses)
        moved += [by_name[name] for name in one.uses & by_name.keys() if not users[name]]
    return bool(behind & phis)


def _address(store: _Instruction) -> set[str]:
    return set(_ADDRESS.findall(store.text))
