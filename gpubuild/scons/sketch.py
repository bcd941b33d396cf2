"""The sketch: the nodes of the last run of SCons, stored with the receipt of a build as proof.

While the proof holds, planning would give equal nodes with equal signatures, so SCons gets them without
reading the project. SCons itself decides which are up to date. Imports next to nothing, like
``build.null_build``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from gpubuild.build import null_build
from gpubuild.scons.node import Node, Request

_VERSION = "scons sketch 1"  # of the stored form; part of the request
_STORED = ("kind", "targets", "sources", "headers", "title", "options", "signature")  # fields of a node


class Sketch:
    """Nodes of the programs that an SConstruct requests. ``all_programs`` are those of the project."""

    def __init__(self, document: dict[str, Any], warnings: Sequence[str]) -> None:
        self.all_programs: list[str] = document["all_programs"]
        self.warnings = warnings
        self._programs: dict[str, list[str]] = document["programs"]
        self._nodes: dict[str, list[Any]] = document["nodes"]

    def nodes(self, program: str) -> list[Node] | None:
        """Return the nodes of a program, producers first; ``None`` if they are not in the sketch."""
        ids = self._programs.get(program)
        return None if ids is None else [self._node(step_id) for step_id in ids]

    def _node(self, step_id: str) -> Node:
        stored = (tuple(value) if isinstance(value, list) else value for value in self._nodes[step_id])
        fields: dict[str, Any] = dict(zip(_STORED, stored, strict=True))
        return Node(id=step_id, **fields)


def request(asked: Request) -> null_build.Request:
    """Return the request of a sketch, which differs from those of the command line."""
    return [_VERSION, asked.file, asked.build_dir, *asked.variant]


def path_for(asked: Request) -> str:
    """Return the file of the sketch of a build folder. Two project files never share a folder."""
    return f"{asked.build_dir}/.gpubuild/scons-sketch"


def read(asked: Request) -> Sketch | None:
    """Return the sketch of a build folder if its proof holds, else ``None``."""
    try:
        found = null_build.read(path_for(asked))
        if found is None or not found.proves(request(asked)):
            return None
        document = found.show()
        if any(sorted(os.listdir(folder)) != names for folder, names in document["folders"].items()):
            return None
        return Sketch(document, found.warnings)
    except Exception:  # of any kind: planning reports it
        return None


def document(
    all_programs: Iterable[str], programs: dict[str, list[Node]], folders: Iterable[str]
) -> dict[str, Any]:
    """Return the stored form. ``folders`` contain targets only."""
    nodes = {
        node.id: [getattr(node, name) for name in _STORED] for found in programs.values() for node in found
    }
    return {
        "all_programs": list(all_programs),
        "programs": {name: [node.id for node in found] for name, found in programs.items()},
        "nodes": nodes,
        "folders": {
            folder: sorted(
                name
                for _, targets, *_ in nodes.values()
                for parent, _, name in (target.rpartition("/") for target in targets)
                if parent == folder
            )
            for folder in folders
        },
    }
