"""Errors and warnings for CI services: annotations of GitHub, and SARIF 2.1.0 (docs/reference/cli.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gpubuild import __version__, environment
from gpubuild.errors import (
    ConfigError,
    Diagnostic,
    GpubuildError,
    InterruptedBuildError,
    Location,
    StepError,
    UsageError,
)
from gpubuild.support.files import UserFile
from gpubuild.support.frozen import frozen, replace
from gpubuild.support.text import LOCATED, visible

GITHUB, SARIF = "github", "sarif:"  # followed by a file
_WARNING = "warning"  # the code of all warnings
_NOTE = re.compile(r"(\S.*?:\d+(?::\d+)?): note: (.*)")
_LEVELS = {"error": "error", "warning": "warning"}  # others are notes


def requested(arguments: list[str], write: Callable[[str], object]) -> Messages | None:
    """Return what ``--message-format`` requests; needed before the arguments are parsed."""
    form = ""
    for number, word in enumerate(arguments):
        if word == "--":
            break
        if word == "--message-format":
            form = "".join(arguments[number + 1 : number + 2])
        elif word.startswith("--message-format="):
            form = word.partition("=")[2]
    return Messages(form, write) if form == GITHUB or re.match(f"{SARIF}.", form) else None


@frozen
class Message:
    """A diagnostic with its title (the error that it belongs to) and the code of that error."""

    code: str
    title: str
    diagnostic: Diagnostic
    hint: str = ""

    @property
    def text(self) -> str:
        """The message with its notes and the hint."""
        lines = [self.diagnostic.message]
        lines += [f"{note.location or 'note'}: {note.message}" for note in self.diagnostic.notes]
        return "\n".join(lines + ([f"hint: {self.hint}"] if self.hint else []))


def of_error(error: GpubuildError) -> list[Message]:
    """Return a message for each diagnostic of an error; one for an error without any."""
    if isinstance(error, ConfigError):
        return [Message(code=error.code, title="", diagnostic=one, hint=error.hint) for one in error.problems]
    found = list(error.diagnostics) if isinstance(error, StepError) else []
    whole = Diagnostic(message=error.message)
    if isinstance(error, StepError) and error.output.strip():
        whole = Diagnostic(message=f"{error.message}\n{error.output.strip()}")
    if not any(one.severity == "error" for one in found):
        # Notes alone show where to look: the first of them is the location of the error.
        whole = replace(whole, location=found[0].location if found else None, notes=tuple(found))
        return [Message(code=error.code, title=error.message, diagnostic=whole, hint=error.hint)]
    return [
        Message(code=error.code, title=error.message, diagnostic=one, hint=error.hint)
        for one in found
        if one.severity in _LEVELS
    ]


def of_warning(text: str) -> Message:
    """Return the message of a warning, which is text with its location in front or without any."""
    first, *rest = text.splitlines() or [""]
    message = text
    location: Location | None = None
    notes: tuple[Diagnostic, ...] = ()
    if re.match(LOCATED, first):
        before, _, message = first.partition(": warning: ")
        location = _location_of(before)
        found = map(_NOTE.fullmatch, rest)
        notes = tuple(
            Diagnostic(message=note[2], severity="note", location=_location_of(note[1]))
            for note in found
            if note
        )
    one = Diagnostic(message=message, severity=_WARNING, location=location, notes=notes)
    return Message(code=_WARNING, title="", diagnostic=one)


def _location_of(text: str) -> Location:
    found = re.fullmatch(r"(.*?):(\d+)(?::(\d+))?", text)
    return (
        Location(file=found[1], line=int(found[2]), column=int(found[3] or 0))
        if found
        else Location(file=text)
    )


def annotation(message: Message) -> str:
    """Return the workflow command of GitHub that shows a message beside its line."""
    one = message.diagnostic
    values: dict[str, object] = {}
    if one.location and one.location.line:
        values["file"] = _in_workspace(one.location.file)
        values["line"] = one.location.line
        if one.location.column:
            values["col"] = one.location.column
        if one.end_column:
            values["endColumn"] = one.end_column
    values["title"] = ": ".join(["gpubuild", *message.title.splitlines()[:1]])
    shown = ",".join(f"{name}={_escaped(str(value), ':,')}" for name, value in values.items())
    return f"::{_LEVELS.get(one.severity, 'notice')} {shown}::{_escaped(message.text)}"


def _escaped(text: str, more: str = "") -> str:
    for character in "%\r\n" + more:  # % first
        text = text.replace(character, f"%{ord(character):02X}")
    return text


def _in_workspace(file: str) -> str:
    """Return a path relative to the checkout of a GitHub job, which may not be the current folder."""
    workspace = environment.github_workspace()
    path = Path.cwd() / file
    if workspace and path.is_relative_to(workspace):
        return str(path.relative_to(workspace))
    return file


def sarif(messages: list[Message]) -> dict[str, Any]:
    """Return the SARIF document of a command."""
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "gpubuild",
                        "version": __version__,
                        "rules": [{"id": code} for code in dict.fromkeys(m.code for m in messages)],
                    }
                },
                "columnKind": "unicodeCodePoints",
                # Services refuse results without a location.
                "results": [_result(message) for message in messages if message.diagnostic.location],
                "invocations": [
                    {
                        "executionSuccessful": all(m.code == _WARNING for m in messages),
                        "toolExecutionNotifications": [
                            _notification(message) for message in messages if not message.diagnostic.location
                        ],
                    }
                ],
            }
        ],
    }


def _result(message: Message) -> dict[str, Any]:
    one = message.diagnostic
    related = [
        _location(note.location, note.end_column) | {"message": {"text": note.message}}
        for note in one.notes
        if note.location
    ]
    return {
        "ruleId": message.code,
        **_content(message),
        "locations": [_location(one.location, one.end_column)] if one.location else [],
        **({"relatedLocations": related} if related else {}),
    }


def _notification(message: Message) -> dict[str, Any]:
    return {"descriptor": {"id": message.code}, **_content(message)}


def _content(message: Message) -> dict[str, Any]:
    one = message.diagnostic
    title = "" if message.title in ("", one.message) else f"{message.title}\n"
    return {"level": _LEVELS.get(one.severity, "note"), "message": {"text": title + message.text}}


def _location(where: Location, end_column: int) -> dict[str, Any]:
    region = {"startLine": where.line, "startColumn": where.column, "endColumn": end_column}
    found: dict[str, Any] = {"artifactLocation": {"uri": quote(where.file, errors="surrogateescape")}}
    if where.line:
        found["region"] = {name: value for name, value in region.items() if value}
    return {"physicalLocation": found}


class Messages:
    """Write the errors and warnings of a command in a second form, besides the text."""

    def __init__(self, form: str, write: Callable[[str], object]) -> None:
        self._file = Path(form.removeprefix(SARIF)) if form.startswith(SARIF) else None
        self._write = write
        self._found: dict[tuple[str, Diagnostic], Message] = {}

    def error(self, error: GpubuildError) -> None:
        """Add an error."""
        if not isinstance(error, InterruptedBuildError):
            for message in of_error(error):
                self._add(message)

    def warning(self, text: str) -> None:
        """Add a warning."""
        self._add(of_warning(text))

    def _add(self, message: Message) -> None:
        key = (message.code, message.diagnostic)
        if key not in self._found:
            self._found[key] = message
            if self._file is None:
                self._write(visible(annotation(message)) + "\n")

    def finish(self) -> None:
        """Write the document. Raises ``UsageError``."""
        if self._file is None:
            return
        text = json.dumps(sarif(list(self._found.values())), indent=2)
        try:
            with UserFile(self._file) as name:
                Path(name).write_text(text + "\n", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"cannot write {self._file}: {error.strerror}") from error
