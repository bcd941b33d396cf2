"""Registers: which of a function's have one value only, and can be values of LLVM IR as they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

import networkx as nx
from simulators.ptx.source import Function, Instruction

# Instructions whose first operand is read; of all others it is written.
_NO_RESULT = frozenset({
    "st", "stmatrix", "red", "bra", "brx", "call", "ret", "exit", "trap", "bar", "barrier", "membar", "fence",
    "prefetch", "prefetchu", "nanosleep", "discard", "applypriority", "cp", "wgmma", "setmaxnreg",
    "griddepcontrol", "pmevent", "brkpt", "stackrestore",
})  # fmt: skip

_WORD = re.compile(r"[A-Za-z_$%][\w$]*")
_LEAVES = frozenset(("bra", "brx", "ret", "exit", "trap"))


def writes(instruction: Instruction) -> bool:
    """Whether the first operand is where the result goes."""
    stem = instruction.opcode.partition(".")[0]
    if stem == "wmma":
        return not instruction.opcode.startswith("wmma.store")
    if stem == "mbarrier":
        return not instruction.opcode.startswith(
            ("mbarrier.init", "mbarrier.inval", "mbarrier.arrive.expect")
        )
    return stem not in _NO_RESULT and instruction.opcode != ":"


def names_in(operand: str, registers: dict[str, int]) -> list[str]:
    """Registers that an operand mentions."""
    return [name for name in _WORD.findall(operand) if name in registers]


def single_valued(function: Function) -> set[str]:
    """Registers written once, always, and before each use on every way to it."""
    written: dict[str, tuple[int, int]] = {}
    several: set[str] = set()
    used: list[tuple[str, int, int]] = []
    for block, instructions in enumerate(blocks := _blocks(function)):
        for at, instruction in enumerate(instructions):
            first = writes(instruction)
            for number, operand in enumerate(instruction.operands):
                found = names_in(operand, function.registers)
                if first and number == 0:
                    for name in found:
                        if name in written or instruction.guard:
                            several.add(name)
                        written[name] = (block, at)
                else:
                    used += [(name, block, at) for name in found]
            if instruction.guard:
                used.append((instruction.guard, block, at))
    dominators = _Dominators(function, blocks)
    for name, block, at in used:
        place = written.get(name)
        if place is None or (place[1] >= at if place[0] == block else not dominators.above(place[0], block)):
            several.add(name)
    return set(written) - several


def _blocks(function: Function) -> list[list[Instruction]]:
    """The instructions in pieces that are entered at their start only."""
    found: list[list[Instruction]] = [[]]
    for instruction in function.body:
        if instruction.opcode == ":" and found[-1]:
            found.append([])
        found[-1].append(instruction)
        if instruction.opcode.partition(".")[0] in _LEAVES:
            found.append([])
    return found


class _Dominators:
    def __init__(self, function: Function, blocks: Sequence[list[Instruction]]) -> None:
        self._up: dict[int, int] = {}
        self._known: dict[tuple[int, int], bool] = {}
        if len(blocks) == 1:
            return
        labels = {i.operands[0]: n for n, block in enumerate(blocks) for i in block if i.opcode == ":"}
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_node(0)
        for n, block in enumerate(blocks):
            last = block[-1] if block else None
            stem = last.opcode.partition(".")[0] if last else ""
            if last and stem == "bra":
                graph.add_edge(n, labels.get(last.operands[0], n))
            if last and stem == "brx":
                for target in function.targets.get(last.operands[1], []):
                    graph.add_edge(n, labels[target])
            if (not last or last.guard or stem not in _LEAVES) and n + 1 < len(blocks):
                graph.add_edge(n, n + 1)
        self._up = dict(nx.immediate_dominators(graph, 0))

    def above(self, upper: int, lower: int) -> bool:
        """Whether all ways to ``lower`` lead through ``upper``."""
        key = (upper, lower)
        if key not in self._known:
            at = lower
            while at != upper and at in self._up and self._up[at] != at:
                at = self._up[at]
            self._known[key] = at == upper and lower in self._up
        return self._known[key]
