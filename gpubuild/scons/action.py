"""Action: one gpubuild step as SCons runs it, prints it and decides whether it is out of date."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpubuild.scons.front import Front
    from gpubuild.scons.node import Node

SIGNATURE = "GPUBUILD_STEP"  # the construction variable that carries a step's signature


class StepAction:
    """A callable of the kind that ``SCons.Action.Action`` takes."""

    def __init__(self, front: Front, node: Node) -> None:
        self._front = front
        self._node = node
        # SCons calls the action by this name when --debug=explain shows its changes.
        self.__name__ = f"{node.title}: {node.options} "

    def __call__(self, target: Sequence[Any], source: Sequence[Any], env: Any) -> int:  # noqa: ANN401
        """Run the step. The exit status goes to SCons, the message to stderr."""
        error = self._front.run(self._node)
        if error is None:
            return 0
        print(f"gpubuild: error: {error.render()}", file=sys.stderr, flush=True)
        return error.exit_code

    def strfunction(self, target: Sequence[Any], source: Sequence[Any], env: Any) -> str:  # noqa: ANN401
        """The line that SCons prints before it runs the step."""
        return f"gpubuild: {self._node.title}"
