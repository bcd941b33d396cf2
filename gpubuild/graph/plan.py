"""Plan: the DAG of a build's steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from gpubuild.model.step import Step, StepKind

if TYPE_CHECKING:
    import networkx as nx

# How long steps of a kind take, relative to each other: only the order of starting depends on it.
_WEIGHT = {
    StepKind.OUTLINE: 4,
    StepKind.COMPILE: 10,
    StepKind.BUNDLE: 2,
    StepKind.HOST: 5,
    StepKind.PREPROCESS: 1,
    StepKind.CC: 5,
    StepKind.LLVM: 4,
    StepKind.RUNTIME: 30,
    StepKind.LINK: 3,
}


class Plan:
    """Steps and who needs whom. An edge runs from a step to a step that reads one of its outputs."""

    def __init__(self, steps: Iterable[Step]) -> None:
        """Raises ``ValueError`` for doubled ids or outputs, unknown producers and cycles."""
        import networkx as nx

        self._steps: dict[str, Step] = {}
        graph: nx.DiGraph[str] = nx.DiGraph()
        writers: dict[object, str] = {}
        for step in steps:
            if step.id in self._steps:
                raise ValueError(f"two steps are called {step.id}")
            self._steps[step.id] = step
            graph.add_node(step.id)
            for output in step.outputs:
                if output.path in writers:
                    raise ValueError(f"{writers[output.path]} and {step.id} both write {output.path}")
                writers[output.path] = step.id
        for step in self._steps.values():
            for item in step.inputs:
                if item.producer:
                    if item.producer not in self._steps:
                        raise ValueError(f"{step.id} needs {item.producer}, which is not in the plan")
                    graph.add_edge(item.producer, step.id)
        if not nx.is_directed_acyclic_graph(graph):
            raise ValueError(f"steps need each other in a circle: {nx.find_cycle(graph)}")
        self._graph = graph
        self._rank = self._ranks()

    @property
    def steps(self) -> Mapping[str, Step]:
        """All steps by id, in the order of planning."""
        return self._steps

    @property
    def graph(self) -> nx.DiGraph[str]:
        """The graph itself, for export; nodes are step ids."""
        return self._graph

    def order(self) -> list[str]:
        """Ids so that producers come first; deterministic."""
        import networkx as nx

        return list(nx.lexicographical_topological_sort(self._graph))

    def order_before(self, step_id: str) -> list[str]:
        """What must be done before ``step_id`` can start, producers first; deterministic."""
        import networkx as nx

        return list(
            nx.lexicographical_topological_sort(self._graph.subgraph(nx.ancestors(self._graph, step_id)))
        )

    def needs(self, step_id: str) -> set[str]:
        """Steps whose outputs ``step_id`` reads."""
        return set(self._graph.predecessors(step_id))

    def feeds(self, step_id: str) -> set[str]:
        """Steps that read an output of ``step_id``."""
        return set(self._graph.successors(step_id))

    def rank(self, step_id: str) -> int:
        """Length of the longest way from the step to the end: who starts first when many are ready."""
        return self._rank[step_id]

    def executable(self, program: str) -> Step:
        """The link step of ``program``. Raises ``KeyError`` when it is not in the plan."""
        return self._steps[f"{program}/link"]

    def _ranks(self) -> dict[str, int]:
        import networkx as nx

        rank: dict[str, int] = {}
        for node in reversed(list(nx.topological_sort(self._graph))):
            below = max((rank[s] for s in self._graph.successors(node)), default=0)
            rank[node] = _WEIGHT[self._steps[node].kind] + below
        return rank
