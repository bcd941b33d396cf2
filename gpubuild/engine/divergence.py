"""Divergence: barriers and their like that not all work-items reach who must, found before anything runs.

Some work-items of a workgroup walk through a kernel, each alone (``engine.reach``). Where two of them
come to different barriers, the kernel is wrong: by the dialect, either none or all execute one. What is
sure for workgroups of a known size is an error; what depends on more than that is a warning at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlir import ir

from gpubuild.engine import mlir
from gpubuild.engine.diagnostics import SourceText, about, locate
from gpubuild.engine.module_index import kernel_functions
from gpubuild.engine.reach import sites
from gpubuild.engine.reach.compare import Conflict
from gpubuild.engine.reach.decode import CALLS, Code, callee_of
from gpubuild.engine.reach.launches import Launches
from gpubuild.engine.reach.search import Found, search
from gpubuild.engine.reach.trace import Decision
from gpubuild.engine.reach.walk import place_of
from gpubuild.errors import Diagnostic, StepError

_FUNCTIONS = frozenset({"gpu.func", "func.func", "llvm.func"})
_RULE = (
    "either all work-items of a workgroup execute a barrier, or none (of a subgroup, for its operations): "
    "move it out of what only some of them run"
)


def may_meet(text: str) -> bool:
    """Whether a source may have operations that work-items must reach together."""
    return any(name in text for name in sites.NAMES)


def check_reach(module: ir.Module, source: SourceText) -> list[Diagnostic]:
    """Warnings about kernels in ``module``. Raises ``StepError`` for those that are wrong in every run."""
    wrong: list[Diagnostic] = []
    doubtful: list[Diagnostic] = []
    launches = Launches(module)
    for kernels in mlir.gpu_modules(module):
        meets, functions = what_meets(kernels)
        suspects = [op for op in kernel_functions(kernels) if op in meets and not _plain(op, meets)]
        for kernel in suspects:
            name = _name(kernels, kernel)
            found = search(kernel, Code(functions, meets), launches.known(name, kernel))
            if found is not None:
                (wrong if found.sure else doubtful).append(_told(found, name, source))
    if wrong:
        raise StepError(
            "the file has a kernel whose work-items wait for some that never come",
            diagnostics=wrong,
            hint=_RULE,
        )
    return doubtful


def what_meets(kernels: ir.Operation) -> tuple[set[ir.Operation], dict[str, ir.Operation]]:
    """What is or holds a site, with functions and calls of them; and the functions by name."""
    functions = {
        op.operation.attributes["sym_name"].value: op.operation
        for op in kernels.regions[0].blocks[0]
        if op.operation.name in _FUNCTIONS and len(op.operation.regions[0].blocks)
    }
    meets: set[ir.Operation] = set()
    calls: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name in CALLS:
            calls.append(op)
        elif (name in sites.NAMES and sites.is_site(op)) or name in sites.UNTOLD:
            _note(op, kernels, meets)
        return ir.WalkResult.ADVANCE

    kernels.walk(visit)
    before = -1
    while meets and before != len(meets):
        before = len(meets)
        for call in calls:
            if functions.get(callee_of(call)) in meets:
                _note(call, kernels, meets)
    return meets, functions


def _note(op: ir.Operation, kernels: ir.Operation, meets: set[ir.Operation]) -> None:
    while op != kernels and op not in meets:
        meets.add(op)
        op = op.parent.operation


def _plain(kernel: ir.Operation, meets: set[ir.Operation]) -> bool:
    """Whether all sites stand in the kernel's only block, where everybody comes."""
    blocks = kernel.regions[0].blocks
    if len(blocks) > 1:
        return False
    inside = [op.operation for op in blocks[0].operations if op.operation in meets]
    return all(op.name in sites.NAMES or op.name in sites.UNTOLD for op in inside)


def _name(kernels: ir.Operation, kernel: ir.Operation) -> str:
    """``@module::@kernel``, written as MLIR writes it."""
    names = [kernels.attributes["sym_name"].value, kernel.attributes["sym_name"].value]
    return str(ir.SymbolRefAttr.get(names))


def _told(found: Found, name: str, source: SourceText) -> Diagnostic:
    conflict, situation = found.conflict, found.situation
    first, second = (_shape(place_of(situation, i), ", ") for i in (conflict.first, conflict.second))
    where = ""
    if any(situation.workgroup):
        where = f" of workgroup ({_shape(situation.workgroup, ', ')})"
    group = "subgroup" if conflict.site.subgroup else "workgroup"
    if conflict.elsewhere is not None:
        misses = (
            f"waits at another {conflict.elsewhere.name}"
            if (conflict.elsewhere.name == conflict.site.name)
            else f"waits at {conflict.elsewhere.name}"
        )
    else:
        misses = "returns without reaching it" if conflict.returned else "never comes"
    may = "waits" if conflict.sure else "may wait"
    message = (
        f"{name}: work-item ({first}){where} {may} here at {conflict.site.name}, "
        f"but work-item ({second}) of its {group} {misses}{_in_what(found)}"
    )
    told = about(conflict.site.op, message, source)
    notes = [*_elsewhere(conflict, second, source), *_decided(conflict, first, second, source)]
    if situation.launch is not None:
        size = f"launched here with workgroups of {_shape(situation.block, ' x ')}"
        notes.append(_note_at(situation.launch.location, size, source))
    return replace(
        told, severity="error" if found.sure else "warning", notes=tuple(n for n in notes if n.location)
    )


def _in_what(found: Found) -> str:
    """What the mistake depends on."""
    size = _shape(found.situation.block, " x ")
    if not found.everywhere:
        return f", where a subgroup has {found.situation.subgroup} work-items"
    if not found.seen:
        return ", in workgroups of more than one work-item"
    return "" if found.situation.launch is not None else f", in workgroups of {size}"


def _elsewhere(conflict: Conflict, second: str, source: SourceText) -> Iterator[Diagnostic]:
    if conflict.elsewhere is not None:
        yield _note_at(conflict.elsewhere.op.location, f"work-item ({second}) waits here", source)


def _decided(conflict: Conflict, first: str, second: str, source: SourceText) -> Iterator[Diagnostic]:
    """Where the two part, and what their condition is."""
    if conflict.parted is None:
        return
    mine, other = conflict.parted
    if mine.condition is None:
        turn = "comes to another turn" if mine.outcome else "has no more turns"
        against = "does not" if mine.outcome else "has"
        yield _note_at(
            mine.op.location, f"work-item ({first}) {turn} of this loop, ({second}) {against}", source
        )
        return
    values = f"{_value(mine)} for work-item ({first}), {_value(other)} for ({second})"
    yield _note_at(mine.op.location, f"what decides here is {values}", source)
    owner = mine.condition.owner
    if not isinstance(owner, ir.Block):
        yield _note_at(owner.operation.location, "which is computed here", source)


def _value(decision: Decision) -> str:
    kind = decision.condition.type if decision.condition is not None else None
    if isinstance(kind, ir.IntegerType) and ir.IntegerType(kind).width == 1:
        return "true" if decision.outcome else "false"
    return str(decision.outcome)


def _note_at(place: ir.Location, message: str, source: SourceText) -> Diagnostic:
    location, line = locate(place, source)
    return Diagnostic(message=message, severity="note", location=location, source_line=line)


def _shape(sizes: Sequence[int], between: str) -> str:
    return between.join(map(str, sizes))
