"""The pages of promises name tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from gpubuild import errors

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs/design").glob("*-promises.md")), ROOT / "SECURITY.md"]
LEAST = {"SECURITY": 20, "cache": 40, "cpu": 30, "dialect": 60}  # rows
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_named_test_exists(page: Path) -> None:
    default = DEFAULT.search(" ".join(page.read_text().split()))
    for promise, cell in rows(page):
        file = default[1] if default else ""
        tests = [name for name in re.findall(r"`([^`]+)`", cell) if NAMED.fullmatch(name)]
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


# ---- docs/reference/errors.md ----


PAGE = (ROOT / "docs" / "reference" / "errors.md").read_text()
SECTIONS = dict(re.findall(r"^### (.*)\n((?:(?!^#).*\n)*)", PAGE, re.M))


def _classes() -> set[str]:
    kinds = (value for value in vars(errors).values() if isinstance(value, type))
    return {k.__name__ for k in kinds if issubclass(k, errors.GpubuildError)} - {"GpubuildError"}


@cache
def _texts() -> list[str]:
    """Every string of the source; what an f-string puts in is …"""
    found = []
    for path in sorted((ROOT / "gpubuild").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values]
                found.append("".join(parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return found


def test_every_class_is_there() -> None:
    rows = re.findall(r"^\| `(\w+Error)` \| `(\S+)` \| (\d+) \|", PAGE, re.M)
    assert sorted(name for name, *_ in rows) == sorted(_classes())
    for name, code, exit_code in rows:
        assert (getattr(errors, name).code, getattr(errors, name).exit_code) == (code, int(exit_code))
    codes = [code for _, code, _ in rows]
    assert len({*codes, errors.GpubuildError.code}) == len(codes) + 1
    assert f"`{errors.GpubuildError.code}`" in PAGE
    assert {c for text in SECTIONS.values() for c in re.findall(r"`(\w+Error)`", text)} == _classes()


def test_headings_are_texts_of_the_source() -> None:
    for heading in SECTIONS:
        parts = [part.strip() for part in heading.split("…") if part.strip(" @:")]
        assert parts, heading
        assert any(all(part in text for part in parts) for text in _texts()), parts


def test_every_kind_has_a_class_and_a_test() -> None:
    for heading, text in SECTIONS.items():
        assert re.search(r"`\w+Error`", text), heading
        assert "::" in text, heading


def test_cited_tests_exist() -> None:
    cited = re.findall(r"`(tests/\S+?)::(\w+)(?:\[[^`]+\])?`", PAGE)
    assert len(cited) > len(SECTIONS)
    for path, function in cited:
        assert f"def {function}(" in (ROOT / path).read_text(), f"{path}::{function}"


# ---- files that documents name ----


PACKAGE = ROOT / "gpubuild"
NOTES = sorted((ROOT / "docs").rglob("*.md"))
# Files of the package as documents write them: with or without its own name in front.
_FILE = re.compile(r"`(?:gpubuild/)?((?:[a-z_]+/)*[a-z_0-9]+\.(?:py|c|h))(?:::\w+)?`")


def test_files_that_documents_name_exist() -> None:
    parts = {path.name for path in PACKAGE.iterdir()}
    for page in NOTES:
        for name in _FILE.findall(page.read_text()):
            if "/" in name and name.split("/")[0] in parts:
                assert (PACKAGE / name).is_file(), f"{page.stem}: {name}"
