"""Goal: how far a build goes."""

from __future__ import annotations

from enum import StrEnum


class Goal(StrEnum):
    """What is wanted of each program."""

    EXECUTABLE = "executable"
    OBJECTS = "objects"  # what a linker would read, but for the runtime
    JIT = "jit"  # the same, and the runtime as a shared library
