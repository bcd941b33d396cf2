"""Plan: the DAG of a build's steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

from gpubuild.model.step import Output, Step, StepKind

if TYPE_CHECKING:
    import networkx as nx

# How long steps of a kind take, relative to each other: only the order of starting depends on it.
_WEIGHT = {
    StepKind.GENERATE: 4,
    StepKind.OUTLINE: 4,
    StepKind.COMPILE: 10,
    StepKind.BUNDLE: 2,
    StepKind.HOST: 5,
    StepKind.PREPROCESS: 1,
    StepKind.CC: 5,
    StepKind.LLVM: 4,
    StepKind.RUNTIME: 30,
    StepKind.LINK: 3,
    StepKind.INTERFACE: 1,
}


class DoubledOutputError(ValueError):
    """Two steps write one file. Only names that users choose can cause that."""

    def __init__(self, first: str, second: Step, output: Output) -> None:
        super().__init__(f"{first} and {second.id} both write {output.path}")
        self.first, self.second, self.output = first, second, output


class Plan:
    """Steps and their dependencies. An edge runs from a step to a step that reads one of its outputs.

    What every build asks is answered from two tables: importing networkx takes longer than planning
    a thousand steps. :attr:`graph` is there for everything else.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        """Raises ``DoubledOutputError``, ``ValueError`` for doubled ids, unknown producers and cycles."""
        self._steps: dict[str, Step] = {}
        writers: dict[object, str] = {}
        for step in steps:
            if step.id in self._steps:
                raise ValueError(f"two steps are called {step.id}")
            self._steps[step.id] = step
            for output in step.outputs:
                if output.path in writers:
                    raise DoubledOutputError(writers[output.path], step, output)
                writers[output.path] = step.id
        self._needs: dict[str, set[str]] = {step_id: set() for step_id in self._steps}
        self._feeds: dict[str, set[str]] = {step_id: set() for step_id in self._steps}
        for step in self._steps.values():
            for item in step.inputs:
                if item.producer:
                    if item.producer not in self._steps:
                        raise ValueError(f"{step.id} needs {item.producer}, which is not in the plan")
                    self._needs[step.id].add(item.producer)
                    self._feeds[item.producer].add(step.id)
        self._rank = self._ranks()

    @property
    def steps(self) -> Mapping[str, Step]:
        """All steps by id, in the order of planning."""
        return self._steps

    @property
    def graph(self) -> nx.DiGraph[str]:
        """The plan as a graph of networkx, whose nodes are step ids."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        graph.add_nodes_from(self._steps)
        graph.add_edges_from((needed, step_id) for step_id in self._steps for needed in self._needs[step_id])
        return graph

    def order(self) -> list[str]:
        """Return the ids, producers first, in a deterministic order."""
        return self._sorted(self._steps.keys())

    def order_before(self, step_id: str) -> list[str]:
        """Return the steps before ``step_id``, producers first, in a deterministic order."""
        before: set[str] = set()
        look_at = [step_id]
        while look_at:
            fresh = self._needs[look_at.pop()] - before
            before |= fresh
            look_at.extend(fresh)
        return self._sorted(before)

    def needs(self, step_id: str) -> set[str]:
        """Return the steps whose outputs ``step_id`` reads."""
        return set(self._needs[step_id])

    def feeds(self, step_id: str) -> set[str]:
        """Return the steps that read an output of ``step_id``."""
        return set(self._feeds[step_id])

    def rank(self, step_id: str) -> int:
        """Return the length of the longest path from the step to the end. The highest starts first."""
        return self._rank[step_id]

    def executable(self, program: str) -> Step:
        """Return the link step of ``program``. Raises ``KeyError`` when it is not in the plan."""
        return self._steps[f"{program}/link"]

    def _sorted(self, ids: Set[str]) -> list[str]:
        """Return ``ids``, producers first. Raises ``CycleError``."""
        # Strings in a set have another order in each process.
        graph = {step_id: sorted(self._needs[step_id] & ids) for step_id in sorted(ids)}
        return list(TopologicalSorter(graph).static_order())

    def _ranks(self) -> dict[str, int]:
        try:
            order = self.order()
        except CycleError as error:
            circle = " → ".join(reversed(error.args[1]))
            raise ValueError(f"steps need each other in a circle: {circle}") from error
        rank: dict[str, int] = {}
        for step_id in reversed(order):
            below = max((rank[f] for f in self._feeds[step_id]), default=0)
            rank[step_id] = _WEIGHT[self._steps[step_id].kind] + below
        return rank
