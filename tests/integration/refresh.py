"""Write NumPy's results into each program, and docs/reference/operations.md; ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from integration import page
from integration.expected import PRINTED
from integration.printed import check_lines
from integration.program import COMPUTED, Program, programs


def refreshed(program: Program) -> str:
    """The text as it should be."""
    kept = program.text.split(COMPUTED)[0].rstrip("\n")
    return "\n".join([kept, "", COMPUTED, *check_lines(PRINTED[program.name]())]) + "\n"


def stale() -> dict[Path, str]:
    """Files that do not say what they should, and what that is."""
    found = programs().values()
    wanted = {p.path: refreshed(p) for p in found} | {page.DOCUMENT: page.render(found)}
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}


if __name__ == "__main__":
    old = stale()
    for path, text in old.items():
        print(f"out of date: {path.name}")
        if "--check" not in sys.argv:
            path.write_text(text)
    sys.exit(bool(old) and "--check" in sys.argv)
