"""Step: one node of the plan. What it reads, what it writes, which tools it uses."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from gpubuild.frozen import field, frozen
from gpubuild.model.digest import Digest
from gpubuild.model.params import Params

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


class StepKind(StrEnum):
    """What a step does; the engine has one entry point per kind (engine.table)."""

    OUTLINE = "outline"
    COMPILE = "compile"
    BUNDLE = "bundle"
    HOST = "host"
    PREPROCESS = "preprocess"
    CC = "cc"
    LLVM = "llvm"
    RUNTIME = "runtime"
    LINK = "link"


@frozen
class Input:
    """A file a step reads, under the role ``name``. ``producer`` is the step that writes it.

    An input with ``in_key=False`` may only improve messages, never change a byte of output.
    ``origin`` is the user's file that something to be linked was made of; only messages name it.
    """

    name: str
    path: Path
    producer: str = ""
    in_key: bool = True
    origin: Path | None = None


@frozen
class Output:
    """A file a step writes, under the role ``name``, at its place in the build folder."""

    name: str
    path: Path
    executable: bool = False


@frozen
class Step:
    """One cacheable unit of work.

    ``tools`` must be present; ``optional_tools`` count as "absent" in the key when they are not
    (ROCm's device libraries, say). A step whose outputs are known only after it ran has
    ``dynamic_dir`` instead of ``outputs``; its output names are plain file names in that folder.
    ``users`` are the programs that a step of a source is for, which has no ``program`` of its own.
    """

    id: str  # unique in a plan, stable across builds, e.g. "saxpy/compile/saxpy_kernels/sm_60"
    kind: StepKind
    params: Params
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...] = ()
    dynamic_dir: Path | None = None
    tools: tuple[str, ...] = ()
    optional_tools: tuple[str, ...] = ()
    program: str = ""
    module: str = ""
    target: str = ""
    users: tuple[str, ...] = ()

    def output_path(self, name: str) -> Path:
        """Where output ``name`` belongs. Raises ``KeyError`` for a name the step does not have."""
        for output in self.outputs:
            if output.name == name:
                return output.path
        if self.dynamic_dir is not None and is_plain_name(name):
            return self.dynamic_dir / name
        raise KeyError(f"step {self.id} has no output {name!r}")


@frozen
class Blob:
    """One output as stored: its role, content digest and size in bytes."""

    name: str
    digest: Digest
    size_bytes: int
    executable: bool = False


@frozen
class ActionResult:
    """What an action key maps to: every output, and files found to be inputs while running.

    ``discovered`` are (path, digest) pairs: absolute, or in a store relative to the project.
    """

    blobs: tuple[Blob, ...]
    discovered: tuple[tuple[str, Digest], ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = field(default=0.0, compare=False)  # what the step cost when it ran


def is_plain_name(name: str) -> bool:
    """Whether ``name`` is safe as a file name inside a folder of ours."""
    return bool(name) and name[0] != "." and _PLAIN.issuperset(name)
