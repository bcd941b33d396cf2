"""docs/reference/commands.md is made from the parser and lists every variable."""

import re
from pathlib import Path

from reference import commands

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference" / "commands.md").read_text() == commands.page(), (
        "run python tests/reference/commands.py"
    )


def test_every_variable_that_is_read_is_listed() -> None:
    listed = set(re.findall(r"[A-Z_]{4,}", " ".join((*commands.OF_GPUBUILD, *commands.OF_PROGRAMS))))
    sources = [ROOT / "gpubuild" / "settings.py", ROOT / "gpubuild" / "environment.py"]
    read = set(re.findall(r"\bGPUBUILD_[A-Z_]+\b", "".join(p.read_text() for p in sources)))
    for path in (ROOT / "gpubuild" / "runtime").glob("*/*.c"):
        read |= set(re.findall(r'getenv\("(GPUBUILD_\w+)"\)', path.read_text()))
    assert "GPUBUILD_DEVICE" in read
    assert read - listed == set()
