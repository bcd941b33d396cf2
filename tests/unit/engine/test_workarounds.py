"""Every workaround is listed with what it is for, and is looked at again when its package is updated."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "gpubuild/engine").rglob("workarounds.py"))
]
EVERY = [(name, one) for name in MODULES for one in import_module(name).WORKAROUNDS]


def pinned() -> dict[str, tuple[int, ...]]:
    """The versions that pyproject.toml pins, by package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = (re.match(r"([\w-]+)==([\d.]+)", text) for text in project["dependencies"])
    return {match[1]: version(match[2]) for match in found if match}


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.strip(".").split("."))


@pytest.mark.parametrize(("module", "one"), EVERY, ids=lambda value: getattr(value, "name", ""))
def test_is_still_needed(module: str, one) -> None:
    assert hasattr(import_module(module), one.name)
    assert one.bug and one.seen
    assert pinned()[one.package] < version(one.remove_when), f"look again at {module}.{one.name}: {one.bug}"


def test_there_are_some() -> None:
    assert len(MODULES) > 4
