"""Intrinsics: which names of functions LLVM knows as its own.

MLIR's translation ends the process over a name it does not know; a call of a function of such a name
gets as far as the assembler, which has no idea what is meant.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

PREFIX = "llvm."
_LIBRARY = "libMLIRPythonCAPI.so"  # names are looked up in the LLVM library that it is linked with, too


def is_known(name: str) -> bool:
    """Whether LLVM has an intrinsic ``name``, the types that may be at its end aside.

    Names of earlier releases, which LLVM renames when it reads IR, are not known.
    """
    data = name.encode()
    return name.startswith(PREFIX) and bool(_lookup()(data, len(data)))


def unknown(name: str) -> str:
    """What to say of a ``name`` that is not known."""
    return f"LLVM has no intrinsic '{name}'"


@cache
def _lookup() -> Any:  # noqa: ANN401 - a foreign function has no better type
    import mlir._mlir_libs  # not before bindings have settled how mlir is loaded

    folder = Path(next(iter(mlir._mlir_libs.__path__)))
    function = ctypes.CDLL(str(folder / _LIBRARY)).LLVMLookupIntrinsicID
    function.argtypes, function.restype = [ctypes.c_char_p, ctypes.c_size_t], ctypes.c_uint
    return function
