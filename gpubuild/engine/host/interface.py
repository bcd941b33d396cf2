"""Records of the functions that a library exports.

`engine.source.exports` makes them; ``c_header``, ``python_module`` and ``call_table`` write what callers
use. All of them name the ABI of a function by :func:`abi_name`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TypedDict

from gpubuild.model.digest import digest_bytes

FILE = "interface.json"  # an output of outline steps


class Kind(TypedDict):
    """A type that callers can pass. Scalars have only ``text`` and ``element``.

    Dynamic sizes, strides and offsets are ``None``. ``contiguous`` memrefs have the identity layout.
    """

    text: str
    element: str
    sizes: list[int | None] | None  # of a memref
    strides: list[int | None]
    offset: int | None
    contiguous: bool
    space: str  # memory space; empty: the default one


class Argument(TypedDict):
    """An argument; ``written`` is false for memory that the function and its kernels only read."""

    name: str
    type: Kind
    written: bool


class Result(TypedDict):
    """A result. ``owner`` of a memref: ``caller`` frees it, ``argument``, ``library``, or empty: unknown."""

    type: Kind
    owner: str


class Function(TypedDict):
    """An exported function. ``reason`` says why callers cannot use it; empty if they can."""

    name: str
    text: str  # its type in MLIR
    reason: str
    arguments: list[Argument]
    results: list[Result]


class Kernel(TypedDict):
    """A kernel of a gpu.module; ``reason`` says why callers cannot launch it."""

    module: str
    name: str
    text: str
    reason: str
    arguments: list[Argument]


class Interface(TypedDict):
    """What callers can use of a source."""

    functions: list[Function]
    kernels: list[Kernel]


def read(text: str) -> Interface:
    """Return the content of an ``interface.json``."""
    interface: Interface = json.loads(text)
    return interface


def identifier(name: str) -> str:
    """Return ``name`` with other characters than those of identifiers replaced."""
    return re.sub(r"\W", "_", name, flags=re.ASCII)


def free_name(name: str, taken: set[str]) -> str:
    """Return an identifier for ``name`` that is not ``taken``, by underscores behind it; it is taken then."""
    name = identifier(name)
    name = f"_{name}" if name[:1].isdigit() else name
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def free_names(names: Iterable[str], taken: Iterable[str]) -> dict[str, str]:
    """Return a free name for each of ``names``. Those that are identifiers choose first: they keep theirs."""
    used = set(taken)
    return {name: free_name(name, used) for name in sorted(names, key=lambda name: name != identifier(name))}


def abi_name(function: Function) -> str:
    """Return a symbol for ``function`` that differs for each ABI: what the linker and the loader check."""
    types = [[item["type"] for item in function["arguments"]], [item["type"] for item in function["results"]]]
    digest = digest_bytes(json.dumps([function["name"], types], sort_keys=True).encode())
    return f"gpubuild_abi_{identifier(function['name'])}_{digest[:12]}"


def table_name(program: str, interface: Interface) -> str:
    """Return the symbol of the library's call table, with a digest of all that the Python module knows."""
    digest = digest_bytes(json.dumps(interface, sort_keys=True).encode())
    return f"gpubuild_abi_{identifier(program)}_{digest[:16]}"


def modules(interface: Interface) -> list[str]:
    """Return the gpu.modules with kernels that can be launched, in order."""
    return list(dict.fromkeys(kernel["module"] for kernel in interface["kernels"] if not kernel["reason"]))


def returns_by_pointer(function: Function) -> bool:
    """Return whether the function writes its results to memory that its first parameter points to."""
    results = function["results"]
    return len(results) > 1 or any(
        item["type"]["sizes"] is not None or item["type"]["element"].startswith("complex") for item in results
    )
