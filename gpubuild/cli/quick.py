"""``gpubuild build`` with nothing to do, answered from the receipt of the last build.

Its output is that of the whole command, which also gets every request that is in any way unusual. It
imports next to nothing, which is why the table of options is here: argparse loads slower than all of it.
"""

from __future__ import annotations

import os
import re
import sys
import time

from gpubuild import environment
from gpubuild.build import null_build
from gpubuild.support.text import LOCATED, one_line, shown_path, visible

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

FLAG, TEXT, PATH, NUMBER = "flag", "text", "path", "number"
FORM, WORD, WORDS = "form", "word", "words"  # words: may be repeated
PROJECT_FILE = "targets.yaml"
PROFILE = r"[A-Za-z0-9_][A-Za-z0-9._-]*"

# Options of `build` by attribute: spellings, kind of value, name of the value in help, help.
OPTIONS = {
    "quiet": (("-q", "--quiet"), FLAG, "", "show errors, warnings and results only"),
    "verbose": (("-v", "--verbose"), FLAG, "", "also list steps that had nothing to do"),
    "file": (
        ("-f", "--file"),
        PATH,
        "FILE",
        f"the project file (default: {PROJECT_FILE} here or in a folder above)",
    ),
    "build_dir": (
        ("--build-dir",),
        PATH,
        "DIR",
        "build folder (default: build, beside the project file)",
    ),
    "profile": (("--profile",), WORD, "NAME", "merge the keys of this profile; builds into build-NAME"),
    "assignments": (
        ("--set",),
        WORDS,
        "KEY=VALUE",
        "set a key of targets.yaml, such as defaults.debug=true; may be repeated",
    ),
    "defines": (
        ("-D", "--define"),
        WORDS,
        "NAME[=VALUE]",
        "define a macro of C sources, ${NAME} in passes, a constant of MLIR sources; may be repeated",
    ),
    "jobs": (("-j", "--jobs"), NUMBER, "N", "run N steps at once (default: the number of CPUs)"),
    "targets": (
        ("-t", "--target"),
        WORDS,
        "TARGET",
        "compile kernels for this target only, listed or not; may be repeated",
    ),
    "cache_dir": (("--cache-dir",), PATH, "DIR", "the cache folder (default: the project's or yours)"),
    "no_cache": (("--no-cache",), FLAG, "", "neither read nor write the cache"),
    "keep_going": (("-k", "--keep-going"), FLAG, "", "after a failure, continue with independent steps"),
    "dump_ir": (("--dump-ir",), PATH, "DIR", "write the IR after every stage; cached steps run again"),
    "executor": (
        ("--executor",),
        TEXT,
        "WHERE",
        "run compile steps here (local) or there (dask:ADDRESS)",
    ),
    "no_fallback": (("--no-fallback",), FLAG, "", "fail where no worker of the cluster can run a step"),
    "insecure_remote": (("--insecure-remote",), FLAG, "", "allow a cluster without encryption"),
    "message_format": (
        ("--message-format",),
        FORM,
        "FORMAT",
        "also write errors and warnings as annotations (github) or to a file (sarif:FILE); default: text",
    ),
    "trace": (("--trace",), PATH, "FILE", "write a timeline of the steps for Perfetto or Chrome"),
    "dry_run": (("-n", "--dry-run"), FLAG, "", "list what would be done; compile nothing"),
    "explain": (("--explain",), FLAG, "", "list every step with its status and reason"),
    "json": (("--json",), FLAG, "", "print one JSON document on stdout and nothing else"),
}

_NAMED = {spelling: (name, row[1]) for name, row in OPTIONS.items() for spelling in row[0]}
_NOT_QUICK = {"dump_ir", "message_format", "trace"}
_STATUS = "up-to-date"


def answer(arguments: list[str]) -> tuple[str, str] | None:
    """Return what ``gpubuild build`` writes to stdout and stderr; ``None`` if the whole command must run."""
    try:
        began = time.monotonic()
        options = parse(arguments)
        if options is None or environment.malformed():
            return None
        given = options["file"][0] if "file" in options else find_project()
        file = os.path.abspath(given)
        if ".." in given and os.path.realpath(file) != os.path.realpath(given):
            return None
        profile = options.get("profile", [""])[0]
        build_dir = os.path.join(os.path.dirname(file), f"build-{profile}" if profile else "build")
        if "build_dir" in options:
            build_dir = os.path.join(os.getcwd(), options["build_dir"][0])
        request = null_build.request_of(
            file,
            build_dir,
            options.get("programs", []),
            options.get("targets", []),
            (profile, options.get("assignments", []), options.get("defines", [])),
        )
        found = null_build.read(null_build.path_for(request))
        if found is None:
            return None
        if not found.proves(request, writes="dry_run" not in options):
            if found.edited.endswith((".mlir", ".mlirbc")):
                _load_mlir(options)
            return None
        if _takes_color(sys.stderr) and any(re.match(LOCATED, message) for message in found.warnings):
            return None  # the whole command colours locations
        out, err = _report(options, found, began)
        searched = "file" not in options and "quiet" not in options
        return out, (using(given) if searched else "") + err
    except Exception:  # of any kind: the whole command reports it
        return None


def _load_mlir(options: dict[str, list[str]]) -> None:
    """Let another process load MLIR while this one plans: unless the cache has its outline, it will run."""
    from gpubuild.execute.local import start_early
    from gpubuild.settings import Settings

    jobs = int(options["jobs"][0]) if "jobs" in options else Settings.from_environ().jobs
    start_early(jobs or len(os.sched_getaffinity(0)))


def find_project() -> str:
    """Return the project file of this folder, or of the nearest one above that has one.

    The search ends at the home folder, at the border of a file system and at a folder that all users can
    write to, such as /tmp.
    """
    folder, up = os.getcwd(), ""
    ends = (os.path.realpath(environment.home()), "/")
    device = os.stat(folder).st_dev
    while not os.path.exists(os.path.join(folder, PROJECT_FILE)):
        above = os.path.dirname(folder)
        found = os.stat(above)
        if folder in ends or above in ends or found.st_dev != device or found.st_mode & 0o002:
            return PROJECT_FILE
        folder, up = above, f"../{up}"
    return up + PROJECT_FILE


def using(file: str) -> str:
    """Return the line that names a project file in a folder above; nothing for one in this folder."""
    return "" if file == PROJECT_FILE else f"project: {visible(file)}\n"


def parse(arguments: list[str]) -> dict[str, list[str]] | None:
    """Return the values of each given option by its name in the table.

    ``None`` for options that are not spelt in full and for what may be an error: argparse decides.
    """
    found: dict[str, list[str]] = {}
    words = _words(arguments)
    name = ""
    for word in words:
        spelling, equals, value = word.partition("=")
        before = name
        name, kind = _NAMED.get(spelling, ("programs", ""))
        if not kind:
            if not word or word[0] == "-" or (name in found and name != before):
                return None  # programs in two places are an error
            value = word
        elif equals and (kind == FLAG or spelling[:2] != "--"):
            return None
        elif kind != FLAG:
            value = value if equals else next(words, "")
            if not value or value[0] == "-":
                return None
        found.setdefault(name, []).append(value)
    for name, values in found.items():
        kind = OPTIONS[name][1] if name in OPTIONS else WORDS
        most = len(set(values)) if kind == WORDS else 1
        if name in _NOT_QUICK or (kind != FLAG and len(values) > most):
            return None
    if not re.fullmatch(PROFILE, found.get("profile", ["_"])[0]):
        return None
    jobs, build_dir = found.get("jobs", ["1"])[0], found.get("build_dir", ["."])[0]
    if not (jobs.isascii() and jobs.isdigit() and 1 <= int(jobs) <= 4096):
        return None
    return found if build_dir == os.path.normpath(build_dir) else None  # a/../b is b where a is no link


def _words(arguments: list[str]) -> Iterator[str]:
    """Yield the arguments, with ``-j2`` as two."""
    for word in arguments:
        if word[2:3] not in ("", "=") and _NAMED.get(word[:2], ("", FLAG))[1] != FLAG:
            yield from (word[:2], word[2:])
        else:
            yield word


def _report(options: dict[str, list[str]], found: null_build.Receipt, began: float) -> tuple[str, str]:
    out, err = "", ""
    for message in (*environment.misspelt(), *found.warnings):
        located = re.match(LOCATED, message)
        err += ("" if located else _paint("warning:", "33", sys.stderr) + " ") + visible(message) + "\n"
    if "explain" in options or ("verbose" in options and "quiet" not in options):
        stream = sys.stderr if "json" in options else sys.stdout
        mark = _paint(_STATUS, "2", stream)
        lines = "".join(f"{mark}  {one_line(step[0])}\n" for step in found.show()["steps"])
        if "json" in options:
            err += lines
        else:
            out += lines
    seconds = time.monotonic() - began
    if "json" in options:
        out += visible(_document(found, seconds))
    elif "quiet" not in options:
        files = [shown_path(path) for _, path in found.programs]
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        steps = f"{found.steps} step{'' if found.steps == 1 else 's'}"
        made = "" if "dry_run" in options else f" → {visible(', '.join(files[:3]))}{more}"
        out += f"{steps}: {found.steps} up to date in {seconds:.1f} s{made}\n"
    return out, err


def _document(found: null_build.Receipt, seconds: float) -> str:
    from gpubuild.cli import json_document

    steps = [
        json_document.step(step_id, kind, module, target, _STATUS, map(shown_path, outputs))
        for step_id, kind, module, target, outputs in found.show()["steps"]
    ]
    programs = {name: shown_path(path) for name, path in found.programs}
    warnings = list(map(json_document.warning, found.warnings))
    counts = {_STATUS: len(steps)}
    document = json_document.build(programs, steps, counts, seconds=seconds, warnings=warnings)
    return json_document.dump(document) + "\n"


def _paint(text: str, code: str, stream: TextIO) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if _takes_color(stream) else text


def _takes_color(stream: TextIO) -> bool:
    color = environment.color()
    return stream.isatty() if color is None else color
