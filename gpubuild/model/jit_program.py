"""JIT program: what a process needs to know that runs a program without an executable."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[2]
# -P: modules in the user's folder are not ours.
_START = "import sys; sys.path.append(sys.argv.pop(1)); from gpubuild.engine.host.jit import main; main()"


@dataclass(frozen=True, slots=True, kw_only=True)
class JitProgram:
    """Paths of files, and names of link libraries; ``name`` is the program's ``argv[0]``."""

    name: str
    objects: tuple[str, ...]
    runtime: str  # the shared library
    libraries: tuple[str, ...] = ()
    cxx: bool = False  # needs the C++ standard library

    def command(self, python: str, arguments: Iterable[str] = ()) -> list[str]:
        """The command line of a process that runs it with ``arguments``."""
        return [python, "-P", "-c", _START, str(_ROOT), json.dumps(asdict(self)), *arguments]

    @classmethod
    def from_json(cls, text: str) -> JitProgram:
        """The program of such a command line."""
        data = json.loads(text)
        return cls(
            name=data["name"],
            objects=tuple(data["objects"]),
            runtime=data["runtime"],
            libraries=tuple(data["libraries"]),
            cxx=data["cxx"],
        )
