"""The nodes that SCons has of a step, made from the plan or read from a sketch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Protocol

from gpubuild.model.step import Step, StepKind
from gpubuild.support.frozen import fields, frozen
from gpubuild.support.text import one_line

LINK = "link"


@frozen
class Request:
    """What an SConstruct asks for, by absolute paths. ``variant`` is a profile and definitions."""

    file: str
    build_dir: str
    variant: list[Any]
    jobs: int
    use_cache: bool
    executor: str


@frozen
class Node:
    """Everything that SCons knows of a step. Paths are absolute.

    ``headers`` are files that a C source includes. ``title`` describes the step. ``options`` is a short
    form of the signature, for ``--debug=explain``.
    """

    id: str
    kind: str
    targets: tuple[str, ...]
    sources: tuple[str, ...]
    headers: tuple[str, ...]
    title: str
    options: str
    signature: str


_VERBS = {
    StepKind.GENERATE: "generate",
    StepKind.OUTLINE: "split",
    StepKind.COMPILE: "compile",
    StepKind.BUNDLE: "bundle",
    StepKind.HOST: "lower host code of",
    StepKind.PREPROCESS: "preprocess",
    StepKind.CC: "compile",
    StepKind.LLVM: "compile",
    StepKind.RUNTIME: "compile the runtime",
    StepKind.LINK: "link",
    StepKind.INTERFACE: "write the interface of",
}


class Fingerprints(Protocol):
    """An object that identifies tools."""

    def fingerprints(self, step: Step) -> list[tuple[str, str]]:
        """Return name and digest of every tool whose change must rebuild the step."""
        ...


def node_of(tools: Fingerprints, step: Step) -> Node:
    """Return the node of a step of a plan."""
    return Node(
        id=step.id,
        kind=step.kind.value,
        targets=tuple(_output_paths(step)),
        # Inputs outside the key only improve messages; the steps that make them have other inputs here.
        sources=tuple(str(item.path) for item in step.inputs if item.in_key),
        headers=tuple(_headers(step)),
        title=describe(step),
        options="; ".join(_parts(tools, step, digits=12)),
        signature=signature(tools, step),
    )


def signature(tools: Fingerprints, step: Step) -> str:
    """Return the options and tools of a step, which SCons compares besides the contents of inputs.

    ``$`` is doubled, since SCons expands variables.
    """
    return "; ".join(_parts(tools, step)).replace("$", "$$")


def describe(step: Step) -> str:
    """Return a description such as ``compile @saxpy_kernels for sm_60 (saxpy)``."""
    words = [_VERBS[step.kind]]
    if step.module:
        words.append(f"@{step.module}")
    if step.target:
        words.append(f"for {step.target}")
    if step.program:
        words.append(f"({step.program})" if step.module else step.program)
    elif step.kind is not StepKind.RUNTIME:
        words.append(step.id.partition(f"{step.kind}/")[2].partition("#")[0])
    return one_line(" ".join(words))


def _output_paths(step: Step) -> list[str]:
    if step.dynamic_dir is None:
        return [str(output.path) for output in step.outputs]
    # Planning has just run the step.
    return [str(path) for path in sorted(step.dynamic_dir.iterdir())]


def _headers(step: Step) -> list[str]:
    """Return the files a C source includes, from the preprocess step that planning has run."""
    if step.kind is not StepKind.PREPROCESS:
        return []
    try:
        found = json.loads(step.output_path("deps").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [str(path) for path in found if isinstance(path, str) and Path(path).is_absolute()]


def _parts(tools: Fingerprints, step: Step, digits: int | None = None) -> list[str]:
    params = step.params
    options = [f"{f.name}={getattr(params, f.name)!r}" for f in fields(params) if f.compare]
    return options + [f"{name}={digest[:digits]}" for name, digest in tools.fingerprints(step)]
