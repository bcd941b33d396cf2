"""C: compile preprocessed C and C++ text to objects.

Preprocessing and compiling are two steps so that the key of the second covers exactly what the
compiler sees. Preprocessed text has no line markers (without ``debug``, and unless it asks what line
it is on): comments, paths and unused parts of headers cannot reach it. What is lost with them is
where a mistake lies, so a compilation that has something to say is repeated on the user's own file,
for its messages only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from gpubuild.engine.cc import preprocess, runtime_library
from gpubuild.engine.cc.driver import COMMON_FLAGS, first_lines, parse_messages, run_driver
from gpubuild.engine.ir import step_io
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.digest import digest_bytes, digest_file
from gpubuild.model.project import language_arguments
from gpubuild.model.step import CcParams, PreprocessParams, RuntimeParams
from gpubuild.toolchain.run import ToolRun


def run(params: PreprocessParams | CcParams | RuntimeParams, io: StepIO) -> None:
    """Run one C step. Raises ``StepError`` with diagnostics in the user's own files."""
    match params:
        case PreprocessParams():
            preprocess.run(params, io)
        case CcParams():
            _compile(params, io)
        case RuntimeParams():
            runtime_library.run(params, io)


def debug_flags(debug: bool) -> tuple[str, ...]:
    """Debug information or none, said aloud: what drivers do by themselves differs."""
    return ("-g",) if debug else ("-g0",)


def _compile(params: CcParams, io: StepIO) -> None:
    cxx = params.language == "c++"
    tool = "cxx" if cxx else "cc"
    flags = language_arguments(params.std, tuple(map(_tolerant, params.flags)))
    with io.stage("compile"):
        # A fixed name and folder: neither the user's paths nor ours can get into the object.
        text = io.copy_in("text", "source.ii" if cxx else "source.i")
        made = run_driver(
            io,
            tool,
            [
                "-c", f"-O{params.opt_level}", *COMMON_FLAGS, *debug_flags(params.debug),
                f"-ffile-prefix-map={io.scratch}=.", *flags, "-o", "source.o", text.name,
            ],
        )  # fmt: skip
        messages, refused = _messages(params, io, tool, made) if made.stderr.strip() else ((), False)
        if made.returncode < 0:
            made.check(f"compiling {params.source_name or 'the C source'}")
        if made.returncode or refused:
            errors = tuple(m for m in messages if m.severity == "error")
            raise StepError(
                f"cannot compile {params.source_name or 'the C source'}",
                diagnostics=errors,
                output="" if errors else first_lines(made.stderr),
                hint="" if errors else preprocess.flags_hint(params),
            )
        warnings = [message for message in messages if message.severity == "warning"]
        for message in warnings:
            io.warn(message.render())
        if warnings:
            _hold_places(params, io, warnings)
        if step_io.mentions(text.read_bytes()):
            # Names may be put together of several texts; the compiler's own assembly has them whole.
            run_driver(io, tool, ["-S", *COMMON_FLAGS, *flags, "-o", "source.s", text.name])
            step_io.discover((io.scratch / "source.s").read_bytes(), io)
        io.write("object", (io.scratch / "source.o").read_bytes())


def _hold_places(params: CcParams, io: StepIO, warnings: Sequence[Diagnostic]) -> None:
    """Have the result count while the warnings' files are as they are: a comment moves their lines.

    Where flags are about warnings, ``source`` and ``deps`` are in the key.
    """
    if not io.has("source") or io.has("deps"):
        return
    source = io.path("source")
    io.discover(source, digest_bytes(io.read("source")))
    root, _ = preprocess.split_root(source, params.source_name)
    noted = [note for warning in warnings for note in (warning, *warning.notes)]
    for file in sorted({root / note.location.file for note in noted if note.location} - {source}):
        with suppress(OSError):  # a name that a `#line` made up
            io.discover(file, digest_file(file))


def _tolerant(flag: str) -> str:
    """A flag for the preprocessed text, where a warning may be none of the user's: it stays a warning."""
    if flag == "-pedantic-errors":
        return "-pedantic"
    return re.sub(r"-Werror(=|$)", lambda found: "-W" if found[1] else "-Wno-error", flag)


def _messages(params: CcParams, io: StepIO, tool: str, made: ToolRun) -> tuple[tuple[Diagnostic, ...], bool]:
    """What the compiler says about the user's own file, else about the preprocessed text.

    And whether it refuses the user's file, as warnings may be errors there.
    """
    located: tuple[Diagnostic, ...] = ()
    if io.has("source"):
        root, name = preprocess.split_root(io.path("source"), params.source_name)
        options = preprocess.as_in_a_build(params)
        # Not -fsyntax-only: zig fails over the object that is not there then.
        again = run_driver(io, tool, [*options, "-c", "-o", io.scratch / "again.o", name], cwd=root)
        located = _parse(again.stderr, root)
        if any(message.severity == "warning" for message in located):
            # What the preprocessor says was told when it ran.
            told = run_driver(io, tool, [*options, "-E", "-o", io.scratch / "again.i", name], cwd=root)
            before = _parse(told.stderr, root)
            located = tuple(message for message in located if message not in before)
        # Without line markers a compiler takes system headers for the user's code: a warning that
        # the user's file does not give is not the user's.
        if made.returncode == 0 or any(m.severity == "error" for m in located):
            return located, again.returncode > 0
    return (*located, *_parse(made.stderr, io.scratch)), False


def _parse(stderr: bytes, folder: Path) -> tuple[Diagnostic, ...]:
    return parse_messages(
        stderr.decode(errors="replace"),
        source_line=lambda file, line: preprocess.line_of(folder / file, line),
    )
