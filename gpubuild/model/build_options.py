"""BuildOptions: what is requested on top of targets.yaml, and how far a build goes."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from gpubuild.support.frozen import frozen


class Goal(StrEnum):
    """What is wanted of each program."""

    EXECUTABLE = "executable"
    OBJECTS = "objects"  # what a linker would read, but for the runtime
    JIT = "jit"  # the same, and the runtime as a shared library


@frozen
class BuildOptions:
    """What the user asked for on top of targets.yaml. ``build_dir`` is absolute."""

    build_dir: Path
    programs: tuple[str, ...] = ()  # empty: all
    targets: tuple[str, ...] = ()  # restrict device code to these; empty: all
    cache_dir: Path | None = None  # overrides targets.yaml and the environment
    use_cache: bool = True
    jobs: int = 0  # 0: GPUBUILD_JOBS, else the number of CPUs
    keep_going: bool = False
    dry_run: bool = False
    goal: Goal = Goal.EXECUTABLE
    dump_ir: Path | None = None  # absolute: where steps write their IR after every stage
