"""Bindings: load MLIR's Python bindings without what this program does not use of them.

Imported before ``mlir`` wherever that can be arranged; importing it later costs time, nothing else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

_ABSENT: ModuleType | None = None  # what makes Python's import system say that there is no such module


def _load() -> None:
    """Import ``mlir.ir`` without numpy, and have operations met come without generated classes.

    ``mlir.ir`` takes numpy if it is there, for attribute builders that nothing here calls. That
    costs 55 ms, and starts a thread in the process that steps are forked from.
    The bindings import ``mlir.dialects.X`` when they meet an operation, type or attribute of X. In
    a process per step each step paid for that again, 15 to 40 ms, and went through the whole
    search path for each dialect that has no such module. The engine reads operations by name, operands
    and attributes, for which the generated classes are not needed.
    """
    hide = "numpy" not in sys.modules
    if hide:
        sys.modules["numpy"] = _ABSENT  # type: ignore[assignment]
    try:
        import_module("mlir.ir")
    finally:
        if hide:
            del sys.modules["numpy"]
    import_module("mlir._mlir_libs._mlir").globals.dialect_search_modules = []


_load()
