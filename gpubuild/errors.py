"""Every exception gpubuild raises on purpose: what went wrong, where, and what to do next.

All of them are frozen: code that knows more about an error raises or returns a completed copy
(:meth:`GpubuildError.with_`). All survive pickling, so that a worker's error reaches the user
unchanged, and each knows the exit code of the command line (README, "Exit codes").
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self, TypeVar

from gpubuild.support import text
from gpubuild.support.frozen import frozen

EXIT_STEP_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERNAL = 3
EXIT_INTERRUPTED = 130
NOTHING_DEFINES = "cannot link: nothing defines "  # followed by the symbols

_Error = TypeVar("_Error", bound="GpubuildError")
_WORD = re.compile(r"""[%@#!^]?\w[\w.$-]*|"[^"]*"|'[^']*'|\S""")


@frozen
class Location:
    """A location in a user's file: 1-based line and column, in characters; 0 when unknown.

    A compiler's column counts bytes until the line's text is known (``build.diagnosis``).
    """

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        parts = [self.file]
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)


@frozen
class Diagnostic:
    """One message about one location, with notes.

    ``source_line`` is the text of the line, if it could be read, so that printing a diagnostic needs
    no file. ``about`` is the beginning of what the message is about, at or after the location: MLIR
    has no location for it.
    """

    message: str
    severity: str = "error"  # error | warning | note | remark
    location: Location | None = None
    source_line: str = ""
    notes: tuple[Diagnostic, ...] = ()
    about: str = ""

    @property
    def end_column(self) -> int:
        """The column after the word at the location; 0 when its line or column is unknown."""
        column = self.location.column if self.location else 0
        word = _WORD.match(self.source_line, column - 1) if column else None
        return word.end() + 1 if word else 0

    def render(self) -> str:
        """Return plain text: ``file:line:column: severity: message``, line and caret, then the notes."""
        where = f"{self.location}: " if self.location else ""
        lines = [f"{where}{self.severity}: {self.message}"]
        if self.source_line:
            line, column = text.window(self.source_line, self.location.column if self.location else 0)
            lines.append(f"  {line}")
            if column:
                before = text.visible(line[: column - 1])
                lines.append(f"  {text.padding(before, len(before) + 1)}^")
        lines.extend(note.render() for note in self.notes)
        return text.visible("\n".join(lines))


def _rebuild(cls: type[_Error], fields: dict[str, Any]) -> _Error:
    error = cls.__new__(cls, fields["message"])
    error.__dict__.update(fields)
    return error


class GpubuildError(Exception):
    """Base of all expected failures. ``hint`` says what to do next, ``code`` names the kind of error."""

    exit_code = EXIT_STEP_FAILED
    code = "internal"  # docs/reference/errors.md lists the codes, which never change
    message: str
    hint: str

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.__dict__.update(message=message, hint=hint)

    def __setattr__(self, name: str, value: object) -> None:
        # Python itself sets __traceback__, __cause__ and the like.
        if not name.startswith("__"):
            raise AttributeError(f"errors are frozen: use with_({name}=...)")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"errors are frozen: cannot delete {name}")

    def with_(self, **changes: Any) -> Self:  # noqa: ANN401 - fields have different types
        """Return a copy with ``changes`` of its fields, and the traceback, cause and context of this one.

        Raises ``TypeError`` for a name that is no field.
        """
        if unknown := changes.keys() - self.__dict__.keys():
            raise TypeError(f"{type(self).__name__} has no field {min(unknown)}")
        copy = _rebuild(type(self), self.__dict__ | changes)
        copy.__traceback__ = self.__traceback__
        copy.__context__ = self.__context__
        copy.__cause__ = self.__cause__
        copy.__suppress_context__ = self.__suppress_context__
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions with keyword-only arguments do not unpickle by default, which would turn a
        # compile error in a worker into a broken pool.
        return (_rebuild, (type(self), self.__dict__.copy()))

    def render(self) -> str:
        """Return plain text without a final newline; its only control characters are newlines and tabs."""
        return text.visible(self.message + (f"\n  hint: {self.hint}" if self.hint else ""))


class UsageError(GpubuildError):
    """A wrong command line, or a request that cannot be carried out."""

    exit_code = EXIT_USAGE
    code = "usage"


class ConfigError(GpubuildError):
    """All errors in targets.yaml, in file order."""

    exit_code = EXIT_USAGE
    code = "config"
    problems: tuple[Diagnostic, ...]

    def __init__(self, problems: Iterable[Diagnostic], *, hint: str = "") -> None:
        listed = tuple(problems)
        super().__init__("\n".join(p.render() for p in listed), hint=hint)
        self.__dict__.update(problems=listed)


class WorkspaceError(UsageError):
    """The project file is a workspace; ``files`` are those of its projects."""

    code = "workspace"
    files: tuple[Path, ...]

    def __init__(self, message: str, *, hint: str = "", files: Iterable[Path] = ()) -> None:
        super().__init__(message, hint=hint)
        self.__dict__.update(files=tuple(files))


class ToolNotFoundError(GpubuildError):
    """A tool or a device library that a step needs is not on this machine."""

    exit_code = EXIT_USAGE
    code = "missing-tool"


class StepError(GpubuildError):
    """A step failed: bad IR, an unknown chip, a refused instruction.

    The engine raises it with the fields that it knows; ``build.diagnosis`` fills in those from
    ``step_id`` on.
    """

    code = "step"
    stage: str
    diagnostics: tuple[Diagnostic, ...]
    output: str  # what an external tool or LLVM printed
    kernel: str  # the kernel or other function of the first diagnostic
    step_id: str
    program: str
    module: str
    target: str
    other_targets: tuple[str, ...]  # with the same error, if shown together
    reproduce: str  # a command that reproduces the failure

    def __init__(
        self,
        message: str,
        *,
        stage: str = "",
        diagnostics: Iterable[Diagnostic] = (),
        output: str = "",
        kernel: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, hint=hint)
        self.__dict__.update(
            stage=stage,
            diagnostics=tuple(diagnostics),
            output=output,
            kernel=kernel,
            step_id="",
            program="",
            module="",
            target="",
            other_targets=(),
            reproduce="",
        )

    def render(self) -> str:
        """Return message, location, diagnostics with carets, tool output, hint and reproducer."""
        where = ", ".join(
            f"{label} {text.one_line(value)}"
            for label, value in (
                ("programs" if ", " in self.program else "program", self.program),
                ("module", f"@{self.module}" if self.module else ""),
                ("kernel", f"@{self.kernel}" if self.kernel else ""),
                (
                    "targets" if self.other_targets else "target",
                    ", ".join((self.target, *self.other_targets)),
                ),
                ("stage", self.stage),
            )
            if value
        )
        lines = [self.message + (f" ({where})" if where else "")]
        lines.extend(d.render() for d in self.diagnostics)
        if self.output.strip():
            lines.extend("  | " + line for line in self.output.strip().splitlines())
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        if self.reproduce:
            lines.append(f"  reproduce: {self.reproduce}")
        return text.visible("\n".join(lines))


class StepCrashedError(StepError):
    """The worker died: segmentation fault, LLVM abort, out of memory, time-out."""

    code = "crash"


class StepKilledError(StepCrashedError):
    """The worker was killed from outside, most likely because memory ran out."""

    code = "killed"


class NoRoomError(StepError):
    """The disk is full or a quota is reached: not the step's fault, and nothing to reproduce."""

    code = "no-room"


class InputChangedError(StepError):
    """A file changed between planning the step and running it; nothing was stored."""

    code = "input-changed"


class InterruptedBuildError(GpubuildError):
    """Ctrl-C or SIGTERM. Running steps were stopped; no incomplete output was kept."""

    exit_code = EXIT_INTERRUPTED
    code = "interrupted"
