"""Run the C preprocessor on a source and record the files that it read."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path, PurePath

from gpubuild.engine.cc.driver import COMMON_FLAGS, first_lines, messages, run_driver
from gpubuild.engine.ir.step_io import StepIO
from gpubuild.errors import InputChangedError, StepError
from gpubuild.model.digest import Digest, digest_bytes, digest_file
from gpubuild.model.project import language_arguments, search_arguments
from gpubuild.model.step import CcParams, PreprocessParams
from gpubuild.support.frozen import frozen

# A backslash escapes a blank, a hash or itself before one; `$$` is a dollar.
_TOKEN = re.compile(r"(?:\\[ \t#]|\\(?!\r?\n)|\$\$|[^\s\\])+")
_ESCAPE = re.compile(r"\\([ \t#])|\$(\$)")


def parse_depfile(text: str) -> list[str]:
    """Return the prerequisites of the first rule, in order. Raises ``ValueError`` if there is no rule."""
    first = re.split(r"(?<!\\)\r?\n", text.lstrip(), maxsplit=1)[0]
    _, colon, rest = first.partition(":")
    if not colon:
        raise ValueError("a dependency file without a rule")
    names = (_ESCAPE.sub(lambda m: m[1] or m[2], token) for token in _TOKEN.findall(rest))
    return list(dict.fromkeys(names))


_LINE_MARKER = re.compile(r'^(# \d+ ")((?:[^"\\\n]|\\.)*)(".*)$', re.MULTILINE)
# Warnings about options: "clang: warning: …", "cc1: warning: …", "warning: …".
_ABOUT_OPTIONS = re.compile(r"(?:[^\s:]+: )?warning: (?!argument unused)(.*)")
# The compiler computes these (and std::source_location) from the line markers in the text.
_NEEDS_LINES = re.compile(rb"__builtin_(?:LINE|FILE|FILE_NAME|COLUMN|source_location)\b")
# Flags for sanitizers and debug information, which contain locations.
_LOCATION_FLAGS = ("-fsanitize", "-g")
# With -O `zig cc` leaves assertions out and refuses `__DATE__`, for which there is SOURCE_DATE_EPOCH.
# `__TIMESTAMP__` is the time of the file, which differs between checkouts.
_EQUAL_EVERYWHERE = (
    *("-UNDEBUG", "-Wno-date-time", "-Wno-builtin-macro-redefined"),
    '-D__TIMESTAMP__="Thu Jan  1 00:00:00 1970"',
)
_MOST_RUNS = 5


@frozen
class _Run:
    text: bytes
    files: dict[str, Digest]  # that were read, by their names in the compiler's list
    warnings: tuple[str, ...]
    undisturbed: bool  # no file changed after the compiler started


def run(params: PreprocessParams, io: StepIO) -> None:
    """Write ``text`` and ``deps``, and record every header read.

    The compiler runs in the project's folder with the source's relative name, so that `__FILE__`,
    `#include "…"` and line markers are as usual and equal in every checkout.
    Raises ``StepError`` with locations in the user's files.
    """
    with io.stage("preprocess"):
        source = digest_bytes(io.read("source"))
        root, name = split_root(io.path("source"), params.source_name)
        markers = params.debug or any(flag.startswith(_LOCATION_FLAGS) for flag in params.flags)
        last = _preprocess(params, io, root, name, markers=markers)
        if not markers and _NEEDS_LINES.search(last.text):
            markers = True
            last = _preprocess(params, io, root, name, markers=True)
        for _ in range(_MOST_RUNS - 1):
            if last.undisturbed:
                break
            # A header saved between being read and being digested would be recorded with another
            # content than the text has. Clocks of file systems differ, so two equal runs decide.
            before, last = last, _preprocess(params, io, root, name, markers=markers)
            if (before.text, before.files) == (last.text, last.files):
                break
        else:
            raise InputChangedError(
                f"{name} or a file it includes keeps changing", hint="build again; nothing was stored"
            )
        own = {name, name.removeprefix("./")}  # gcc lists it without
        if not any(last.files.get(spelt) == source for spelt in own):
            raise InputChangedError(
                f"{io.path('source')} changed while the build was running",
                hint="build again; nothing was stored",
            )
        io.write("text", last.text)
        for warning in last.warnings:
            io.warn(warning)
        files = dict(sorted(last.files.items()))
        io.write("deps", json.dumps(files, indent=1, ensure_ascii=False) + "\n")
        for file, digest in sorted(last.files.items()):
            if file not in own:
                io.discover((root / file).absolute(), digest)


def split_root(source: Path, source_name: str) -> tuple[Path, str]:
    """Return the folder to run in, and the name of ``source`` there.

    That is ``source_name`` for a source in the project, with `./` before a name like an option.
    """
    folder, name, shown = source.parent, source.name, PurePath(source_name)
    if source_name and not shown.is_absolute() and source.parts[-len(shown.parts) :] == shown.parts:
        folder, name = Path(*source.parts[: -len(shown.parts)]), source_name
    return folder, f"./{name}" if name.startswith("-") else name


def _preprocess(params: PreprocessParams, io: StepIO, root: Path, name: str, *, markers: bool) -> _Run:
    text_file, depfile = io.scratch / f"text{params.suffix}", io.scratch / "deps.d"
    depfile.write_bytes(b"")
    # Times of files are those of the last clock tick, which is earlier than time.time_ns().
    started = min(depfile.stat().st_ctime_ns, time.time_ns())
    tool = "cxx" if params.language == "c++" else "cc"
    # `-MT`: a target without blanks or colons.
    made = run_driver(
        io,
        tool,
        [
            *user_options(params), "-E", *(() if markers else ("-P",)), "-MD", "-MF", depfile, "-MT", "text",
            "-o", text_file, name,
        ],
        cwd=root,
    )  # fmt: skip
    if made.returncode < 0:
        made.check(f"preprocessing {name}")
    found = messages(made.stderr, root)
    if made.returncode:
        errors = [m for m in found if m.severity == "error"]
        raise StepError(
            f"cannot preprocess {name}",
            diagnostics=errors,
            output="" if errors else first_lines(made.stderr),
            hint=_include_hint(errors[0].message) if errors else flags_hint(params),
        )
    files: dict[str, Digest] = {}
    undisturbed = True
    for file in parse_depfile(depfile.read_text(errors="surrogateescape")):
        path = root / file
        try:
            files[file] = digest_file(path)
            undisturbed &= path.stat().st_ctime_ns < started
        except OSError as error:
            raise InputChangedError(
                f"{file} was read by {name} and cannot be read again: {error.strerror}",
                hint="build again; nothing was stored",
            ) from error
    text = text_file.read_bytes()
    if markers:
        text = _portable_markers(text, root, io.tool(tool)[0])
    warnings = (
        *(_about_options(made.stderr) if params.flags else ()),
        *(message.render() for message in found if message.severity == "warning"),
    )
    return _Run(text=text, files=files, warnings=warnings, undisturbed=undisturbed)


def _about_options(stderr: bytes) -> list[str]:
    """Return warnings about options, which have no location."""
    found = map(_ABOUT_OPTIONS.fullmatch, stderr.decode(errors="replace").splitlines())
    return [f"`host: flags:` in the project file: {match[1]}" for match in found if match]


def user_options(params: PreprocessParams | CcParams) -> list[str]:
    """Return the options with which the compiler reads the user's own file, in the project's folder."""
    return [
        *("-x", params.language, f"-O{params.opt_level}", *COMMON_FLAGS, *_EQUAL_EVERYWHERE),
        *language_arguments(params.std, params.flags),
        *search_arguments(params.include, params.define),
    ]


def flags_hint(params: PreprocessParams | CcParams) -> str:
    """Return where the user's options are written, for errors without a location."""
    if not (params.flags or params.std):
        return ""
    given = " ".join(language_arguments(params.std, params.flags))
    return f"`host:` in the project file gives these options: {given}"


def _portable_markers(text: bytes, root: Path, compiler: str) -> bytes:
    """Remove the folders of this checkout and of a bundled compiler from line markers."""
    home = f"{PurePath(compiler).parent}/"
    marker = text.decode(errors="surrogateescape")

    def replace(match: re.Match[str]) -> str:
        file = match[2]
        if file.rstrip("/") == str(root):
            file = "."
        elif PurePath(home).name not in ("bin", "") and file.startswith(home):
            file = "/compiler/" + file.removeprefix(home)
        return match[1] + file.removeprefix(f"{root}/") + match[3]

    return _LINE_MARKER.sub(replace, marker).encode(errors="surrogateescape")


def _include_hint(message: str) -> str:
    if "file not found" in message or "No such file" in message:
        return (
            "includes are searched in the folder of the including file, in those listed under "
            "`host: include:` in the project file, and in the system's"
        )
    return ""
