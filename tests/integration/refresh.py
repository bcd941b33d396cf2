"""Write into each program what NumPy says it prints; with ``--check`` only say which are out of date."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from integration.expected import PRINTED
from integration.printed import check_lines
from integration.program import COMPUTED, Program, programs


def refreshed(program: Program) -> str:
    """The text as it should be."""
    kept = program.text.split(COMPUTED)[0].rstrip("\n")
    return "\n".join([kept, "", COMPUTED, *check_lines(PRINTED[program.name]())]) + "\n"


def stale() -> list[Program]:
    """Programs that do not say what NumPy does."""
    return [p for p in programs().values() if p.text != refreshed(p)]


if __name__ == "__main__":
    old = stale()
    for program in old:
        print(f"out of date: {program.path.name}")
        if "--check" not in sys.argv:
            program.path.write_text(refreshed(program))
    sys.exit(bool(old) and "--check" in sys.argv)
