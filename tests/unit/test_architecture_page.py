"""docs/design: no page names a file of the package that is gone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gpubuild"
PAGE = ROOT / "docs/design/architecture.md"
NOTES = sorted((ROOT / "docs").rglob("*.md"))
# Files of the package as documents write them: with or without its own name in front.
_FILE = re.compile(r"`(?:gpubuild/)?((?:[a-z_]+/)*[a-z_0-9]+\.(?:py|c|h))(?:::\w+)?`")


def test_modules_of_the_engine_exist() -> None:
    text = PAGE.read_text()
    section = text[text.index("## The engine") : text.index("## Steps, keys, files")]
    names = {name for name in re.findall(r"`([a-z_0-9]+)`", section) if "_" in name}
    missing = {name for name in names if not (PACKAGE / "engine" / f"{name}.py").is_file()}
    assert len(names) > 30
    assert missing == set()


@pytest.mark.parametrize("page", NOTES, ids=lambda path: path.stem)
def test_files_that_documents_name_exist(page: Path) -> None:
    for name in _FILE.findall(page.read_text()):
        if "/" in name and name.split("/")[0] in {path.name for path in PACKAGE.iterdir()}:
            assert (PACKAGE / name).is_file(), name
