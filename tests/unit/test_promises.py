"""The pages of promises name tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/design").glob("*-promises.md"))
LEAST = {"cache": 40, "cpu": 30, "dialect": 60}  # rows
# Where tests named without a file are: the page says so.
DEFAULT = re.compile(r"Names without a (?:folder|file) are in `([^`]+)`")
NAMED = re.compile(r"(?:tests|bench|docs)/[\w./-]+(?:::\w+)?|::\w+")


@cache
def defined_in(file: str) -> set[str]:
    return set(re.findall(r"^def (test_\w+)\(", (ROOT / file).read_text(), re.M))


def rows(page: Path) -> list[tuple[str, str]]:
    """What is promised, and the cell beside it."""
    found = []
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[1] != "shown by":
            found.append((cells[0], cells[1]))
    return found


CASES = [
    pytest.param(page, promise, cell, id=f"{page.stem.split('-')[0]}: {promise[:60]}")
    for page in PAGES
    for promise, cell in rows(page)
]


@pytest.mark.parametrize(("page", "promise", "cell"), CASES)
def test_every_named_test_exists(page: Path, promise: str, cell: str) -> None:
    default = DEFAULT.search(" ".join(page.read_text().split()))
    file = default[1] if default else ""
    names = re.findall(r"`([^`]+)`", cell)
    tests = [name for name in names if NAMED.fullmatch(name)]
    assert tests, f"{promise}: nothing shows it"
    for name in tests:
        path, _, test = name.partition("::")
        file = path or file
        assert (ROOT / file).exists(), file
        assert not test or test in defined_in(file), name


def test_every_page_is_long() -> None:
    assert {page.stem.split("-")[0] for page in PAGES} == set(LEAST)
    for page in PAGES:
        assert len(rows(page)) >= LEAST[page.stem.split("-")[0]], page.name
