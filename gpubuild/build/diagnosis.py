"""Alike: errors of several targets that say the same, as one that lists the targets.

Blame: what an error of a step is told on its way to the user: whose it is, how to see it again.

Objects are linked under fixed names, because names reach symbol tables; linkers' messages name the
user's files here.

Quote: give the diagnostics of a failed step the lines of the user's files they point into.

Workers know sources by name only: paths stay out of what they read and write. Who knows the
project's folder adds the text.

Missing: the error of an input that is not there, or cannot be read.

Reproducer: the command that shows the failure of a step again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpubuild.errors import Diagnostic, GpubuildError, NoRoomError, StepError
from gpubuild.model.step import CompileParams, Step, StepKind
from gpubuild.settings import python_command
from gpubuild.support import text as columns
from gpubuild.support.frozen import replace

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


_MAX_FILE_BYTES = 16 << 20  # more is no source that anyone reads by the line


def quote_sources(error: GpubuildError | None, root: Path) -> None:
    """Fill in ``source_line`` where it is empty and the named file, relative to ``root``, has it."""
    if isinstance(error, StepError):
        files: dict[str, Sequence[str]] = {}
        error.diagnostics = tuple(_quoted(d, root, files) for d in error.diagnostics)


def _quoted(diagnostic: Diagnostic, root: Path, files: dict[str, Sequence[str]]) -> Diagnostic:
    notes = tuple(_quoted(note, root, files) for note in diagnostic.notes)
    line = diagnostic.source_line
    place = diagnostic.location
    if not line and place is not None and place.line > 0:
        if place.file not in files:
            files[place.file] = _lines(root / place.file)
        lines = files[place.file]
        line = lines[place.line - 1] if place.line <= len(lines) else ""
        place = replace(place, column=columns.of_byte(line, place.column))
    return replace(diagnostic, location=place, source_line=line, notes=notes)


def _lines(path: Path) -> Sequence[str]:
    try:
        if path.is_file() and path.stat().st_size <= _MAX_FILE_BYTES:
            # Not splitlines(): compilers count no form feed or U+2028 as the end of a line.
            text = path.read_bytes().decode("utf-8-sig", errors="replace")
            return [line.rstrip("\r") for line in text.split("\n")]
    except (OSError, ValueError):  # unreadable, or a name that cannot be a path
        pass
    return ()


def missing_input(path: Path, root: Path) -> StepError:
    """Why ``path`` cannot be read, with what was probably meant; places are told relative to ``root``."""
    name = _shown(path, root)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))  # a pipe would wait for a writer
    except FileNotFoundError:
        pass
    except OSError as error:
        return StepError(
            f"{name} does not exist or cannot be read: {error.strerror}",
            stage="inputs",
            hint="make it readable for yourself" if isinstance(error, PermissionError) else "",
        )
    import difflib  # for mistakes only

    hint = "restore the file, or correct its path in targets.yaml"
    try:
        near = difflib.get_close_matches(path.name, {p.name for p in path.parent.iterdir()} - {path.name}, 1)
    except OSError:
        near = []
        hint = f"the folder {_shown(path.parent, root)} cannot be read; correct the path in targets.yaml"
    if near:
        hint = f"did you mean {_shown(path.parent / near[0], root)}?"
    return StepError(f"{name} does not exist or cannot be read", stage="inputs", hint=hint)


def _shown(path: Path, root: Path) -> str:
    return os.fspath(path.relative_to(root) if path.is_relative_to(root) else path)


def reproducer(step: Step) -> str:
    """A command that shows a compile step's failure again; empty for other kinds of steps."""
    if not isinstance(step.params, CompileParams):
        return ""
    import shlex  # for failures only

    target = step.params.target
    module = next(i.path for i in step.inputs if i.name == "located")
    command = [*python_command(), "compile", str(module), "-t", target.name]
    command += ["--kind", target.kind, "--chip", target.chip, "--emit", "bin", "-o", f"repro.{target.kind}"]
    if target.features:
        command.append(f"--features={target.features}")
    command.append(f"--opt-level={target.opt_level}")
    if target.sanitize:
        command.append(f"--sanitize={','.join(target.sanitize)}")
    command += ["--fast-math"] * target.fast_math + ["--debug"] * target.debug
    if target.passes:
        command.append(f"--passes={target.passes}")
    command += [f"--device-lib={i.path}" for i in step.inputs if i.name.startswith("lib.")]
    return shlex.join(command)


_PLURAL = {"target": "targets", "for": "for"}


def grouped(errors: Iterable[GpubuildError]) -> list[GpubuildError]:
    """``errors`` of one gpu.module, those that are alike but for the target as one, in their order."""
    alike: dict[str, list[GpubuildError]] = {}
    for error in errors:
        alike.setdefault(_without_target(error), []).append(error)
    return [_together(group) for group in alike.values()]


def _together(group: list[GpubuildError]) -> GpubuildError:
    first = group[0]
    others = tuple(dict.fromkeys(e.target for e in group[1:] if isinstance(e, StepError)))
    if not isinstance(first, StepError) or not others:
        return first
    import copy  # for failures only

    shown = copy.copy(first)
    shown.other_targets = others
    everyone = ", ".join((first.target, *others))
    shown.message = _naming(first.target).sub(lambda found: f"{_PLURAL[found[1]]} {everyone}", first.message)
    alike = [error for error in group if isinstance(error, StepError)]
    shown.stage = ", ".join(dict.fromkeys(error.stage for error in alike if error.stage))
    hints = (_naming(error.target).sub(r"\1", error.hint) for error in alike)
    shown.hint = "\n  hint: ".join(filter(None, dict.fromkeys(hints)))
    return shown


def _without_target(error: GpubuildError) -> str:
    """What ``error`` says, whichever target it is about."""
    if not isinstance(error, StepError):
        return error.render()
    import copy  # for failures only

    bare = copy.copy(error)
    bare.target = bare.stage = bare.hint = bare.reproduce = ""
    text = bare.render()
    return _naming(error.target).sub(r"\1", text) if error.target else text


def _naming(target: str) -> re.Pattern[str]:
    return re.compile(rf"\b(target|for) {re.escape(target)}(?![\w.+-])")
