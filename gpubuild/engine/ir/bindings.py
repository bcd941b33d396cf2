"""Load MLIR's Python bindings without the parts that this program does not use.

Import this module before ``mlir``: importing it later costs time, nothing else.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

_ABSENT: ModuleType | None = None  # in sys.modules: the import fails


def _load() -> None:
    """Import ``mlir.ir`` without numpy, and stop it from importing generated dialect classes.

    ``mlir.ir`` imports numpy if it is installed, for attribute builders that this program does not call.
    That costs 55 ms, and starts a thread in the process that steps are forked from.
    The bindings import ``mlir.dialects.X`` for the first operation, type or attribute of X: 15 to 40 ms
    in each step's process. The engine reads operations by name and needs no generated classes.
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
