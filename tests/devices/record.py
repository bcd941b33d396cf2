"""Record: what was right on which device, kept beside the tests for docs/reference/coverage.md."""

from __future__ import annotations

import datetime
import json
from collections.abc import Sequence
from pathlib import Path

from devices.at_hand import Device

_RANDOM = "random kernel "
FILE = Path(__file__).with_name("record.json")


def read() -> dict[str, dict]:
    """By devices' names: ``chip``, ``date``, the names of cases that were ``right`` and ``wrong``.

    Random kernels that were right are only counted: ``random_right``.
    """
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def write(device: Device, right: Sequence[str], wrong: Sequence[str]) -> None:
    """Replace what was known of ``device``."""
    entry = {
        "chip": device.chip,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "right": sorted(name for name in right if not name.startswith(_RANDOM)),
        "random_right": sum(name.startswith(_RANDOM) for name in right),
        "wrong": sorted(wrong),
    }
    FILE.write_text(json.dumps({**read(), device.name: entry}, indent=1, sort_keys=True) + "\n")


def answer(program: str) -> str:
    """The cell of a program in docs/reference/coverage.md."""
    said = []
    for name, entry in sorted(read().items()):
        for word in ("right", "wrong"):
            if program in entry[word]:
                said.append(f"{word}: {name}")
    return ", ".join(said) or "-"
