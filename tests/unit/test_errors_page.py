"""docs/errors.md against the source: no class is missing, no text is made up, every test is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from gpubuild import errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text()
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
    table = dict(re.findall(r"^\| `(\w+Error)` \| (\d+) \|", PAGE, re.M))
    assert set(table) == _classes()
    for name, code in table.items():
        assert getattr(errors, name).exit_code == int(code)
    assert {c for text in SECTIONS.values() for c in re.findall(r"`(\w+Error)`", text)} == _classes()


@pytest.mark.parametrize("heading", SECTIONS)
def test_headings_are_texts_of_the_source(heading: str) -> None:
    parts = [part.strip() for part in heading.split("…") if part.strip(" @:")]
    assert parts
    assert any(all(part in text for part in parts) for text in _texts()), parts


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_kind_has_a_class_and_a_test(heading: str) -> None:
    assert re.search(r"`\w+Error`", SECTIONS[heading])
    assert "::" in SECTIONS[heading]


def test_cited_tests_exist() -> None:
    cited = re.findall(r"`(tests/\S+?)::(\w+)`", PAGE)
    assert len(cited) > len(SECTIONS)
    for path, function in cited:
        assert f"def {function}(" in (ROOT / path).read_text(), f"{path}::{function}"
