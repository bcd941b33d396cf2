"""The table of promises and tests names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/design/2026-11-21-cache-promises.md"
DEFAULT = "tests/e2e/test_incremental.py"


@cache
def defined_in(file: str) -> set[str]:
    return set(re.findall(r"^def (test_\w+)\(", (ROOT / file).read_text(), re.M))


def rows() -> list[tuple[str, list[str]]]:
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[1] != "shown by":
            found.append((cells[0], re.findall(r"`([^`]+)`", cells[1])))
    return found


@pytest.mark.parametrize(("promise", "names"), rows())
def test_every_named_test_exists(promise: str, names: list[str]) -> None:
    assert names, promise
    file = DEFAULT
    for name in names:
        path, _, test = name.partition("::")
        file = path or file
        assert (ROOT / file).is_file(), file
        assert file.startswith("bench/") or test in defined_in(file), name


def test_the_table_is_long() -> None:
    assert len(rows()) > 40
