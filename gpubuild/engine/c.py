"""C: compile preprocessed C and C++ text to objects.

Preprocessing and compiling are two steps so that the key of the second covers exactly what the
compiler sees. Preprocessed text has no line markers (without ``debug``): comments, paths and
unused parts of headers cannot reach it. What is lost with them is where a mistake lies, so a
compilation that has something to say is repeated on the user's own file, for its messages only.
"""

from __future__ import annotations

from pathlib import Path

from gpubuild.engine import assembly_reads, preprocess, runtime_library
from gpubuild.engine.c_messages import parse_messages
from gpubuild.engine.driver import first_lines, run_driver
from gpubuild.engine.io import StepIO
from gpubuild.errors import Diagnostic, StepError
from gpubuild.model.params import CcParams, PreprocessParams, RuntimeParams
from gpubuild.toolchain.run import ToolRun

# `zig cc` would add its sanitizer to unoptimised code and debug information to all of it.
COMMON_FLAGS = ("-fPIC", "-frandom-seed=0", "-fno-sanitize=undefined")


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
    with io.stage("compile"):
        # A fixed name and folder: neither the user's paths nor ours can get into the object.
        text = io.copy_in("text", "source.ii" if cxx else "source.i")
        made = run_driver(
            io,
            tool,
            [
                "-c", f"-O{params.opt_level}", *COMMON_FLAGS, *debug_flags(params.debug),
                f"-ffile-prefix-map={io.scratch}=.", *params.flags, "-o", "source.o", text.name,
            ],
        )  # fmt: skip
        messages = _messages(params, io, tool, made) if made.stderr.strip() else ()
        for message in messages:
            if message.severity == "warning":
                io.warn(message.render())
        if made.returncode < 0:
            made.check(f"compiling {params.source_name or 'the C source'}")
        if made.returncode:
            errors = tuple(m for m in messages if m.severity == "error")
            raise StepError(
                f"cannot compile {params.source_name or 'the C source'}",
                diagnostics=errors,
                output="" if errors else first_lines(made.stderr),
            )
        if assembly_reads.mentions(text.read_bytes()):
            # Names may be put together of several texts; the compiler's own assembly has them whole.
            run_driver(io, tool, ["-S", *COMMON_FLAGS, *params.flags, "-o", "source.s", text.name])
            assembly_reads.discover((io.scratch / "source.s").read_bytes(), io)
        io.write("object", (io.scratch / "source.o").read_bytes())


def _messages(params: CcParams, io: StepIO, tool: str, made: ToolRun) -> tuple[Diagnostic, ...]:
    """What the compiler says about the user's own file, else about the preprocessed text."""
    located: tuple[Diagnostic, ...] = ()
    if io.has("source"):
        root, name = preprocess.split_root(io.path("source"), params.source_name)
        again = run_driver(
            io,
            tool,
            # Not -fsyntax-only: zig fails over the object that is not there then.
            [
                "-x", params.language, "-c", f"-O{params.opt_level}", *params.flags,
                "-o", io.scratch / "again.o", name,
            ],
            cwd=root,
        )  # fmt: skip
        located = _parse(again.stderr, root)
        # Without line markers a compiler takes system headers for the user's code: a warning that
        # the user's file does not give is not the user's.
        if made.returncode == 0 or any(m.severity == "error" for m in located):
            return located
    return (*located, *_parse(made.stderr, io.scratch))


def _parse(stderr: bytes, folder: Path) -> tuple[Diagnostic, ...]:
    return parse_messages(
        stderr.decode(errors="replace"),
        source_line=lambda file, line: preprocess.line_of(folder / file, line),
    )
