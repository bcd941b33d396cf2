"""Divergence: barriers and their like that not all work-items reach who must, found before anything runs.

Some work-items of a workgroup walk through a kernel, each alone (``engine.reach``). Where two of them
come to different barriers, the kernel is wrong: by the dialect, either none or all execute one. What is
sure for all launches in the file is an error; what depends on more than that is a warning at most.
Most files are through when nothing but their text, or the conditions around barriers, has been looked at.
"""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText
from gpubuild.engine.ir.query import kernel_functions
from gpubuild.engine.source.launch_checks import kernel_name
from gpubuild.engine.source.reach import sites
from gpubuild.engine.source.reach.suspicion import depends_on_items
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
    found: list[Diagnostic] = []
    for kernels in contexts.gpu_modules(module):
        meets, functions = what_meets(kernels)
        if any(depends_on_items(function, meets) for function in functions.values()):
            found += _search(module, kernels, meets, functions, source)
    if any(one.severity == "error" for one in found):
        raise StepError(
            "the file has a kernel whose work-items wait, on every target, for some that never come",
            diagnostics=[one for one in found if one.severity == "error"],
            hint=_RULE,
        )
    return found


def _search(
    module: ir.Module,
    kernels: ir.Operation,
    meets: set[ir.Operation],
    functions: dict[str, ir.Operation],
    source: SourceText,
) -> list[Diagnostic]:
    # To load these takes longer than to look at most files.
    from gpubuild.engine.source.reach.decode import Code
    from gpubuild.engine.source.reach.launches import Launches
    from gpubuild.engine.source.reach.search import search
    from gpubuild.engine.source.reach.telling import told

    launches, messages = Launches(module), []
    for kernel in kernel_functions(kernels):
        if kernel in meets:
            name = kernel_name(kernels, kernel)
            launched = launches.known(name, kernel)
            code = Code(functions, meets)
            found = search(kernel, code, launched.situations, others=launched.others)
            if found is not None:
                messages.append(told(found, name, source))
    return messages


def what_meets(kernels: ir.Operation) -> tuple[set[ir.Operation], dict[str, ir.Operation]]:
    """What is or holds a site, with functions and calls of them; and the functions by name.

    With a site, what ends walks is among it, too: conditions around that must not be passed by.
    """
    functions = {
        op.operation.attributes["sym_name"].value: op.operation
        for op in kernels.regions[0].blocks[0]
        if op.operation.name in _FUNCTIONS and len(op.operation.regions[0].blocks)
    }
    meets: set[ir.Operation] = set()
    calls: list[ir.Operation] = []
    ends: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        name = op.name
        if name in sites.NAMES and sites.is_site(op):
            _note(op, kernels, meets)
        elif sites.ends_walks(op, functions):
            ends.append(op)
        elif name in sites.CALLS:
            calls.append(op)
        return ir.WalkResult.ADVANCE

    kernels.walk(visit)
    for op in ends if meets else ():
        _note(op, kernels, meets)
    before = -1
    while meets and before != len(meets):
        before = len(meets)
        for call in calls:
            if functions.get(sites.callee_of(call)) in meets:
                _note(call, kernels, meets)
    return meets, functions


def _note(op: ir.Operation, kernels: ir.Operation, meets: set[ir.Operation]) -> None:
    while op != kernels and op not in meets:
        meets.add(op)
        op = op.parent.operation
