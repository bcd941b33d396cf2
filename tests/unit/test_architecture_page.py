"""docs/design: no page names a file of the package that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gpubuild"
NOTES = sorted((ROOT / "docs").rglob("*.md"))
# Files of the package as documents write them: with or without its own name in front.
_FILE = re.compile(r"`(?:gpubuild/)?((?:[a-z_]+/)*[a-z_0-9]+\.(?:py|c|h))(?:::\w+)?`")


@pytest.mark.parametrize("page", NOTES, ids=lambda path: path.stem)
def test_files_that_documents_name_exist(page: Path) -> None:
    for name in _FILE.findall(page.read_text()):
        if "/" in name and name.split("/")[0] in {path.name for path in PACKAGE.iterdir()}:
            assert (PACKAGE / name).is_file(), name
