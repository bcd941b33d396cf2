"""Action: one gpubuild step as SCons runs it, prints it and decides whether it is out of date."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from gpubuild.model.step import Step, StepKind
from gpubuild.scons.session import Session

_VERBS = {
    StepKind.OUTLINE: "split",
    StepKind.COMPILE: "compile",
    StepKind.BUNDLE: "bundle",
    StepKind.HOST: "lower host code of",
    StepKind.PREPROCESS: "preprocess",
    StepKind.CC: "compile",
    StepKind.LLVM: "compile",
    StepKind.RUNTIME: "compile the runtime",
    StepKind.LINK: "link",
}


SIGNATURE = "GPUBUILD_STEP"  # the construction variable that carries a step's signature


class StepAction:
    """A callable of the kind that ``SCons.Action.Action`` takes."""

    def __init__(self, session: Session, step: Step) -> None:
        self._session = session
        self._step = step
        # SCons calls the action by this name when --debug=explain tells how it changed.
        self.__name__ = f"{describe(step)}: {'; '.join(_parts(session, step, digits=12))} "

    def __call__(self, target: Sequence[Any], source: Sequence[Any], env: Any) -> int:  # noqa: ANN401
        """Run the step. The exit status goes to SCons, the message to stderr."""
        error = self._session.run(self._step).error
        if error is None:
            return 0
        print(f"gpubuild: error: {error.render()}", file=sys.stderr, flush=True)
        return error.exit_code

    def strfunction(self, target: Sequence[Any], source: Sequence[Any], env: Any) -> str:  # noqa: ANN401
        """The line that SCons prints before it runs the step."""
        return f"gpubuild: {describe(self._step)}"


def signature(session: Session, step: Step) -> str:
    """What SCons compares with last time, besides the contents of the inputs: options and tools.

    ``$`` is doubled, because SCons expands variables in it.
    """
    return "; ".join(_parts(session, step)).replace("$", "$$")


def describe(step: Step) -> str:
    """``compile @saxpy_kernels for sm_60 (saxpy)``."""
    words = [_VERBS[step.kind]]
    if step.module:
        words.append(f"@{step.module}")
    if step.target:
        words.append(f"for {step.target}")
    if step.program:
        words.append(f"({step.program})" if step.module else step.program)
    elif step.kind is not StepKind.RUNTIME:
        words.append(step.id.partition("/")[2].partition("#")[0])
    return " ".join(words)


def _parts(session: Session, step: Step, digits: int | None = None) -> list[str]:
    params = step.params
    options = [f"{f.name}={getattr(params, f.name)!r}" for f in fields(params) if f.compare]
    return options + [f"{name}={digest[:digits]}" for name, digest in session.fingerprints(step)]
