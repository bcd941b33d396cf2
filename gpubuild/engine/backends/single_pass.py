"""One pass of a back end's table, or a range of them, on a text: for tests and for debugging."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.passes import Pass, run_passes, selected
from gpubuild.model.step import CompileParams
from gpubuild.targets.target import Kind

_FOLDERS = {Kind.NVVM: "nvidia", Kind.ROCDL: "amd", Kind.CPU: "cpu"}


def passes_of(kind: Kind) -> Sequence[Pass[Any]]:
    """Return the ordered table of a back end: ``PASSES`` of the module ``passes`` in its folder."""
    table: Sequence[Pass[Any]] = _module(kind).PASSES
    return table


def run_range(text: str, params: CompileParams, first: str, last: str = "", *, name: str = "") -> str:
    """Return the canonical text of a module after the passes from ``first`` to ``last``.

    ``name`` is that of its file, for messages. Operations of unknown dialects may stand for others.
    Raises ``UsageError`` for passes that are not in the table of the target, and ``StepError``.
    """
    passes = selected(passes_of(params.kind), first, last)
    with contexts.context() as context:
        context.allow_unregistered_dialects = True
        module = contexts.parse(text, source_name=name)
        source = SourceText(text, name)
        run_passes(module, passes, _module(params.kind).start(params, source))
        contexts.verify(module.operation, source=source)
        return contexts.canonical_text(module)


def _module(kind: Kind) -> Any:  # noqa: ANN401 - modules are no types
    return import_module(f"gpubuild.engine.backends.{_FOLDERS[kind]}.passes")
