"""Parse MLIR, run passes, print canonically, translate. The only module that creates contexts.

MLIR can end the process on unexpected input. So all of this runs in workers only, and input that is
known to do that is refused with an error.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlir import _mlir_libs, ir, passmanager
from mlir._mlir_libs import _mlirDialectsLLVM  # its public wrapper costs 0.3 s of generated dialects

import gpubuild.engine.ir.bindings  # noqa: F401 - sets up how MLIR is loaded
from gpubuild.engine.ir.diagnostics import UNNAMED_BUFFER, SourceText, about, advise, from_mlir
from gpubuild.engine.ir.dump import dump
from gpubuild.engine.ir.older_forms import form_of_today
from gpubuild.engine.ir.workarounds import disable_wrong_patterns, generic_switches
from gpubuild.errors import Diagnostic, StepError
from gpubuild.support.text import nearest

_RESOURCE = "dense_resource<sha256_"
_RENAMED = re.compile(rf"({_RESOURCE}[0-9a-f]{{64}})_\d+>")
_TRANSLATABLE_DIALECTS = frozenset({"llvm", "nvvm", "rocdl"})
_TRANSLATABLE_OPS = frozenset({"builtin.module", "gpu.module", "gpu.binary", "gpu.launch_func"})
_TENSORS = (ir.RankedTensorType, ir.UnrankedTensorType)
_CAST = "builtin.unrealized_conversion_cast"
_CAST_MESSAGE = "no conversion from"
_MAX_LISTED_OPS = 10
_A_PASS_FAILED = "a compiler pass failed"  # noqa: S105 - no password
ON_TENSORS = "'{}' works on tensors, which are not in memory"
BUFFERIZE = (
    "set `pipeline: linalg` for the program in targets.yaml, which makes kernels of functions on tensors; "
    "or convert tensors to memrefs in `passes: {source: …}`"
)
_LEAVE_OUT = (
    "rewrite the kernel without it, leave this target out for the module, "
    "or lower it with passes of your own (`passes:` in targets.yaml)"
)
# Dialects of the operations and types that the engine creates. MLIR loads others when it parses them.
# Loading all takes 3 ms longer, and each run of `canonicalize` collects the patterns of loaded dialects.
DIALECTS = (
    "affine", "amdgpu", "arith", "async", "builtin", "cf", "complex", "func", "gpu", "index", "linalg",
    "llvm", "math", "memref", "nvgpu", "nvvm", "rocdl", "scf", "tensor", "transform", "ub", "vector",
)  # fmt: skip
_spare: list[ir.Context] = []
_kept: list[ir.Context] = []


@contextmanager
def context() -> Iterator[ir.Context]:
    """Enter a fresh context and an unknown location."""
    if _spare:
        fresh = _spare.pop()
        _kept.append(fresh)  # destroying it costs 1 ms in a process that ends anyway
    else:
        fresh = _new_context()
    with fresh, ir.Location.unknown():
        yield fresh


def make_spare_contexts(count: int = 1) -> None:
    """Create contexts before a fork, so that jobs need not spend 3 to 5 ms each. They have no threads."""
    while len(_spare) < count:
        _spare.append(_new_context())


def _new_context() -> ir.Context:
    fresh = ir.Context(load_on_create_dialects=DIALECTS)
    # Steps run in parallel already, each in a process.
    fresh.enable_multithreading(False)
    # Otherwise the bindings hide errors, and end the process when a pass reports one and succeeds.
    fresh.emit_error_diagnostics = True
    return fresh


def parse(text: str, *, source_name: str = "") -> ir.Module:
    """Parse and verify ``text`` in the current context.

    With ``source_name`` the locations of operations are in a file of that name. Raises ``StepError`` with a
    diagnostic for each error.
    """
    text = generic_switches(text)
    try:
        with _diagnosed("invalid MLIR", SourceText(text, source_name)):
            module = ir.Module.parse(text)
    except StepError as error:
        raise advise(error, text) from error.__cause__
    if source_name:  # which the bindings cannot give to the parser
        _name_buffer(module.operation, source_name)
    return module


def _name_buffer(root: ir.Operation, source_name: str) -> None:
    """Replace MLIR's name for text parsed from memory in the locations of operations and arguments."""

    def named(location: ir.Location) -> ir.Location:
        if not location.is_a_file() or location.filename != UNNAMED_BUFFER:
            return location
        return ir.Location.file(source_name, location.start_line, location.start_col)

    def visit(op: ir.Operation) -> ir.WalkResult:
        op.location = named(op.location)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    argument.set_location(named(argument.location))
        return ir.WalkResult.ADVANCE

    root.walk(visit)


def text_of_bytecode(data: bytes, settle: Callable[[ir.Module], None]) -> str:
    """Return bytecode as text with its locations, after ``settle``. Raises ``StepError``."""
    with context() as fresh, _diagnosed("invalid MLIR bytecode", SourceText()):
        fresh.allow_unregistered_dialects = True  # reading the text reports them better
        module = ir.Module.parse(data)
        settle(module)
        return str(module.operation.get_asm(enable_debug_info=True))


def parse_attribute(text: str, *, what: str) -> ir.Attribute:
    """Parse an attribute that the user wrote. Raises ``StepError``: it is not ``what``."""
    with _diagnosed(f"not {what}: {text}", SourceText(text, what)):
        return ir.Attribute.parse(text)


def run_passes(
    module: ir.Module, pipeline: str, *, source: SourceText | None = None, log: bool = False
) -> None:
    """Run a pass pipeline such as ``builtin.module(canonicalize,cse)`` on a module or operation.

    Messages show lines of ``source``. With ``log`` errors are printed as well, for pipelines that may end
    the process. Raises ``StepError`` for a pipeline that does not parse, and with MLIR's diagnostics for a
    pass that fails.
    """
    manager = parse_pipeline(disable_wrong_patterns(pipeline))
    with _diagnosed(_A_PASS_FAILED, source or SourceText(), log=log):
        try:
            manager.run(module.operation)
        finally:  # also after a pass that failed, whose IR may be invalid
            dump("mlir", lambda: canonical_text(module.operation))


def parse_pipeline(pipeline: str) -> passmanager.PassManager:
    """Parse a pass pipeline. Raises ``StepError``."""
    try:
        return passmanager.PassManager.parse(pipeline)
    except ValueError as error:
        raise StepError(
            f"cannot parse the pass pipeline: {_pipeline_error(error)}",
            hint=form_of_today(pipeline) or _meant_pass(str(error)) or f"the pipeline is: {pipeline}",
        ) from error


def with_target(error: StepError, target: str) -> StepError:
    """Return ``error`` with the name of ``target`` and a hint, if a pass raised it."""
    if not error.message.startswith(_A_PASS_FAILED):
        return error
    return error.with_(
        message=f"target {target} cannot compile this module: {error.message}", hint=error.hint or _LEAVE_OUT
    )


def verify(op: ir.Operation, *, source: SourceText | None = None) -> None:
    """Verify ``op`` and its regions. Raises ``StepError`` with MLIR's diagnostics."""
    with _diagnosed("the MLIR is not valid", source or SourceText()):
        op.operation.verify()


def canonical_text(op: ir.Operation) -> str:
    """Return text that does not depend on comments, white space, SSA names, aliases or locations.

    A fixpoint: parsed and printed again, it is the same. Ends with a newline.
    """
    return _print(op.operation, locations=False) + "\n"


def located_text(op: ir.Operation) -> str:
    """Return :func:`canonical_text` with locations."""
    return _print(op.operation, locations=True) + "\n"


def check_translatable(op: ir.Operation, *, target: str = "", source: SourceText | None = None) -> None:
    """Refuse operations that translation to LLVM IR would crash on.

    Raises ``StepError`` with ``target`` ("host" for host code) and the names and locations of these.
    """
    found: list[Diagnostic] = []
    counts: Counter[str] = Counter()
    on_tensors: dict[str, Diagnostic] = {}
    lines = source or SourceText()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        name = inner.name
        if name not in _TRANSLATABLE_OPS and name.partition(".")[0] not in _TRANSLATABLE_DIALECTS:
            counts[name] += 1
            if counts[name] == 1 and len(found) < _MAX_LISTED_OPS:
                found.append(about(inner, _leftover_message(inner), lines))
            if name not in on_tensors and has_tensors(inner):
                on_tensors[name] = about(inner, ON_TENSORS.format(name), lines)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit)
    if set(counts) - {_CAST}:  # then the casts are only around the others
        counts.pop(_CAST, None)
        found = [d for d in found if not d.message.startswith(_CAST_MESSAGE)]
    hint = _LEAVE_OUT
    if on_tensors:  # why the others were not lowered
        counts = Counter({name: counts[name] for name in on_tensors})
        found, hint = list(on_tensors.values())[:_MAX_LISTED_OPS], BUFFERIZE
    if counts:
        names = ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in sorted(counts.items()))
        where = "host code" if target == "host" else f"target {target}" if target else "this target"
        raise StepError(f"{where} cannot lower {names}", diagnostics=found, hint=hint)


def translate(op: ir.Operation, *, target: str = "", source: SourceText | None = None) -> str:
    """Return LLVM IR text of a gpu.module or builtin.module in the LLVM, NVVM and ROCDL dialects.

    Calls :func:`check_translatable` first. Raises ``StepError``.
    """
    check_translatable(op, target=target, source=source)
    with _diagnosed("cannot translate to LLVM IR", source or SourceText(), log=True):
        return str(_mlirDialectsLLVM.translate_module_to_llvmir(op.operation))


def gpu_modules(module: ir.Module) -> list[ir.Operation]:
    """Return the gpu.module operations directly inside ``module``, in order."""
    return [op.operation for op in module.operation.regions[0].blocks[0] if op.operation.name == "gpu.module"]


def has_tensors(op: ir.Operation) -> bool:
    """Return whether an operand or a result of ``op`` is a tensor."""
    return any(isinstance(value.type, _TENSORS) for value in (*op.operands, *op.results))


def _leftover_message(op: ir.Operation) -> str:
    if op.name == _CAST:
        operands = ", ".join(str(o.type) for o in op.operands)
        results = ", ".join(str(r.type) for r in op.results)
        return f"{_CAST_MESSAGE} ({operands}) to ({results}): some op that uses this value was not lowered"
    return f"'{op.name}' op was not lowered"


def _print(op: ir.Operation, *, locations: bool) -> str:
    text = str(op.get_asm(use_local_scope=True, enable_debug_info=locations))
    # Names of resources are digests of their data. MLIR adds a number to a name that the context has.
    return _RENAMED.sub(r"\1>", text) if _RESOURCE in text else text


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _pipeline_error(error: BaseException) -> str:
    """Return the reason in MLIR's message, without the pipeline, which the hint contains."""
    text = str(error)
    if found := re.search(r"error: (.+)", text):
        return found[1].strip()
    if found := re.search(r"restricted to '(.+?)' on a PassManager .* on '(.+?)'[^`]*`(.+?)`", text):
        return f"{found[3]} is a pass for {found[1]}, not for {found[2]}"
    if found := re.search(r"failed to add `(.+?)` with options `(.*?)`", text):
        return f"{found[1]} does not accept the options `{found[2]}`"
    return _one_line(error)


def _meant_pass(message: str) -> str:
    """Return a hint with the pass whose name looks like the unknown one in MLIR's ``message``.

    The bindings do not list passes, so candidates are strings of the library that parse as a pipeline.
    """
    if not (unknown := re.search(r"'([\w-]+)' does not refer to a registered pass", message)):
        return ""
    library = Path(_mlir_libs.__path__[0]).parent / "lib" / "libMLIR.so"
    string = rb"\0(%b[a-z0-9-]{1,60})(?=\0)" % unknown[1][:2].encode()
    names = set(re.findall(string, library.read_bytes())) if library.exists() else set()
    for name in nearest(unknown[1], map(bytes.decode, names), 5, cutoff=0.75):
        with suppress(ValueError):
            passmanager.PassManager.parse(f"any({name})")
            return f"did you mean {name}?"
    return ""


@contextmanager
def _diagnosed(what: str, source: SourceText, *, log: bool = False) -> Iterator[None]:
    """Turn MLIR's exceptions into ``StepError``, with the errors that MLIR reported before.

    With ``log`` errors are printed as well: MLIR may end the process after one.
    """
    reported: list[Diagnostic] = []

    def handler(info: ir.DiagnosticInfo) -> bool:
        errors = [d for d in from_mlir([info], source) if d.severity == "error"]
        reported.extend(errors)
        if log:
            for error in errors:
                print(f"error: {error.message}", file=sys.stderr, flush=True)
        return True

    attached = ir.Context.current.attach_diagnostic_handler(handler)
    try:
        yield
    except ir.MLIRError as error:
        diagnostics = from_mlir(error.error_diagnostics, source) or tuple(reported)
        raise StepError(what, diagnostics=diagnostics) from error
    except (RuntimeError, ValueError) as error:
        raise StepError(f"{what}: {_one_line(error)}", diagnostics=reported) from error
    finally:
        attached.detach()
