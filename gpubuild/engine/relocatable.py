"""Relocatable: device code that clang-linker-wrapper links, one more output of a compile step.

What it takes differs: NVIDIA's nvlink relocatable cubins, AMD's lld bitcode (of several objects it
would keep the metadata of the first only), the CPU's linker objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from gpubuild.engine import llvm
from gpubuild.engine.device import DeviceBuild

_Build = TypeVar("_Build")


def stages_with(
    stages: Sequence[tuple[str, Callable[[_Build], None]]], stage: Callable[[_Build], None], *, after: str
) -> tuple[tuple[str, Callable[[_Build], None]], ...]:
    """``stages`` and behind the one called ``after`` the one that makes relocatable code."""
    at = [name for name, _ in stages].index(after) + 1
    return (*stages[:at], ("relocatable", stage), *stages[at:])


def emit_bitcode(build: DeviceBuild) -> None:
    """Stage: the optimised module as bitcode, which clang compiles when it links (-flto)."""
    build.io.write("device", llvm.emit_bitcode(build.module))
