"""Quick: ``gpubuild build`` when there is nothing to do, answered from the receipt of the last build.

Imports next to nothing and writes what the whole command would. Whatever is out of the ordinary,
be it an unusual argument, is left to the whole command: ``None`` says so.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time

from gpubuild import environment
from gpubuild.build import null_build

TYPE_CHECKING = False  # typing's own costs an import
if TYPE_CHECKING:
    from typing import TextIO

_FLAGS = {
    "-q": "quiet",
    "--quiet": "quiet",
    "-v": "verbose",
    "--verbose": "verbose",
    "-k": "keep_going",
    "--keep-going": "keep_going",
    "--explain": "explain",
    "--json": "json",
    "--no-cache": "no_cache",
}
_VALUES = {
    "-f": "file",
    "--file": "file",
    "--build-dir": "build_dir",
    "-j": "jobs",
    "--jobs": "jobs",
    "-t": "targets",
    "--target": "targets",
    "--cache-dir": "cache_dir",
}
_STATUS = "up-to-date"
_LOCATED = r".*?:\d+(:\d+)?: warning: "  # as in cli.console


class Options:
    """The arguments of ``build`` that matter when there is nothing to do."""

    def __init__(self) -> None:
        self.programs: list[str] = []
        self.targets: list[str] = []
        self.file = "targets.yaml"
        self.build_dir = ""
        self.flags: set[str] = set()


def answer(arguments: list[str]) -> tuple[str, str] | None:
    """What ``gpubuild build`` with these arguments writes to stdout and stderr; ``None``: ask it."""
    try:
        began = time.monotonic()
        options = parse(arguments)
        if options is None or environment.malformed():
            return None
        file = os.path.abspath(options.file)
        if ".." in options.file and os.path.realpath(file) != os.path.realpath(options.file):
            return None
        build_dir = os.path.join(os.path.dirname(file), "build")
        if options.build_dir:
            build_dir = os.path.join(os.getcwd(), options.build_dir)
        request = null_build.request_of(file, build_dir, options.programs, options.targets)
        found = null_build.read(null_build.path_for(request))
        if found is None or not found.proves(request):
            return None
        if _takes_color(sys.stderr) and any(re.match(_LOCATED, message) for message in found.warnings):
            return None  # places have colours of their own
        return _report(options, found, began)
    except Exception:  # anything at all: the whole command knows better
        return None


def parse(arguments: list[str]) -> Options | None:
    """Read arguments as the whole parser would; ``None`` for what it may refuse or read otherwise."""
    options = Options()
    values: dict[str, str] = {}
    previous = ""
    rest = iter(arguments)
    for argument in rest:
        name, separator, value = argument.partition("=")
        if argument in _FLAGS:
            options.flags.add(_FLAGS[argument])
        elif argument in _VALUES or (separator and name.startswith("--") and name in _VALUES):
            what = _VALUES[name]
            if not separator:
                value = next(rest, "")
            if not value or value.startswith("-") or what in values:
                return None
            if what == "targets":
                options.targets.append(value)
            else:
                values[what] = value
        elif argument.startswith("-j") and "jobs" not in values:
            values["jobs"] = argument[2:]
        elif argument.startswith("-") or not argument:
            return None
        elif options.programs and previous != options.programs[-1]:
            return None  # programs in two places: an error
        else:
            options.programs.append(argument)
        previous = argument
    jobs = values.get("jobs", "1")
    if not (jobs.isascii() and jobs.isdigit() and 1 <= int(jobs) <= 4096):
        return None
    if any(len(set(names)) < len(names) for names in (options.programs, options.targets)):
        return None
    options.file = values.get("file", options.file)
    options.build_dir = values.get("build_dir", "")
    if options.build_dir != os.path.normpath(options.build_dir or ".") and options.build_dir:
        return None  # `a/../b` is `b` only where a is no link
    return options


def _report(options: Options, found: null_build.Receipt, began: float) -> tuple[str, str]:
    flags = options.flags
    out, err = "", ""
    for message in (*environment.misspelt(), *found.warnings):
        located = re.match(_LOCATED, message)
        err += (message if located else _paint("warning:", "33", sys.stderr) + f" {message}") + "\n"
    if _lists_steps(flags):
        stream = sys.stderr if "json" in flags else sys.stdout
        mark = _paint(_STATUS, "2", stream)
        lines = "".join(f"{mark}  {step[0]}\n" for step in found.show()["steps"])
        if "json" in flags:
            err += lines
        else:
            out += lines
    seconds = time.monotonic() - began
    if "json" in flags:
        out += _document(found, seconds)
    elif "quiet" not in flags:
        files = [shown(path) for _, path in found.programs]
        more = f" and {len(files) - 3} more" if len(files) > 3 else ""
        steps = f"{found.steps} step{'' if found.steps == 1 else 's'}"
        out += f"{steps}: {found.steps} up to date in {seconds:.1f} s → {', '.join(files[:3])}{more}\n"
    return out, err


def _lists_steps(flags: set[str]) -> bool:
    return "explain" in flags or ("verbose" in flags and "quiet" not in flags)


def _document(found: null_build.Receipt, seconds: float) -> str:
    """The text of ``cli.json_document``'s document. Its encoder would take half of the time we have."""
    quote = json.JSONEncoder(ensure_ascii=False).encode

    def text_or_null(text: str) -> str:
        return quote(text) if text else "null"

    programs = ",\n".join(
        f'    {{\n      "name": {quote(name)},\n      "executable": {quote(shown(path))}\n    }}'
        for name, path in found.programs
    )
    steps = []
    for step_id, kind, module, target, outputs in found.show()["steps"]:
        listed = ",\n".join(f"        {quote(shown(path))}" for path in outputs)
        steps.append(
            f'    {{\n      "id": {quote(step_id)},\n      "kind": "{kind}",\n'
            f'      "module": {text_or_null(module)},\n      "target": {text_or_null(target)},\n'
            f'      "status": "{_STATUS}",\n      "reason": "",\n      "seconds": 0.0,\n'
            f'      "outputs": [\n{listed}\n      ]\n    }}'
        )
    counts = "".join(
        f'    "{status}": {found.steps if status == _STATUS else 0},\n'
        for status in (
            "ran",
            "hit-local",
            "hit-remote",
            _STATUS,
            "failed",
            "skipped",
            "would-run",
            "would-hit",
        )
    )
    return (
        f'{{\n  "schema": 1,\n  "programs": [\n{programs}\n  ],\n  "steps": [\n'
        + ",\n".join(steps)
        + f'\n  ],\n  "summary": {{\n    "ok": true,\n    "steps": {found.steps},\n{counts}'
        f'    "seconds": {round(seconds, 3)},\n    "saved_seconds": 0.0,\n    "warnings": [],\n'
        '    "hit_rate": null,\n    "note": ""\n  }\n}\n'
    )


def shown(path: str) -> str:
    """``path`` relative to the current folder when it lies below it."""
    return path.removeprefix(os.getcwd().rstrip("/") + "/")


def _paint(text: str, code: str, stream: TextIO) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if _takes_color(stream) else text


def _takes_color(stream: TextIO) -> bool:
    color = environment.color()
    return stream.isatty() if color is None else color
