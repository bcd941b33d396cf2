"""Record: which rows were right in the emulator, kept beside the tests for docs/coverage.md.

``record.json`` has ``chips``, with the ``date``, the ``emulator`` and the rows that it ``lacks``, and
``right``: by row and digest of its text, the chips on which it was right.
"""

from __future__ import annotations

import datetime
import functools
import json
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
    """By chip: ``date``, ``emulator``, by row the text that was ``right``, and what it ``lacks``."""
    if not FILE.exists():
        return {}
    kept = json.loads(FILE.read_text())
    found = {chip: {**entry, "right": {}} for chip, entry in kept["chips"].items()}
    for row, chips in kept["right"].items():
        name, digest = row.split()
        for chip in chips.split():
            found[chip]["right"][name] = digest
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
    right = defaultdict(list)
    for chip, entry in sorted(entries.items()):
        for name, digest in entry["right"].items():
            right[f"{name} {digest}"].append(chip)
    chips = {chip: {k: v for k, v in entry.items() if k != "right"} for chip, entry in entries.items()}
    document = {"chips": chips, "right": {row: " ".join(names) for row, names in right.items()}}
    FILE.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def is_right(program: Program, chip: str) -> bool:
    """Whether machine code of this row, as its text is now, was executed and gave what NumPy gives."""
    return read().get(chip, {}).get("right", {}).get(program.name) == _text(program)


def _text(program: Program) -> str:
    return digest_bytes(program.text().encode())[:_DIGITS]
