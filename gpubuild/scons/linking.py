"""Linking: a program's link step together with what other builders of SCons made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpubuild.model.step import Input, LinkParams, Step
from gpubuild.support.frozen import replace

_CXX = frozenset({".cpp", ".cc", ".cxx", ".C", ".c++"})


def link_too(step: Step, objects: list[Any]) -> Step:
    """The link step with more to link, nodes of SCons, as if listed last under ``sources:``."""
    params = step.params
    assert isinstance(params, LinkParams)  # noqa: S101
    first = len(step.inputs)
    added = tuple(
        Input(
            name=f"{'archive' if node.get_suffix() == '.a' else 'object'}.{first + number}",
            path=Path(node.abspath),
        )
        for number, node in enumerate(objects)
    )
    # The runtime stays last: objects need it.
    step = replace(step, inputs=(*step.inputs[:-1], *added, step.inputs[-1]))
    if any(source.get_suffix() in _CXX for node in objects for source in node.sources):
        tools = tuple("cxx" if tool == "cc" else tool for tool in step.tools)
        step = replace(step, params=replace(params, cxx=True), tools=tools)
    return step
