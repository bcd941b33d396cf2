"""Enclosing: the function of a gpu.module that a place in the user's file is in."""

from __future__ import annotations

from mlir import ir

from gpubuild.engine.ir import contexts
from gpubuild.engine.ir.diagnostics import SourceText, locate
from gpubuild.engine.ir.query import first
from gpubuild.errors import Location, StepError

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
