"""Passes: the named parts of a lowering in MLIR, and the driver that runs them in order.

A back end exports one ordered table of passes. Dumps, the hidden ``gpubuild pass`` command, errors and
tests name a pass; each has a FileCheck file of its name in ``tests/passes/``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.dump import dump, enter_stage
from gpubuild.errors import UsageError
from gpubuild.support.text import did_you_mean


class Lowering(Protocol):
    """What every pass may ask of the lowering under way; back ends add what theirs need."""

    @property
    def source(self) -> SourceText:
        """The text that locations in the module point into."""


S = TypeVar("S", bound=Lowering)


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass(Generic[S]):
    """One transformation of a module under the name that dumps, errors and tests use.

    ``run`` changes the module in place and may leave facts in the lowering; it raises ``StepError``.
    ``when`` says whether a lowering needs the pass at all; one that is skipped leaves no dump.
    """

    name: str  # lower case with dashes, as upstream's are
    run: Callable[[ir.Module, S], None]
    when: Callable[[S], bool] = field(default=_always)


def upstream(
    name: str, pipeline: str | Callable[[S], str], *, when: Callable[[S], bool] = _always
) -> Pass[S]:
    """Return a pass that runs a pipeline of MLIR's own passes, such as ``builtin.module(canonicalize)``."""

    def run(module: ir.Module, lowering: S) -> None:
        text = pipeline if isinstance(pipeline, str) else pipeline(lowering)
        contexts.run_passes(module, text, source=lowering.source)

    return Pass(name=name, run=run, when=when)


def run_passes(module: ir.Module, passes: Iterable[Pass[S]], lowering: S) -> None:
    """Run ``passes`` in order, each under its name. Raises ``StepError``."""
    for one in passes:
        if one.when(lowering):
            enter_stage(one.name)
            one.run(module, lowering)
            dump("mlir", lambda: contexts.canonical_text(module))


def selected(passes: Sequence[Pass[S]], first: str, last: str = "") -> tuple[Pass[S], ...]:
    """Return the passes from ``first`` to ``last`` (default: ``first`` alone).

    Raises ``UsageError`` for a name that the table does not have, or a range that runs backwards.
    """
    names = [one.name for one in passes]
    for name in (first, last or first):
        if name not in names:
            raise UsageError(f"no pass is called {name!r}", hint=did_you_mean(name, names))
    start, end = names.index(first), names.index(last or first)
    if end < start:
        raise UsageError(f"pass {last!r} runs before {first!r}", hint=f"write {last}..{first}")
    return tuple(passes[start : end + 1])
