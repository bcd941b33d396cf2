"""Diagnosis: complete an error of a step for the reader.

Workers raise errors with message, stage, tool output and locations. They know files by their roles
only, because paths would reach outputs. Here, and nowhere else, the build adds the rest: program,
module and target of the step; the text of source lines; the user's names of linked files; the
command that reproduces the failure. Equal errors of several targets become one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpubuild.errors import NOTHING_DEFINES, Diagnostic, GpubuildError, Location, NoRoomError, StepError
from gpubuild.model.project import HOST_SUFFIXES
from gpubuild.model.step import CompileParams, OutlineParams, Step, StepKind, pipeline_of
from gpubuild.settings import python_command
from gpubuild.support.frozen import replace
from gpubuild.support.text import nearest, of_byte, shown_path
from gpubuild.targets.registry import vendor
from gpubuild.targets.target import FULL

_LINKED = re.compile(r"\b(object|host|archive)(\d+)\.[oa]\b")
# The name of the text that an object was compiled from.
_TEXT = re.compile(r":?\b(?:source\.i|host\.ll):(?=\(\.)")


def completed(error: GpubuildError, step: Step, *, root: Path, project_file: Path = Path()) -> GpubuildError:
    """Return ``error``, raised for ``step``, completed; paths are relative to ``root``."""
    if not isinstance(error, StepError):
        return error
    files: dict[str, Sequence[str]] = {}
    message, hint = error.message, error.hint
    if pipeline_of(step.params)[0] and "cannot lower" in message:
        message = message.replace("cannot lower", "cannot lower what your pass pipeline left:")
        hint = "add passes that lower it to the LLVM dialect, or leave `passes:` out for gpubuild's own"
    return error.with_(
        message=message,
        hint=hint,
        step_id=step.id,
        program=step.program or ", ".join(step.users),
        module=step.module,
        target=step.target,
        diagnostics=(
            *(_quoted(d, root, files) for d in error.diagnostics),
            *_pipeline_notes(error.stage, step, project_file),
            *_undefined_uses(error, step, root, files),
        ),
        output=_in_users_files(error.output, step, root) if step.kind is StepKind.LINK else error.output,
        reproduce="" if isinstance(error, NoRoomError) else reproducer(step),
    )


def _pipeline_notes(stage: str, step: Step, project_file: Path) -> list[Diagnostic]:
    """Return a note at the pass pipeline in the project file, for an error of the stage that runs it."""
    pipeline, runs_in = pipeline_of(step.params)
    if not pipeline or stage != runs_in:
        return []
    from gpubuild.config.load import find_value  # for failures only

    paths: list[tuple[str, ...]] = []
    match step.params:
        case CompileParams(target=target):
            key = target.kind
            paths.append(("targets", target.name, "passes"))
        case OutlineParams():
            key = "source"
            paths += [("programs", program, "pipeline") for program in (step.program, *step.users)]
        case _:
            key = "host"
    paths += [("programs", program, "passes", key) for program in (step.program, *step.users)]
    notes = (find_value(project_file, path, pipeline, "the pass pipeline") for path in paths)
    return [note for note in notes if note is not None][:1]


def _undefined_uses(
    error: StepError, step: Step, root: Path, files: dict[str, Sequence[str]]
) -> list[Diagnostic]:
    """Return where C and C++ sources first use what nothing defines, for a link that failed."""
    sources = [i.origin for i in step.inputs if i.origin and i.origin.suffix in HOST_SUFFIXES]
    _, listed, names = error.message.partition(NOTHING_DEFINES)
    found: list[Diagnostic] = []
    for name in names.split(", ") if listed else ():
        use = re.compile(rf"\b{re.escape(name.partition('(')[0])}\b")
        for file in (shown_path(path, root) for path in sources):
            lines = files.setdefault(file, _lines(root / file))
            uses = [(n, m.start()) for n, line in enumerate(lines, 1) if (m := use.search(line))]
            if uses:
                where = Location(file=file, line=uses[-1][0], column=uses[-1][1] + 1)
                line = lines[where.line - 1]
                found.append(Diagnostic(message=f"nothing defines {name}", location=where, source_line=line))
                break
    return found


def without_project(error: GpubuildError) -> GpubuildError:
    """Return a completed error of a project that exists for one command only.

    The program's name is not the user's, and the command just given is the reproducer.
    """
    return error.with_(program="", reproduce="") if isinstance(error, StepError) else error


def _in_users_files(output: str, step: Step, root: Path) -> str:
    """Return a linker's output with the user's files in place of numbered objects."""
    names = {}
    for item in step.inputs:
        path = item.origin or (item.path if not item.producer else None)
        if path is not None:
            names[item.name] = shown_path(path, root)

    def users(found: re.Match[str]) -> str:
        return names.get(f"{found[1]}.{found[2]}", found[0])

    return "\n".join(
        _TEXT.sub(lambda m: ":" if m[0][0] == ":" else "", _LINKED.sub(users, line))
        for line in output.splitlines()
    )


_SEARCHED_LINES = 40  # after a location, for what a message is about
_MAX_FILE_BYTES = 16 << 20  # larger files are not quoted


def _quoted(diagnostic: Diagnostic, root: Path, files: dict[str, Sequence[str]]) -> Diagnostic:
    """Name the file relative to ``root``, and fill in an empty ``source_line`` from it."""
    notes = tuple(_quoted(note, root, files) for note in diagnostic.notes)
    line = diagnostic.source_line
    location = diagnostic.location
    if location is not None and location.file.startswith("/"):
        location = replace(location, file=shown_path(Path(location.file), root))
    if not line and location is not None and location.line > 0:
        if location.file not in files:
            files[location.file] = _lines(root / location.file)
        lines = files[location.file]
        line = lines[location.line - 1] if location.line <= len(lines) else ""
        location = replace(location, column=of_byte(line, location.column))
        for number, text in enumerate(lines[location.line - 1 :][:_SEARCHED_LINES], location.line):
            start = location.column - 1 if number == location.line else 0
            if diagnostic.about and (at := text.find(diagnostic.about, max(start, 0))) >= 0:
                location, line = replace(location, line=number, column=at + 1), text
                break
    return replace(diagnostic, location=location, source_line=line, notes=notes)


def _lines(path: Path) -> Sequence[str]:
    try:
        if path.is_file() and path.stat().st_size <= _MAX_FILE_BYTES:
            # Not splitlines(): for compilers, form feed and U+2028 do not end a line.
            text = path.read_bytes().decode("utf-8-sig", errors="replace")
            return [line.rstrip("\r") for line in text.split("\n")]
    except (OSError, ValueError):  # unreadable, or a name that cannot be a path
        pass
    return ()


def missing_input(path: Path, root: Path) -> StepError:
    """Return the error for ``path``, which cannot be read, with the name that was probably meant."""
    name = shown_path(path, root)
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
    hint = "restore the file, or correct its path in targets.yaml"
    try:
        near = nearest(path.name, {p.name for p in path.parent.iterdir()} - {path.name})
    except OSError:
        near = []
        hint = f"the folder {shown_path(path.parent, root)} cannot be read; correct the path in targets.yaml"
    if near:
        hint = f"did you mean {shown_path(path.parent / near[0], root)}?"
    return StepError(f"{name} does not exist or cannot be read", stage="inputs", hint=hint)


def reproducer(step: Step) -> str:
    """Return a command that reproduces a compile step's failure; empty for other kinds of steps."""
    if not isinstance(step.params, CompileParams) or not any(i.name == "located" for i in step.inputs):
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
    command += ["--fast-math"] * target.fast_math
    if target.debug:
        command.append("--debug-full" if target.debug == FULL else "--debug")
    facts = vendor(target.kind)
    implied = facts.with_fast_flags((), fast_math=target.fast_math)
    command += [f"--flag={flag}" for flag in target.flags if flag not in implied]
    if target.abi:
        command.append(f"--abi={target.abi}")
    option = facts.assembler_key.removesuffix("s").replace("_", "-")
    command += [f"--{option}={word}" for word in target.assembler_options]
    if target.passes:
        command.append(f"--passes={target.passes}")
    command += [f"--device-lib={i.path}" for i in step.inputs if i.name.startswith("lib.")]
    return shlex.join(command)


_PLURAL = {"target": "targets", "for": "for"}


def grouped(errors: Iterable[GpubuildError]) -> list[GpubuildError]:
    """Return ``errors`` of one gpu.module in order, those that differ only in the target as one."""
    groups: dict[str, list[GpubuildError]] = {}
    for error in errors:
        groups.setdefault(_without_target(error), []).append(error)
    return [_joined(group) for group in groups.values()]


def _joined(group: list[GpubuildError]) -> GpubuildError:
    first = group[0]
    others = tuple(dict.fromkeys(e.target for e in group[1:] if isinstance(e, StepError)))
    if not isinstance(first, StepError) or not others:
        return first
    all_targets = ", ".join((first.target, *others))
    errors = [error for error in group if isinstance(error, StepError)]
    hints = (_naming(error.target).sub(r"\1", error.hint) for error in errors)
    return first.with_(
        other_targets=others,
        message=_naming(first.target).sub(lambda found: f"{_PLURAL[found[1]]} {all_targets}", first.message),
        stage=", ".join(dict.fromkeys(error.stage for error in errors if error.stage)),
        hint="\n  hint: ".join(filter(None, dict.fromkeys(hints))),
    )


def _without_target(error: GpubuildError) -> str:
    """Return the text of ``error`` without what names or follows from its target."""
    if not isinstance(error, StepError):
        return error.render()
    text = error.with_(target="", stage="", hint="", reproduce="").render()
    return _naming(error.target).sub(r"\1", text) if error.target else text


def _naming(target: str) -> re.Pattern[str]:
    return re.compile(rf"\b(target|for) {re.escape(target)}(?![\w.+-])")
