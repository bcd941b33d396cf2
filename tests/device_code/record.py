"""Record: which rows were right in the emulator, kept beside the tests for docs/coverage.md."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from op_coverage.program import Program

from gpubuild.model.digest import digest_bytes

FILE = Path(__file__).with_name("record.json")
RIGHT = "right"
_DIGITS = 12


@functools.cache
def read() -> dict[str, dict]:
    """By chip: ``date``, ``emulator``, by row the text that was ``right``, and what it ``lacks``."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def write(chip: str, emulator: str, outcomes: Mapping[str, str], programs: Iterable[Program]) -> None:
    """Replace what was known of ``chip``. ``outcomes``: ``right``, or what the emulator lacks."""
    texts = {program.name: _text(program) for program in programs}
    entry = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "emulator": emulator,
        "right": {name: texts[name] for name, said in sorted(outcomes.items()) if said == RIGHT},
        "lacks": {name: said for name, said in sorted(outcomes.items()) if said != RIGHT},
    }
    FILE.write_text(json.dumps({**read(), chip: entry}, indent=1, sort_keys=True) + "\n")
    read.cache_clear()


def is_right(program: Program, chip: str) -> bool:
    """Whether machine code of this row, as its text is now, was executed and gave what NumPy gives."""
    return read().get(chip, {}).get("right", {}).get(program.name) == _text(program)


def _text(program: Program) -> str:
    return digest_bytes(program.text().encode())[:_DIGITS]
