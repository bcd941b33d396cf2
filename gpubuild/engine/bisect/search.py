"""Failure site: the operation that a compile step ends on, found by compiling without others.

Where LLVM aborts, or an assembler refuses what was made of a module, nothing says which line of the
user's file it is about. So the step is repeated, each time in a process of its own, without the first
operations of its functions, and halving finds the one without which the failure goes away. That is
some ten compilations, only after a failure that has no place.

Enclosing: the function of a gpu.module that a place in the user's file is in.

Second look: the job that finds out where in the user's file a compile step has failed.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from mlir import ir

from gpubuild.engine.bisect import without_ops
from gpubuild.engine.bisect.without_ops import Cut
from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.query import first
from gpubuild.errors import (
    Diagnostic,
    GpubuildError,
    InputChangedError,
    Location,
    StepError,
    ToolNotFoundError,
)
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput, JobResult
from gpubuild.model.step import CompileParams

_FUNCTIONS = frozenset({"gpu.func", "func.func", "llvm.func"})


def function_at(located: str, place: Location) -> str:
    """The name of the function that an operation at ``place`` is in or is; empty where there is none.

    ``located`` is the module's text with locations. Reads it anew: for messages of failures only.
    """
    try:
        with contexts.context():
            return _find(contexts.parse(located), place)
    except StepError:
        return ""


def _find(module: ir.Module, place: Location) -> str:
    source, found = SourceText(), ""
    for kernels in contexts.gpu_modules(module):
        for function in kernels.regions[0].blocks[0]:
            if function.operation.name in _FUNCTIONS and _has(function.operation, place, source):
                found = found or str(function.operation.attributes["sym_name"].value)
    return found


def _has(function: ir.Operation, place: Location, source: SourceText) -> bool:
    return first(function, lambda op: locate(op.location, source)[0] == place) is not None


_FOLDER = "second-look"  # in the job's own, so that the log of the first look stays
_TIMEOUT_SECONDS = 60.0
# Where what fails is no longer MLIR, which has places. Other stages fail for other reasons than the module's.
_STAGES = frozenset({"lower", "optimize", "emit", "ptxas", "lld", "image", "libraries"})


def second_look(job: Job, error: GpubuildError) -> Job | None:
    """The job that looks for the place of ``error``, of ``job``; ``None`` where none would help."""
    if not isinstance(job.params, CompileParams) or job.finds_failure:
        return None
    if not isinstance(error, StepError) or isinstance(error, InputChangedError | ToolNotFoundError):
        return None
    if error.stage not in _STAGES or any(d.location is not None for d in error.diagnostics):
        return None
    if not any(i.name == "located" for i in job.inputs):
        return None
    workdir = job.workdir / _FOLDER
    try:
        workdir.mkdir()
    except OSError:  # what is told without a place is worth more than this failure
        return None
    limit = min(job.timeout_seconds or _TIMEOUT_SECONDS, _TIMEOUT_SECONDS)
    return replace(job, workdir=workdir, timeout_seconds=limit, dump_ir=None, finds_failure=True)


_SEARCH_SECONDS = 20.0
_TRY_SECONDS = 20  # of one compilation, which may hang
_MODULE, _LOCATED = "module", "located"
# Lines that tell one failure from another, without the numbers in them.
_CAUSE = re.compile(r"LLVM ERROR|Assertion|UNREACHABLE|error|libcall|upported|ntrinsic|immarg|fatal")
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'")

Run = Callable[[Job], JobResult]


def find(job: Job, run: Run) -> tuple[Diagnostic, ...]:
    """The place in the user's file that the failure of compile step ``job`` is about, or nothing.

    ``run`` runs a step in the process it is called in. ``job.workdir`` is an empty folder. Called in a
    process of its own, which it forks.
    """
    return _Search(job, run).find()


class _Search:
    def __init__(self, job: Job, run: Run) -> None:
        self._job = job
        self._run = run
        self._text = next(i for i in job.inputs if i.name == _LOCATED).path.read_text(encoding="utf-8")
        self._end = time.monotonic() + _SEARCH_SECONDS
        self._tries = 0
        self._failure = ""

    def find(self) -> tuple[Diagnostic, ...]:
        counts = self._about(lambda m: [len(without_ops.operations(m)), len(without_ops.symbols(m))])
        self._failure = self._failure_without(Cut()) if isinstance(counts, list) else ""
        if not self._failure:
            return ()
        operations, symbols = counts
        cut = self._halve(operations, lambda n: Cut(operations=n))
        if cut is None:
            cut = self._halve(symbols, lambda n: Cut(operations=operations, symbols=n))
        if cut is None:
            return ()
        found = self._about(lambda module: _place(module, cut))
        if not isinstance(found, list):
            return ()
        message, place, line = found
        return (Diagnostic(message=message, location=Location(**place), source_line=line),)

    def _halve(self, count: int, cut: Callable[[int], Cut]) -> Cut | None:
        """The smallest cut that ends the failure, if ``cut(count)`` does."""
        fails, works = 0, count
        if not count or self._fails(cut(count)):
            return None
        while works - fails > 1:
            if time.monotonic() > self._end:
                return None
            middle = (fails + works) // 2
            if self._fails(cut(middle)):
                fails = middle
            else:
                works = middle
        return cut(works)

    def _fails(self, cut: Cut) -> bool:
        return self._failure_without(cut) == self._failure

    def _failure_without(self, cut: Cut) -> str:
        """What the step ends with; empty when it does not fail."""
        self._tries += 1
        folder = self._job.workdir / f"try{self._tries}"
        folder.mkdir()
        log = folder / "log"

        def compile_rest() -> str:
            self._run(_without(self._job, self._text, cut, folder))
            return ""

        status, answer = _in_child(compile_rest, log)
        if status:
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
            causes = [_VARIABLE.sub("", line) for line in lines if _CAUSE.search(line)]
            return f"{status} {causes[:1]}"
        return str(answer)

    def _about(self, question: Callable[[ir.Module], object]) -> Any:  # noqa: ANN401 - read from JSON
        """What ``question`` says of the whole module; MLIR's contexts stay out of this process."""

        def ask() -> object:
            with contexts.context():
                return question(contexts.parse(self._text))

        return _in_child(ask, self._job.workdir / "question")[1]


def _place(module: ir.Module, cut: Cut) -> object:
    """What to say, and where, of the last operation of ``cut``; ``None`` if it has no place."""
    if cut.symbols:
        symbol = without_ops.symbols(module)[cut.symbols - 1]
        name = symbol.attributes["sym_name"].value
        op = without_ops.use_of_declared(module, symbol) or symbol
        what = f"'{op.name}' {'of ' if op != symbol else ''}@{name}"
        if op != symbol:
            what += f" in {without_ops.function_of(op)}"
    else:
        op = without_ops.operations(module)[cut.operations - 1]
        what = f"'{op.name}' in {without_ops.function_of(op)}"
    location, line = locate(op.location, SourceText())
    if location is None:
        return None
    return [f"{what}: the error disappears without this operation", asdict(location), line]


def _without(job: Job, text: str, cut: Cut, folder: Path) -> Job:
    """``job`` in ``folder``, on a module that lacks what ``cut`` says."""
    with contexts.context():
        module = contexts.parse(text)
        without_ops.leave_out(module, cut)
        # Places stay where the step needs them: `debug` and `sanitize` write them into the code.
        data = contexts.located_text(module.operation).encode()
    path = folder / _MODULE
    path.write_bytes(data)
    given = JobInput(name=_MODULE, path=path, digest=digest_bytes(data))
    inputs = [i for i in job.inputs if i.name not in {_MODULE, _LOCATED}]
    return replace(job, inputs=(given, *inputs), workdir=folder, dump_ir=None, finds_failure=False)


def _in_child(function: Callable[[], object], log: Path) -> tuple[int, Any]:
    """Call ``function`` in a child whose output goes to ``log``: its wait status, and what it gives.

    That must be what JSON can say. A ``GpubuildError`` is given as its message.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_TRY_SECONDS)
            os.close(reader)
            handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(handle, 1)
            os.dup2(handle, 2)
            try:
                answer = function()
            except GpubuildError as error:
                answer = f"{type(error).__name__} {error.message}"
            with os.fdopen(writer, "w") as stream:
                json.dump(answer, stream)
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as stream:
        text = stream.read()
    status = os.waitpid(child, 0)[1]
    try:
        return status, json.loads(text) if text else None
    except ValueError:  # cut off
        return status or 1, None
