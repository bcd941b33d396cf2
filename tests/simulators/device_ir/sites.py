"""Numbers for calls that lanes execute together, by which the core finds the lanes that are behind.

A GPU's lanes execute a function together as far as possible: lanes that leave a loop early wait behind it
for the others, and both sides of a branch meet where they join. Blocks are put into an order in which loops
are contiguous and successors are later. The position of a lane is then, for each loop around it, the loop and
the iteration, and the number of the call. Of two positions the smaller one, compared word by word, is behind.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import networkx as nx

_LABEL = re.compile(r'^(?P<name>[\w.$-]+|"[^"]+"):')
_TARGET = re.compile(r'label %([\w.$-]+|"[^"]+")')
_CALL = re.compile(r'\bcall\b.*?@(?P<name>[\w.$-]+|"[^"]+")\(')
_NUMBERED = re.compile(r"\(i32 \d+, i32 \d+[,)]")
_NAME = re.compile(r'@([\w.$-]+|"[^"]+")\(')


@dataclass(slots=True, kw_only=True)
class Sites:
    """The text of each number, for messages."""

    texts: dict[int, str] = field(default_factory=dict)

    def add(self, text: str) -> int:
        number = len(self.texts) + 1
        self.texts[number] = text
        return number


@dataclass(slots=True)
class _Function:
    name: str
    first: int  # line of the `define`
    last: int  # line of the `}`


def number_sites(lines: Sequence[str], together: set[str]) -> tuple[list[str], Sites]:
    """Add numbers to calls of ``together`` in the lines of a module, and counters to loops around them."""
    functions = list(_functions(lines))
    waiting = _functions_that_wait(lines, functions, together)
    sites = Sites()
    out = list(lines)
    for function in functions:
        if function.name in waiting:
            _number(out, function, together, waiting, sites)
    left = [line for line in out if _called(line) in together and not _NUMBERED.search(line)]
    assert not left, left
    return out, sites


def _functions(lines: Sequence[str]):
    start, name = 0, ""
    for at, line in enumerate(lines):
        if line.startswith("define "):
            found = _NAME.search(line)
            assert found is not None, line
            start, name = at, found[1]
        elif line == "}" and name:
            yield _Function(name, start, at)
            name = ""


def _called(line: str) -> str:
    found = _CALL.search(line) if "call " in line else None
    return found["name"] if found else ""


def _functions_that_wait(
    lines: Sequence[str], functions: Sequence[_Function], together: set[str]
) -> set[str]:
    calls = {f.name: {_called(line) for line in lines[f.first : f.last]} for f in functions}
    waiting = {name for name, called in calls.items() if called & together}
    grown = True
    while grown:
        more = {name for name, called in calls.items() if called & waiting} - waiting
        waiting |= more
        grown = bool(more)
    return waiting


def _number(
    lines: list[str], function: _Function, together: set[str], waiting: set[str], sites: Sites
) -> None:
    blocks, graph = _blocks(lines, function)
    for block, depth, is_loop in _in_order(graph, "entry"):
        number = sites.add(f"loop in @{function.name}") if is_loop else 0
        for at in range(*blocks[block]):
            called = _called(lines[at])
            if called in together:
                site = sites.add(f"@{function.name}: {lines[at].strip()}")
                before, name, after = lines[at].partition(f"@{called}(")
                comma = "" if after.startswith(")") else ", "
                lines[at] = f"{before}{name}i32 {site}, i32 {depth}{comma}{after}"
            elif called in waiting:
                site = sites.add(f"@{function.name}: {lines[at].strip()}")
                lines[at] = (
                    f"  call void @emu_enter(i32 {site}, i32 {depth})\n"
                    f"{lines[at].replace('musttail ', '')}\n  call void @emu_leave()"
                )
        if is_loop:
            first = next(at for at in range(*blocks[block]) if " = phi " not in lines[at])
            lines[first] = f"  call void @emu_head(i32 {number}, i32 {depth - 1})\n{lines[first]}"


def _blocks(lines: Sequence[str], function: _Function) -> tuple[dict[str, tuple[int, int]], nx.DiGraph]:
    starts = [("entry", function.first + 1)]
    for at in range(function.first + 1, function.last):
        if found := _LABEL.match(lines[at]):
            if at == function.first + 1:
                starts = []
            starts.append(("entry" if not starts else found["name"], at + 1))
    graph = nx.DiGraph()
    blocks = {}
    for n, (name, start) in enumerate(starts):
        end = starts[n + 1][1] - 1 if n + 1 < len(starts) else function.last
        blocks[name] = (start, end)
        graph.add_node(name, at=n)
        for at in range(start, end):
            if "label %" in lines[at]:
                for target in _TARGET.findall(lines[at]):
                    graph.add_edge(name, target)
    for name in graph.nodes:
        assert name in blocks, (function.name, name)
    return blocks, graph


def _in_order(graph: nx.DiGraph, entry: str):
    """Yield blocks with the number of loops around them, and whether they are the head of one."""

    def visit(nodes: set[str], head: str, depth: int):
        part = nx.DiGraph(graph.subgraph(nodes))
        if depth:
            part.remove_edges_from(list(part.in_edges(head)))
        whole = nx.condensation(part)
        first = {n: min(graph.nodes[b]["at"] for b in whole.nodes[n]["members"]) for n in whole}
        for n in nx.lexicographical_topological_sort(whole, key=first.__getitem__):
            members = whole.nodes[n]["members"]
            block = next(iter(members))
            if len(members) == 1 and not part.has_edge(block, block):
                yield block, depth, bool(depth) and block == head
                continue
            heads = [b for b in members if any(p not in members for p in graph.predecessors(b))]
            yield from visit(set(members), min(heads, key=lambda b: graph.nodes[b]["at"]), depth + 1)

    yield from visit(set(graph.nodes), entry, 0)
