"""Find the operation on which a compile step fails, by compiling without others.

Where LLVM aborts, or an assembler refuses its input, no message has a line of the user's file. So the
step is repeated, each time in a process of its own, without the first operations of its functions.
Halving finds the operation without which the failure disappears, in some ten compilations. Operations
that are left out are replaced by calls of unknown functions, so that the users of their values stay.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.builder import Emitter
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.query import enclosing, first, matching, symbol_name
from gpubuild.errors import Diagnostic, GpubuildError, Location, StepError
from gpubuild.model.digest import digest_bytes
from gpubuild.model.job import Job, JobInput, JobResult

_FUNCTIONS = frozenset({"gpu.func", "func.func", "llvm.func"})
_SEARCH_SECONDS = 20.0
_TRY_SECONDS = 20  # of one compilation, which may hang
_MODULE, _LOCATED = "module", "located"  # inputs
# Lines of a log that identify a failure, without the numbers and names in them.
_CAUSE = re.compile(r"LLVM ERROR|Assertion|UNREACHABLE|error|libcall|upported|ntrinsic|immarg|fatal")
_VARIABLE = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'")
# Operations that stay: constants, which do not fail themselves, and terminators.
_CONSTANT = re.compile(r"\w+\.(?:constant|mlir\.\w+|poison)")
_TERMINATOR = re.compile(
    r"\w+\.(?:\w*(?:yield|return|terminator|br|branch|switch|unreachable|condition|reduce|in_parallel)|invoke)"
)
# Types of values that a function can return on every target.
_RETURNABLE = (
    ir.ComplexType, ir.FloatType, ir.IndexType, ir.IntegerType, ir.MemRefType, ir.VectorType,
)  # fmt: skip
_RETURNABLE_TEXT = re.compile(r"!llvm\.(?:ptr|struct|array)")
_REFERENCES = frozenset({"callee", "global_name", "name"})  # attributes that name a symbol
_UNKNOWN = "gpubuild_unknown"

Run = Callable[[Job], JobResult]


def function_at(located: str, place: Location) -> str:
    """Return the name of the function of a gpu.module with an operation at ``place``, or an empty string.

    ``located`` is the module's text with locations.
    """
    source = SourceText()
    try:
        with contexts.context():
            module = contexts.parse(located)
            found = first(module.operation, lambda op: locate(op.location, source)[0] == place)
            function = enclosing(found, _FUNCTIONS) if found is not None else None
            return symbol_name(function) if function is not None else ""
    except StepError:
        return ""


def find(job: Job, run: Run) -> tuple[Diagnostic, ...]:
    """Return the location in the user's file of the failure of compile step ``job``, or nothing.

    ``run`` runs a step in the calling process. ``job.workdir`` is an empty folder. Called in a process of
    its own, which it forks.
    """
    return _Search(job, run).find()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """Leave out the first ``operations`` in functions, then the first ``symbols`` of the module."""

    operations: int = 0
    symbols: int = 0


class _Search:
    def __init__(self, job: Job, run: Run) -> None:
        self._job = job
        self._run = run
        self._text = next(i for i in job.inputs if i.name == _LOCATED).path.read_text(encoding="utf-8")
        self._end = time.monotonic() + _SEARCH_SECONDS
        self._tries = 0
        self._failure = ""

    def find(self) -> tuple[Diagnostic, ...]:
        counts = self._ask(lambda module: [len(_operations(module)), len(_symbols(module))])
        self._failure = self._failure_without(_Cut()) if isinstance(counts, list) else ""
        if not self._failure:
            return ()
        operations, symbols = counts
        cut = self._halve(operations, lambda n: _Cut(operations=n))
        if cut is None:
            cut = self._halve(symbols, lambda n: _Cut(operations=operations, symbols=n))
        found = self._ask(lambda module: _described(module, cut)) if cut is not None else None
        if not isinstance(found, list):
            return ()
        message, place, line = found
        return (Diagnostic(message=message, location=Location(**place), source_line=line),)

    def _halve(self, count: int, cut: Callable[[int], _Cut]) -> _Cut | None:
        """Return the smallest cut that ends the failure, if ``cut(count)`` does."""
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

    def _fails(self, cut: _Cut) -> bool:
        return self._failure_without(cut) == self._failure

    def _failure_without(self, cut: _Cut) -> str:
        """Return a text that identifies the step's failure; empty when it does not fail."""
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

    def _ask(self, question: Callable[[ir.Module], object]) -> Any:  # noqa: ANN401 - read from JSON
        """Return what ``question`` returns for the module, asked in a child: this process has no context."""

        def ask() -> object:
            with contexts.context():
                return question(contexts.parse(self._text))

        return _in_child(ask, self._job.workdir / "question")[1]


def _described(module: ir.Module, cut: _Cut) -> object:
    """Return message, location and line for the last operation of ``cut``; ``None`` without a location."""
    if cut.symbols:
        symbol = _symbols(module)[cut.symbols - 1]
        op = _use_of_declared(module, symbol) or symbol
        what = f"'{op.name}' @{symbol_name(symbol)}"
        if op != symbol:
            what = f"'{op.name}' of @{symbol_name(symbol)} in {_function_of(op)}"
    else:
        op = _operations(module)[cut.operations - 1]
        callee = f" of {op.attributes['callee']}" if "callee" in op.attributes else ""
        what = f"'{op.name}'{callee} in {_function_of(op)}"
    location, line = locate(op.location, SourceText())
    if location is None:
        return None
    return [f"{what}: the error disappears without this operation", asdict(location), line]


def _function_of(op: ir.Operation) -> str:
    function = enclosing(op, _FUNCTIONS)
    if function is None:
        return ""
    kernel = "gpu.kernel" in function.attributes or "kernel" in function.attributes
    return f"{'kernel ' if kernel else ''}@{symbol_name(function)}"


def _without(job: Job, text: str, cut: _Cut, folder: Path) -> Job:
    """Return ``job`` in ``folder``, for the module without ``cut``."""
    with contexts.context():
        module = contexts.parse(text)
        _leave_out(module, cut)
        # With locations: `debug` and `sanitize` write them into the code.
        data = contexts.located_text(module.operation).encode()
    path = folder / _MODULE
    path.write_bytes(data)
    given = JobInput(name=_MODULE, path=path, digest=digest_bytes(data))
    inputs = [i for i in job.inputs if i.name not in {_MODULE, _LOCATED}]
    return replace(job, inputs=(given, *inputs), workdir=folder, dump_ir=None, finds_failure=False)


def _in_child(function: Callable[[], object], log: Path) -> tuple[int, Any]:
    """Call ``function`` in a child whose output goes to ``log``; return its wait status and its result.

    The result must be JSON. That of a ``GpubuildError`` is its message.
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


def _operations(module: ir.Module) -> list[ir.Operation]:
    """Return the operations that :class:`_Cut` counts, inner ones before those around them."""

    def counts(op: ir.Operation) -> bool:
        kept = not _in_function(op) or _CONSTANT.fullmatch(op.name) or _is_terminator(op)
        return not kept and all(_returnable(result.type) for result in op.results)

    return matching(module.operation, counts)


def _symbols(module: ir.Module) -> list[ir.Operation]:
    """Return functions and variables of the gpu.module, in order."""
    blocks = [kernels.regions[0].blocks[0] for kernels in contexts.gpu_modules(module)]
    return [view.operation for block in blocks for view in block if "sym_name" in view.attributes]


def _leave_out(module: ir.Module, cut: _Cut) -> None:
    """Apply ``cut`` in place."""
    unknown = _Unknown(module)
    symbols = _symbols(module)  # before functions are added
    for op in _operations(module)[: cut.operations]:
        unknown.replace_results(op)
        op.erase()
    for op in symbols[: cut.symbols]:
        op.erase()


def _use_of_declared(module: ir.Module, symbol: ir.Operation) -> ir.Operation | None:
    """Return the first use of ``symbol`` if that is only a declaration, which cannot be wrong itself."""
    if any(len(region.blocks) for region in symbol.regions) or "value" in symbol.attributes:
        return None
    wanted = f"@{symbol_name(symbol)}"

    def uses(op: ir.Operation) -> bool:
        named = _REFERENCES & {*op.attributes}
        return _in_function(op) and any(str(op.attributes[name]) == wanted for name in named)

    return first(module.operation, uses)


class _Unknown:
    """Functions ``() -> T``, one for each type, that LLVM must not look into: they are weak."""

    def __init__(self, module: ir.Module) -> None:
        self._block = contexts.gpu_modules(module)[0].regions[0].blocks[0]
        self._names: dict[ir.Type, str] = {}

    def replace_results(self, op: ir.Operation) -> None:
        emit = Emitter(op)
        for result in op.results:
            if not list(result.uses):
                continue
            callee = {"callee": ir.FlatSymbolRefAttr.get(self._function(result.type))}
            result.replace_all_uses_with(emit.op("func.call", [], [result.type], callee).results[0])

    def _function(self, kind: ir.Type) -> str:
        if kind not in self._names:
            name = self._names[kind] = f"{_UNKNOWN}_{len(self._names)}"
            attributes = {
                "sym_name": ir.StringAttr.get(name),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get([], [kind])),
                "llvm.linkage": ir.Attribute.parse("#llvm.linkage<weak>"),
                "passthrough": ir.Attribute.parse('["noinline"]'),
            }
            start = ir.InsertionPoint.at_block_begin(self._block)
            function = ir.Operation.create("func.func", attributes=attributes, regions=1, ip=start)
            with ir.InsertionPoint(function.regions[0].blocks.append()):
                value = ir.Operation.create(
                    "ub.poison", results=[kind], attributes={"value": ir.Attribute.parse("#ub.poison")}
                )
                ir.Operation.create("func.return", operands=[value.results[0]])
        return self._names[kind]


def _in_function(op: ir.Operation) -> bool:
    return op.parent is not None and enclosing(op.parent.operation, _FUNCTIONS) is not None


def _is_terminator(op: ir.Operation) -> bool:
    block = op.block.operations
    return block[len(block) - 1].operation == op and _TERMINATOR.fullmatch(op.name) is not None


def _returnable(kind: ir.Type) -> bool:
    return isinstance(kind, _RETURNABLE) or _RETURNABLE_TEXT.match(str(kind)) is not None
