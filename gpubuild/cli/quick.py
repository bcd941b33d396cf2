"""Quick: ``gpubuild build`` when there is nothing to do, answered from the receipt of the last build.

Imports next to nothing and writes what the whole command would. Whatever is out of the ordinary,
be it an unusual argument, is left to the whole command: ``None`` says so.
"""

from __future__ import annotations

import os
import re
import sys
import time

from gpubuild import environment
from gpubuild.build import null_build
from gpubuild.cli.options import FLAG, OPTIONS, PROJECT_FILE, WORDS
from gpubuild.support.text import one_line, shown_path, visible

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from typing import TextIO

_NAMED = {spelling: (name, row[1]) for name, row in OPTIONS.items() for spelling in row[0]}
_ALWAYS_WORK = {"dry_run", "dump_ir", "trace"}
_STATUS = "up-to-date"
_LOCATED = r".*?:\d+(:\d+)?: warning: "  # as in cli.console


def answer(arguments: list[str]) -> tuple[str, str] | None:
    """What ``gpubuild build`` with these arguments writes to stdout and stderr; ``None``: ask it."""
    try:
        began = time.monotonic()
        options = parse(arguments)
        if options is None or environment.malformed():
            return None
        given = options.get("file", [PROJECT_FILE])[0]
        file = os.path.abspath(given)
        if ".." in given and os.path.realpath(file) != os.path.realpath(given):
            return None
        build_dir = os.path.join(os.path.dirname(file), "build")
        if "build_dir" in options:
            build_dir = os.path.join(os.getcwd(), options["build_dir"][0])
        request = null_build.request_of(
            file, build_dir, options.get("programs", []), options.get("targets", [])
        )
        found = null_build.read(null_build.path_for(request))
        if found is None or not found.proves(request):
            return None
        if _takes_color(sys.stderr) and any(re.match(_LOCATED, message) for message in found.warnings):
            return None  # places have colours of their own
        return _report(options, found, began)
    except Exception:  # anything at all: the whole command knows better
        return None


def parse(arguments: list[str]) -> dict[str, list[str]] | None:
    """The values of each option that is there, by its name in the table; those of flags are empty.

    ``None``, which is to ask the whole parser, for what is not spelt in full and what may be an error.
    """
    found: dict[str, list[str]] = {}
    words = iter(arguments)
    name = ""
    for word in words:
        spelling, equals, value = word.partition("=")
        if word[:2] == "-j" and word[2:].isdigit():
            spelling, equals, value = "--jobs", "=", word[2:]
        before = name
        name, takes = _NAMED.get(spelling, ("programs", ""))
        if not takes:
            if not word or word[0] == "-" or (name in found and name != before):
                return None  # programs in two places are an error
            value = word
        elif equals and (takes == FLAG or spelling[:2] != "--"):
            return None
        elif takes != FLAG:
            value = value if equals else next(words, "")
            if not value or value[0] == "-":
                return None
        found.setdefault(name, []).append(value)
    for name, values in found.items():
        takes = OPTIONS[name][1] if name in OPTIONS else WORDS
        most = len(set(values)) if takes == WORDS else 1
        if name in _ALWAYS_WORK or (takes != FLAG and len(values) > most):
            return None
    jobs, build_dir = found.get("jobs", ["1"])[0], found.get("build_dir", ["."])[0]
    if not (jobs.isascii() and jobs.isdigit() and 1 <= int(jobs) <= 4096):
        return None
    return found if build_dir == os.path.normpath(build_dir) else None  # a/../b is b where a is no link


def _report(options: dict[str, list[str]], found: null_build.Receipt, began: float) -> tuple[str, str]:
    out, err = "", ""
    for message in (*environment.misspelt(), *found.warnings):
        located = re.match(_LOCATED, message)
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
        made = visible(", ".join(files[:3]))
        out += f"{steps}: {found.steps} up to date in {seconds:.1f} s → {made}{more}\n"
    return out, err


def _document(found: null_build.Receipt, seconds: float) -> str:
    from pathlib import Path

    from gpubuild.cli.json_document import build_document, dump
    from gpubuild.model.result import BuildReport, Status, StepReport
    from gpubuild.model.step import StepKind

    steps = tuple(
        StepReport(
            id=step_id, kind=StepKind(kind), program="", module=module, target=target,
            status=Status.UP_TO_DATE, outputs=tuple(map(Path, outputs)),
        )
        for step_id, kind, module, target, outputs in found.show()["steps"]
    )  # fmt: skip
    made = {name: Path(path) for name, path in found.programs}
    report = BuildReport(steps=steps, executables=made, seconds=seconds)
    return dump(build_document(report, made, shown_path)) + "\n"


def _paint(text: str, code: str, stream: TextIO) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if _takes_color(stream) else text


def _takes_color(stream: TextIO) -> bool:
    color = environment.color()
    return stream.isatty() if color is None else color
