"""Compile preprocessed C and C++ text to objects, and gpubuild's runtime to an archive.

Preprocessing is a step of its own, so that the key of the compilation covers exactly the text that the
compiler reads. Without ``debug`` the text has no line markers (unless code asks for its line), so
comments, paths and unused parts of headers cannot reach it. Locations of errors are lost with them, so a
compilation with messages is repeated on the user's own file, for these messages only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from gpubuild.engine.cc import preprocess
from gpubuild.engine.cc.driver import COMMON_FLAGS, first_lines, messages, run_driver
from gpubuild.engine.ir import step_io
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.digest import digest_bytes, digest_file
from gpubuild.model.project import language_arguments
from gpubuild.model.step import CcParams, PreprocessParams, RuntimeParams
from gpubuild.toolchain.run import ToolRun
from gpubuild.toolchain.runtime_library import compile_archive


def run(params: PreprocessParams | CcParams | RuntimeParams, io: StepIO) -> None:
    """Run one C step. Raises ``StepError`` with diagnostics in the user's own files."""
    match params:
        case PreprocessParams():
            preprocess.run(params, io)
        case CcParams():
            _compile(params, io)
        case RuntimeParams():
            _archive_runtime(params, io)


def _compile(params: CcParams, io: StepIO) -> None:
    cxx = params.language == "c++"
    tool = "cxx" if cxx else "cc"
    flags = language_arguments(params.std, tuple(map(_tolerant, params.flags)))
    with io.stage("compile"):
        # A fixed name and folder, so that no paths get into the object.
        text = io.copy_in("text", "source.ii" if cxx else "source.i")
        made = run_driver(
            io,
            tool,
            [
                "-c", f"-O{params.opt_level}", *COMMON_FLAGS, "-g" if params.debug else "-g0",
                f"-ffile-prefix-map={io.scratch}=.", *flags, "-o", "source.o", text.name,
            ],
        )  # fmt: skip
        found, refused = _messages(params, io, tool, made) if made.stderr.strip() else ((), False)
        if made.returncode < 0:
            made.check(f"compiling {params.source_name or 'the C source'}")
        if made.returncode or refused:
            errors = tuple(m for m in found if m.severity == "error")
            raise StepError(
                f"cannot compile {params.source_name or 'the C source'}",
                diagnostics=errors,
                output="" if errors else first_lines(made.stderr),
                hint="" if errors else preprocess.flags_hint(params),
            )
        warnings = [message for message in found if message.severity == "warning"]
        for message in warnings:
            io.warn(message.render())
        if warnings:
            _discover_locations(params, io, warnings)
        if step_io.mentions(text.read_bytes()):
            # Names can consist of several string literals, which the compiler joins.
            run_driver(io, tool, ["-S", *COMMON_FLAGS, *flags, "-o", "source.s", text.name])
            step_io.discover((io.scratch / "source.s").read_bytes(), io)
        io.write("object", (io.scratch / "source.o").read_bytes())


def _discover_locations(params: CcParams, io: StepIO, warnings: Sequence[Diagnostic]) -> None:
    """Record the files of warnings: an added comment changes the lines that these name.

    With flags about warnings, ``source`` and ``deps`` are in the key.
    """
    if not io.has("source") or io.has("deps"):
        return
    source = io.path("source")
    io.discover(source, digest_bytes(io.read("source")))
    root, _ = preprocess.split_root(source, params.source_name)
    noted = [note for warning in warnings for note in (warning, *warning.notes)]
    for file in sorted({root / note.location.file for note in noted if note.location} - {source}):
        with suppress(OSError):  # a name from a `#line`
            io.discover(file, digest_file(file))


def _tolerant(flag: str) -> str:
    """Return a flag without its effect on warnings becoming errors.

    Preprocessed text has warnings that the user's file does not have.
    """
    if flag == "-pedantic-errors":
        return "-pedantic"
    return re.sub(r"-Werror(=|$)", lambda found: "-W" if found[1] else "-Wno-error", flag)


def _messages(params: CcParams, io: StepIO, tool: str, made: ToolRun) -> tuple[tuple[Diagnostic, ...], bool]:
    """Return messages about the user's own file, else about the preprocessed text.

    And whether the compiler refuses the user's file, where warnings can be errors.
    """
    located: tuple[Diagnostic, ...] = ()
    if io.has("source"):
        root, name = preprocess.split_root(io.path("source"), params.source_name)
        options = preprocess.user_options(params)
        # Not -fsyntax-only, with which zig fails because there is no object.
        again = run_driver(io, tool, [*options, "-c", "-o", io.scratch / "again.o", name], cwd=root)
        located = messages(again.stderr, root)
        if any(message.severity == "warning" for message in located):
            # Warnings of the preprocessor were reported when it ran.
            reported = run_driver(io, tool, [*options, "-E", "-o", io.scratch / "again.i", name], cwd=root)
            before = messages(reported.stderr, root)
            located = tuple(message for message in located if message not in before)
        # Without line markers, warnings of system headers seem to be the user's.
        if made.returncode == 0 or any(m.severity == "error" for m in located):
            return located, again.returncode > 0
    return (*located, *messages(made.stderr, io.scratch)), False


def _archive_runtime(params: RuntimeParams, io: StepIO) -> None:
    """Write ``archive``: the input of that name, else compiled from the inputs. Raises ``StepError``.

    The names of sources are relative to the runtime's folder, as in ``#include``.
    """
    if io.has("archive"):
        io.write("archive", io.read("archive"))
        return
    folder = io.scratch / "runtime"
    for name in io.input_names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        io.copy_in(name, f"runtime/{name}")
    with io.stage("compile runtime"):
        made = compile_archive(
            folder,
            io.input_names,
            params.opt_level,
            lambda tool, words: run_driver(io, tool, words, cwd=folder),
        )
        io.write("archive", made)
