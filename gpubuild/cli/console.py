"""Console: the two streams a command writes to, and whether they take colour.

Failures: when the errors of a build are shown, and which of them together.

What is wrong with a kernel is most often wrong for each of its targets. The errors of a gpu.module
therefore wait until the last of its targets was tried, and those that say the same are shown once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from gpubuild.errors import ConfigError, GpubuildError, InterruptedBuildError, UsageError
from gpubuild.model.events import Event, PlanGrew, StepFinished
from gpubuild.model.result import BuildReport, StepReport
from gpubuild.model.step import StepKind
from gpubuild.settings import Settings
from gpubuild.support import text as columns
from gpubuild.support.frozen import frozen
from gpubuild.support.text import one_line, shown_path

_CODES = {"bold": "1", "red": "31;1", "green": "32", "yellow": "33", "cyan": "36", "dim": "2"}
# The parts of GpubuildError.render() that are worth finding at a glance.
_MARKS = (
    (r"(?m)^(\S[^\n]*?:\d+(?::\d+)?): (error|warning|note|remark):", "place"),
    (r"(?m)^( +)(hint|reproduce):", "label"),
    (r"(?m)^(\s+)(\^)$", "caret"),
)
# `cli.quick` has the same.
LOCATED = r".*?:\d+(:\d+)?: warning: "
# Begins a style: names and lines of files, which cannot know it, are never taken for one.
_STYLE = f"\x1b{os.urandom(8).hex()}"
_SEVERITY = {"error": "red", "warning": "yellow", "note": "cyan", "remark": "cyan"}


def paint(text: str, style: str, *, on: bool) -> str:
    """``text`` in a style (bold, red, green, yellow, cyan, dim) when ``on``, for ``Console`` to write."""
    return f"{_STYLE}{_CODES[style]}m{text}{_STYLE}0m" if on else text


def to_terminal(text: str) -> str:
    """``text`` with the styles of ``paint`` and no other control characters but newlines and tabs."""
    return "\x1b[".join(map(columns.visible, text.split(_STYLE)))


@frozen
class Console:
    """Where results (``out``) and complaints (``err``) go. ``quiet`` keeps progress from being shown."""

    out: TextIO
    err: TextIO
    color_out: bool = False
    color_err: bool = False
    quiet: bool = False
    verbose: bool = False

    @staticmethod
    def standard(settings: Settings, *, quiet: bool = False, verbose: bool = False) -> Console:
        """The process's own streams. NO_COLOR and FORCE_COLOR overrule what the terminal says."""

        def takes_color(stream: TextIO) -> bool:
            return stream.isatty() if settings.color is None else settings.color

        return Console(
            out=sys.stdout,
            err=sys.stderr,
            color_out=takes_color(sys.stdout),
            color_err=takes_color(sys.stderr),
            quiet=quiet,
            verbose=verbose,
        )

    def print(self, text: str = "") -> None:
        """A line of result."""
        self.write(text + "\n")

    def write(self, text: str, *, to_err: bool = False) -> None:
        """All that goes to the streams goes through here."""
        (self.err if to_err else self.out).write(to_terminal(text))

    def save(self, path: Path, text: str) -> None:
        """A result that goes into a file, and a line that says so. Raises ``UsageError``."""
        try:
            path.write_text(text, encoding="utf-8", errors="surrogateescape")  # bytes of paths unchanged
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        if not self.quiet:
            self.print(f"wrote {shown_path(path.absolute())}")

    def error(self, error: GpubuildError) -> None:
        """An error as the user should see it."""
        text = error.render()
        # Mistakes in a file say "error:" themselves, after the place, as compilers do; Ctrl-C is none.
        if not isinstance(error, (ConfigError, InterruptedBuildError)):
            text = paint("error:", "red", on=self.color_err) + " " + text
        self._complain(colored(text) if self.color_err else text)

    def warning(self, message: str) -> None:
        """Something that does not stop the command. With a place it has the form of compilers' messages."""
        if is_located(message):
            self._complain(colored(message) if self.color_err else message)
        else:
            self._complain(paint("warning:", "yellow", on=self.color_err) + " " + message)

    def note(self, message: str) -> None:
        """A remark beside the result."""
        self._complain(message)

    def _complain(self, text: str) -> None:
        # Earlier output must precede the message when both go to one place.
        with suppress(OSError):  # `main` flushes again and reports it; the complaint comes first
            self.out.flush()
        self.write(text + "\n", to_err=True)
        self.err.flush()


def is_located(warning: str) -> bool:
    """Whether a step's warning begins with its place and says itself what it is."""
    return bool(re.match(LOCATED, warning))


def labelled(line: str, *, on: bool) -> str:
    """``failed: …`` or ``hint: …`` with the label in colour when ``on``."""
    label, colon, rest = line.partition(":")
    style = {"failed": "red", "hint": "cyan"}.get(label)
    return paint(label + colon, style, on=on) + rest if style else line


def colored(text: str) -> str:
    """The text of a rendered error with its places bold, severities coloured and labels dim."""

    def place(found: re.Match[str]) -> str:
        where = paint(f"{found[1]}:", "bold", on=True)
        return f"{where} {paint(f'{found[2]}:', _SEVERITY[found[2]], on=True)}"

    for pattern, what in _MARKS:
        if what == "place":
            text = re.sub(pattern, place, text)
        elif what == "label":
            text = re.sub(pattern, lambda m: m[1] + paint(f"{m[2]}:", "cyan", on=True), text)
        else:
            text = re.sub(pattern, lambda m: m[1] + paint(m[2], "green", on=True), text)
    return text


_NAMED = 3  # steps, or gpu.modules
_SCANS = (StepKind.OUTLINE, StepKind.PREPROCESS)


class Failures:
    """Takes every event of a build and gives out errors in the form to show."""

    def __init__(self) -> None:
        self._order: dict[str, int] = {}  # of the plan: the same mistakes give the same text
        self._open: dict[tuple[str, str], set[str]] = {}  # by program and module: compile steps to come
        self._held: dict[tuple[str, str], list[StepReport]] = {}
        self._told: set[str] = set()

    def note(self, event: Event) -> list[GpubuildError]:
        """The errors to be shown now that ``event`` has happened."""
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
        """What is still held back: the build has ended, in whatever way."""
        return [error for module in list(self._held) for error in self._release(module)]

    def _release(self, module: tuple[str, str]) -> list[GpubuildError]:
        reports = sorted(self._held.pop(module, []), key=lambda r: self._order.get(r.id, 0))
        if not reports:
            return []
        from gpubuild.build.diagnosis import grouped  # for failures only

        return self._new(grouped(r.error for r in reports if r.error is not None))

    def _new(self, errors: Iterable[GpubuildError]) -> list[GpubuildError]:
        """Errors that say more than earlier ones: a tool is missing once, not for every step."""
        found = []
        for error in errors:
            text = error.render()
            if text not in self._told:
                self._told.add(text)
                found.append(error)
        return found


def closing_lines(report: BuildReport, *, programs: int) -> list[str]:
    """What failed, and what was left undone because of it; of a build that was asked for ``programs``."""
    lines = []
    if report.failed:
        lines.append(f"failed: {_listed(report.failed)}")
    if report.stopped:
        lines.append(f"hint: -k also builds skipped independent steps: {_listed(report.stopped)}")
    elif programs > 1 and report.failed and all(step.kind in _SCANS for step in report.steps):
        lines.append("hint: no program was built: -k builds those without failed steps")
    return lines


def _listed(steps: Sequence[StepReport]) -> str:
    """``app/compile/k/{sm_60,cpu}, app/link and 4 more``: a gpu.module's targets together."""
    groups: dict[str, list[StepReport]] = {}
    for step in steps:
        compiled = step.kind is StepKind.COMPILE
        groups.setdefault(step.id.removesuffix(step.target) if compiled else step.id, []).append(step)
    named = list(groups.items())[:_NAMED]
    left = len(steps) - sum(len(group) for _, group in named)
    texts = [
        f"{begin}{{{','.join(s.target for s in group)}}}" if len(group) > 1 else group[0].id
        for begin, group in named
    ]
    return one_line(", ".join(texts)) + (f" and {left} more" if left else "")
