"""The rows of docs/reference/coverage.md that were right in the emulator, in ``record.json``.

Its ``chips`` have the ``date``, the ``emulator`` and the rows that it ``lacks``; ``right`` has by chips the
rows that were right on them, each with the digest of its text (``NAME:DIGEST``).
"""

from __future__ import annotations

import datetime
import functools
import json
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from kernels.program import Program

from gpubuild.model.digest import digest_bytes

FILE = Path(__file__).with_name("record.json")
RIGHT = "right"
_DIGITS = 12


@functools.cache
def read() -> dict[str, dict]:
    """Return by chip: ``date``, ``emulator``, by row the digest that was ``right``, and what it ``lacks``."""
    if not FILE.exists():
        return {}
    kept = json.loads(FILE.read_text())
    found = {chip: {**entry, "right": {}} for chip, entry in kept["chips"].items()}
    for chips, lines in kept["right"].items():
        rows = dict(row.split(":") for line in lines for row in line.split())
        for chip in chips.split():
            found[chip]["right"].update(rows)
    return found


def write(chip: str, emulator: str, outcomes: Mapping[str, str], programs: Iterable[Program]) -> None:
    """Replace the entry of ``chip``. ``outcomes``: ``right``, or what the emulator lacks."""
    texts = {program.name: _text(program) for program in programs}
    entry = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "emulator": emulator,
        "right": {name: texts[name] for name, said in outcomes.items() if said == RIGHT},
        "lacks": {name: said for name, said in outcomes.items() if said != RIGHT},
    }
    _write({**read(), chip: entry})
    read.cache_clear()


def _write(entries: Mapping[str, Mapping]) -> None:
    chips_of = defaultdict(list)
    for chip, entry in sorted(entries.items()):
        for name, digest in entry["right"].items():
            chips_of[f"{name}:{digest}"].append(chip)
    right = defaultdict(list)
    for row, chips in sorted(chips_of.items()):
        right[" ".join(chips)].append(row)
    document = {
        "chips": {chip: {k: v for k, v in entry.items() if k != "right"} for chip, entry in entries.items()},
        "right": {
            chips: textwrap.wrap(" ".join(rows), 100, break_long_words=False, break_on_hyphens=False)
            for chips, rows in right.items()
        },
    }
    FILE.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def is_right(program: Program, chip: str) -> bool:
    """Whether machine code of this row, as its text is now, was executed and gave what NumPy gives."""
    return read().get(chip, {}).get("right", {}).get(program.name) == _text(program)


def _text(program: Program) -> str:
    return digest_bytes(program.text().encode())[:_DIGITS]
