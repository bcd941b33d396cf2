"""Blame: what an error of a step is told on its way to the user: whose it is, how to see it again.

Objects are linked under fixed names, because names reach symbol tables; linkers' messages name the
user's files here.
"""

from __future__ import annotations

import re
from pathlib import Path

from gpubuild.errors import NoRoomError, StepError
from gpubuild.model.step import Step, StepKind
from gpubuild.reproducer import reproducer

_LINKED = re.compile(r"\b(object|archive)(\d+)\.[oa]\b")
# The name of the text that an object was compiled from: always the same two.
_TEXT = re.compile(r":?\b(?:source\.i|host\.ll):(?=\(\.)")


def blame(error: StepError, step: Step, root: Path) -> None:
    """Complete ``error``, which the engine raised for ``step``; paths are told relative to ``root``."""
    error.step_id = step.id
    error.program = step.program or ", ".join(step.users)
    error.module = step.module
    error.target = step.target
    if not isinstance(error, NoRoomError):
        error.reproduce = error.reproduce or reproducer(step)
    if step.kind is StepKind.LINK:
        error.output = _in_users_files(error.output, step, root)


def _in_users_files(output: str, step: Step, root: Path) -> str:
    """What a linker said about numbered objects, told of the files they were made of."""
    names = {}
    for item in step.inputs:
        path = item.origin or (item.path if not item.producer else None)
        if path is not None:
            names[item.name] = str(path.relative_to(root) if path.is_relative_to(root) else path)

    def users(found: re.Match[str]) -> str:
        return names.get(f"{found[1]}.{found[2]}", found[0])

    return "\n".join(
        _TEXT.sub(lambda m: ":" if m[0][0] == ":" else "", _LINKED.sub(users, line))
        for line in output.splitlines()
    )
