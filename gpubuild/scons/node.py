"""Node: one step as SCons needs to know it, whether it was just planned or read from a sketch."""

from __future__ import annotations

from dataclasses import dataclass

LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Everything that SCons gets about a step. Paths are absolute.

    ``headers`` are files that a C source includes; ``title`` says in words what the step does;
    ``options`` are what its signature says, short enough for ``--debug=explain``.
    """

    id: str
    kind: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    title: str
    options: str
    signature: str
