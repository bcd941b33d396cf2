"""The streams that a command writes to, colours, and errors of builds.

Most errors of a kernel occur for each of its targets. The errors of a gpu.module therefore wait until all
of its targets have been tried, and equal ones are shown once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from gpubuild.errors import ConfigError, GpubuildError, InterruptedBuildError, UsageError
from gpubuild.model.events import Event, PlanGrew, StepFinished
from gpubuild.model.result import BuildReport, StepReport
from gpubuild.model.step import StepKind
from gpubuild.settings import Settings
from gpubuild.support import text as columns
from gpubuild.support.files import UserFile
from gpubuild.support.frozen import frozen
from gpubuild.support.text import LOCATED, one_line, shown_path

if TYPE_CHECKING:
    from gpubuild.cli.messages import Messages

_CODES = {"bold": "1", "red": "31;1", "green": "32", "yellow": "33", "cyan": "36", "dim": "2"}
# Lines of GpubuildError.render() that have colours.
_LOCATION = r"(?m)^(\S[^\n]*?:\d+(?::\d+)?:) (error|warning|note|remark):"
_LABEL = r"(?m)^( +)(hint:|reproduce:)"
_CARET = r"(?m)^(\s+)(\^)$"
# Marks a style. It is random, so that no text of a file can contain it.
_STYLE = f"\x1b{os.urandom(8).hex()}"
_SEVERITY = {"error": "red", "warning": "yellow", "note": "cyan", "remark": "cyan"}


def paint(text: str, style: str, *, on: bool) -> str:
    """Return ``text`` in a style (a key of ``_CODES``) if ``on``, for ``Console`` to write."""
    return f"{_STYLE}{_CODES[style]}m{text}{_STYLE}0m" if on else text


def to_terminal(text: str) -> str:
    """Return ``text`` with escape codes for the styles of ``paint``, and no other control characters."""
    return "\x1b[".join(map(columns.visible, text.split(_STYLE)))


@frozen
class Console:
    """The streams of results (``out``) and of messages (``err``). ``quiet`` hides progress.

    ``messages`` writes errors and warnings in a second form (``--message-format``).
    """

    out: TextIO
    err: TextIO
    color_out: bool = False
    color_err: bool = False
    quiet: bool = False
    verbose: bool = False
    messages: Messages | None = None

    @staticmethod
    def standard(
        settings: Settings,
        *,
        quiet: bool = False,
        verbose: bool = False,
        messages: Messages | None = None,
    ) -> Console:
        """Return the console of this process. NO_COLOR and FORCE_COLOR override the terminal."""

        def takes_color(stream: TextIO) -> bool:
            return stream.isatty() if settings.color is None else settings.color

        return Console(
            out=sys.stdout,
            err=sys.stderr,
            color_out=takes_color(sys.stdout),
            color_err=takes_color(sys.stderr),
            quiet=quiet,
            verbose=verbose,
            messages=messages,
        )

    def print(self, text: str = "") -> None:
        """Write a line of the result."""
        self.write(text + "\n")

    def write(self, text: str, *, to_err: bool = False) -> None:
        """Write to a stream."""
        (self.err if to_err else self.out).write(to_terminal(text))

    def save(self, path: Path, text: str) -> None:
        """Write a result to a file and print its name. Raises ``UsageError``."""
        try:
            with UserFile(path) as name:  # bytes of paths unchanged
                Path(name).write_text(text, encoding="utf-8", errors="surrogateescape")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        if not self.quiet:
            self.print(f"wrote {shown_path(path.absolute())}")

    def error(self, error: GpubuildError) -> None:
        """Write an error."""
        text = error.render()
        # Errors in a file have "error:" after the location, as those of compilers; Ctrl-C is none.
        if not isinstance(error, (ConfigError, InterruptedBuildError)):
            text = paint("error:", "red", on=self.color_err) + " " + text
        self._write_err(colored(text) if self.color_err else text)
        if self.messages is not None:
            self.messages.error(error)

    def warning(self, message: str) -> None:
        """Write a warning; with a location it has the form of compiler messages."""
        if is_located(message):
            self._write_err(colored(message) if self.color_err else message)
        else:
            self._write_err(paint("warning:", "yellow", on=self.color_err) + " " + message)
        if self.messages is not None:
            self.messages.warning(message)

    def note(self, message: str) -> None:
        """Write a remark."""
        self._write_err(message)

    def _write_err(self, text: str) -> None:
        # Earlier output must precede the message when both go to one terminal or file.
        with suppress(OSError):  # `main` flushes again and reports it
            self.out.flush()
        self.write(text + "\n", to_err=True)
        self.err.flush()


def is_located(warning: str) -> bool:
    """Return whether a warning of a step begins with its location and ``warning:``."""
    return bool(re.match(LOCATED, warning))


def labelled(line: str, *, on: bool) -> str:
    """Return ``failed: …`` or ``hint: …`` with a coloured label if ``on``."""
    label, colon, rest = line.partition(":")
    style = {"failed": "red", "hint": "cyan"}.get(label)
    return paint(label + colon, style, on=on) + rest if style else line


def colored(text: str) -> str:
    """Return a rendered error with coloured locations, severities, labels and carets."""

    def location(found: re.Match[str]) -> str:
        severity = paint(f"{found[2]}:", _SEVERITY[found[2]], on=True)
        return f"{paint(found[1], 'bold', on=True)} {severity}"

    text = re.sub(_LOCATION, location, text)
    text = re.sub(_LABEL, lambda found: found[1] + paint(found[2], "cyan", on=True), text)
    return re.sub(_CARET, lambda found: found[1] + paint(found[2], "green", on=True), text)


_MOST_NAMED = 3  # steps, or gpu.modules
_SCANS = (StepKind.GENERATE, StepKind.OUTLINE, StepKind.PREPROCESS)


class Failures:
    """Collect the errors of a build from its events."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}  # of the plan: equal errors give equal texts
        self._open: dict[tuple[str, str], set[str]] = {}  # compile steps still to come, by program and module
        self._held: dict[tuple[str, str], list[StepReport]] = {}
        self._shown: set[str] = set()

    def note(self, event: Event) -> list[GpubuildError]:
        """Return the errors to show after ``event``."""
        if isinstance(event, PlanGrew):
            for number, waiting in enumerate(event.waiting.values()):
                self._order.setdefault(waiting.id, number)
                if waiting.kind is StepKind.COMPILE:
                    self._open.setdefault((waiting.program, waiting.module), set()).add(waiting.id)
        if not isinstance(event, StepFinished):
            return []
        report = event.report
        if report.kind is not StepKind.COMPILE:
            return self._new([report.error] if report.error is not None else [])
        module = (report.program, report.module)
        if report.error is not None:
            self._held.setdefault(module, []).append(report)
        awaited = self._open.get(module, set())
        awaited.discard(report.id)
        return [] if awaited else self._release(module)

    def rest(self) -> list[GpubuildError]:
        """Return the errors not yet shown when the build has ended."""
        return [error for module in list(self._held) for error in self._release(module)]

    def _release(self, module: tuple[str, str]) -> list[GpubuildError]:
        reports = sorted(self._held.pop(module, []), key=lambda r: self._order.get(r.id, 0))
        if not reports:
            return []
        from gpubuild.build.diagnosis import grouped  # slow to import

        return self._new(grouped(r.error for r in reports if r.error is not None))

    def _new(self, errors: Iterable[GpubuildError]) -> list[GpubuildError]:
        """Return the errors that were not shown before: a missing tool fails many steps."""
        found = []
        for error in errors:
            text = error.render()
            if text not in self._shown:
                self._shown.add(text)
                found.append(error)
        return found


def closing_lines(report: BuildReport, *, programs: int) -> list[str]:
    """Return lines that list failed steps and those that were not tried. ``programs`` were requested."""
    lines = []
    if report.failed:
        lines.append(f"failed: {_listed(report.failed)}")
    if report.stopped:
        lines.append(f"hint: -k also builds skipped independent steps: {_listed(report.stopped)}")
    elif programs > 1 and report.failed and all(step.kind in _SCANS for step in report.steps):
        lines.append("hint: no program was built: -k builds those without failed steps")
    return lines


def _listed(steps: Sequence[StepReport]) -> str:
    """Return ``app/compile/k/{sm_60,cpu}, app/link and 4 more``, with the targets of a module grouped."""
    groups: dict[str, list[StepReport]] = {}
    for step in steps:
        compiled = step.kind is StepKind.COMPILE
        groups.setdefault(step.id.removesuffix(step.target) if compiled else step.id, []).append(step)
    named = list(groups.items())[:_MOST_NAMED]
    left = len(steps) - sum(len(group) for _, group in named)
    texts = [
        f"{begin}{{{','.join(s.target for s in group)}}}" if len(group) > 1 else group[0].id
        for begin, group in named
    ]
    return one_line(", ".join(texts)) + (f" and {left} more" if left else "")
