"""Sketch: the nodes of a project as SCons last saw them, with a receipt's proof that nothing changed.

While the proof holds, planning would give the same nodes with the same signatures, so that SCons
gets them without the project being read. It is SCons that decides what is up to date: a sketch only
says what there is.

Imports next to nothing, as ``receipt`` does.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from gpubuild.build import null_build
from gpubuild.scons.node import Node

_VERSION = "scons sketch 1"  # of what is stored here; part of the request


class Sketch:
    """Nodes of the programs that an SConstruct asked for. ``all_programs`` are the project's."""

    def __init__(self, document: dict[str, Any], warnings: Sequence[str]) -> None:
        self.all_programs: list[str] = document["all_programs"]
        self.warnings = warnings
        self._programs: dict[str, list[str]] = document["programs"]
        self._nodes: dict[str, list[Any]] = document["nodes"]

    def nodes(self, program: str) -> list[Node] | None:
        """Nodes of a program, producers first; ``None`` when the sketch does not have it."""
        ids = self._programs.get(program)
        return None if ids is None else [self._node(step_id) for step_id in ids]

    def _node(self, step_id: str) -> Node:
        kind, targets, sources, headers, title, options, signature = self._nodes[step_id]
        return Node(
            id=step_id,
            kind=kind,
            targets=tuple(targets),
            sources=tuple(sources),
            headers=tuple(headers),
            title=title,
            options=options,
            signature=signature,
        )


def request(file: str, build_dir: str) -> null_build.Request:
    """What a sketch answers. Unlike any request of the command line's."""
    return [_VERSION, file, build_dir]


def path_for(build_dir: str) -> str:
    """The file of a build folder's sketch. It has one: two project files never share a folder."""
    return f"{build_dir}/.gpubuild/scons-sketch"


def read(file: str, build_dir: str) -> Sketch | None:
    """The sketch of a build folder if everything is as it says; else ``None``."""
    try:
        found = null_build.read(path_for(build_dir))
        if found is None or not found.proves(request(file, build_dir)):
            return None
        document = found.show()
        if any(sorted(os.listdir(folder)) != names for folder, names in document["folders"].items()):
            return None
        return Sketch(document, found.warnings)
    except Exception:  # anything at all: planning knows better
        return None


def document(
    all_programs: Iterable[str], programs: dict[str, list[Node]], folders: Iterable[str]
) -> dict[str, Any]:
    """What is stored. ``folders`` are those all of whose files are targets."""
    nodes = {
        node.id: [
            node.kind,
            node.targets,
            node.sources,
            node.headers,
            node.title,
            node.options,
            node.signature,
        ]
        for found in programs.values()
        for node in found
    }
    return {
        "all_programs": list(all_programs),
        "programs": {name: [node.id for node in found] for name, found in programs.items()},
        "nodes": nodes,
        "folders": {
            folder: sorted(
                name
                for _, targets, *_ in nodes.values()
                for place, _, name in (target.rpartition("/") for target in targets)
                if place == folder
            )
            for folder in folders
        },
    }
