"""The named passes of a lowering in MLIR, and the driver that runs them in order.

A back end exports one ordered table of passes. Dumps, the hidden ``gpubuild pass`` command and tests
refer to passes by name; each has a FileCheck file of its name in ``tests/passes/``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from mlir import ir, rewrite

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.dump import dump, stage
from gpubuild.engine.ir.query import operation_names
from gpubuild.errors import UsageError
from gpubuild.support.text import did_you_mean


class Lowering(Protocol):
    """The state that every pass can read; back ends add fields of their own."""

    @property
    def source(self) -> SourceText:
        """The text that locations in the module point into."""


# What conversions convert, by the beginnings of the names of operations.
_SUBJECTS = {
    "convert-amdgpu-to-rocdl": "amdgpu.",
    "convert-complex-to-llvm": "complex.",
    "convert-complex-to-standard": "complex.",
    "convert-index-to-llvm": "index.",
    "convert-linalg-to-loops": "linalg.",
    "convert-math-to-llvm": "math.",
    "convert-nvgpu-to-nvvm": "nvgpu.",
    "convert-scf-to-cf": "scf.",
    "convert-ub-to-llvm": "ub.",
    "convert-vector-to-llvm": "vector.",
    "convert-vector-to-scf": "vector.",
    "lower-affine": "affine.",
    "scf-forall-to-for": "scf.forall",
}
_CREATE_NOTHING = frozenset({"canonicalize", "cse"})  # that has a conversion behind them here
_PASS = re.compile(r"(?<=[(,])(?P<name>[a-z][a-z0-9-]*)(?:\{[^{}]*\})?(?:,|(?=\)))")
_EMPTY = re.compile(r"[\w.]+\(\),?")

S = TypeVar("S", bound=Lowering)
S_contra = TypeVar("S_contra", bound=Lowering, contravariant=True)


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass(Generic[S_contra]):
    """One transformation of a module, under the name that dumps, errors and tests use.

    ``run`` changes the module in place, may store facts in the lowering, and raises ``StepError``.
    A pass that a lowering does not need (``when``) is skipped and leaves no dump.
    """

    name: str  # lower case with dashes, as upstream's are
    run: Callable[[ir.Module, S_contra], None]
    when: Callable[[S_contra], bool] = field(default=_always)
    pipeline: Callable[[S_contra], str] | None = None  # its text, if upstream's passes do it all


def upstream(
    name: str,
    pipeline: str | Callable[[S], str],
    *,
    when: Callable[[S], bool] = _always,
    only_for: Collection[str] = (),
) -> Pass[S]:
    """Return a pass that runs a pipeline of MLIR's own passes, such as ``builtin.module(canonicalize)``.

    With ``only_for`` it runs only if the module has an operation of one of these names. Conversions at its
    beginning of operations that the module does not have are left out.
    """

    def text(lowering: S) -> str:
        return pipeline if isinstance(pipeline, str) else pipeline(lowering)

    def run(module: ir.Module, lowering: S) -> None:
        if only_for and not contains(module.operation, only_for):
            return
        contexts.run_passes(module, without_idle(text(lowering), module), source=lowering.source)

    return Pass(name=name, run=run, when=when, pipeline=text)


def without_idle(pipeline: str, module: ir.Module) -> str:
    """Return ``pipeline`` without conversions of operations that ``module`` does not have.

    Each visits every operation: together an eighth of the lowering of large kernels or more. After the first
    pass that may create operations none is left out, and a pipeline of nothing else stays unchanged: some
    also fold constants, which other passes of a pipeline do as well.
    """
    present: set[str] | None = None
    may_create = False

    def needed(match: re.Match[str]) -> str:
        nonlocal present, may_create
        name = match["name"]
        if may_create or name not in _SUBJECTS:
            may_create = may_create or name not in _CREATE_NOTHING
            return match[0]
        if present is None:
            present = operation_names(module.operation)
        may_create = any(found.startswith(_SUBJECTS[name]) for found in present)
        return match[0] if may_create else ""

    left = _PASS.sub(needed, pipeline).replace(",)", ")")
    while _EMPTY.search(left):  # MLIR parses no empty pipelines
        left = _EMPTY.sub("", left).replace(",)", ")")
    return left or pipeline


def rewriting(
    name: str,
    table: Mapping[str, Callable[[ir.Operation, S], None]],
    *,
    when: Callable[[S], bool] = _always,
) -> Pass[S]:
    """Return a pass that calls the function in ``table`` for each operation of a name there."""

    def run(module: ir.Module, lowering: S) -> None:
        def bound(function: Callable[[ir.Operation, S], None]) -> Callable[[ir.Operation], None]:
            return lambda op: function(op, lowering)

        rewrite_each(module.operation, {op: bound(function) for op, function in table.items()})

    return Pass(name=name, run=run, when=when)


def rewrite_each(root: ir.Operation, table: Mapping[str, Callable[[ir.Operation], None]]) -> None:
    """Call the function in ``table`` for each operation inside ``root`` of a name there, inner ones first.

    A function may replace and erase its operation and the regions of it. Operations that it creates are
    not visited, nor are blocks that control flow cannot reach.
    """
    failures: list[Exception] = []

    def guarded(function: Callable[[ir.Operation], None]) -> Callable[[ir.OpView, object], bool]:
        def matched(op: ir.OpView, _: object) -> bool:
            if failures:
                return True
            try:
                function(op.operation)
            except Exception as error:
                failures.append(error)  # MLIR is built without exceptions, which must not pass through it
            return False

        return matched

    patterns = rewrite.RewritePatternSet()
    for name, function in table.items():
        patterns.add(name, guarded(function))
    rewrite.walk_and_apply_patterns(root, patterns.freeze())
    if failures:
        raise failures[0]


def contains(root: ir.Operation, names: Collection[str]) -> bool:
    """Return whether ``root`` has an operation with one of ``names`` that control flow can reach.

    Much cheaper than a walk if there is none.
    """
    found: list[ir.Operation] = []
    rewrite_each(root, dict.fromkeys(names, found.append))
    return bool(found)


def only_when(condition: Callable[[S], bool], passes: Iterable[Pass[S]]) -> tuple[Pass[S], ...]:
    """Return ``passes`` that run only if ``condition`` is true, too."""

    def both(one: Pass[S]) -> Callable[[S], bool]:
        return lambda lowering: condition(lowering) and one.when(lowering)

    return tuple(replace(one, when=both(one)) for one in passes)


def run_passes(module: ir.Module, passes: Iterable[Pass[S]], lowering: S) -> None:
    """Run ``passes`` in order, each under its name. Raises ``StepError``."""
    for one in passes:
        if one.when(lowering):
            with stage(one.name):
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
