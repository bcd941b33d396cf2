"""Wording."""

from __future__ import annotations

import pytest

from gpubuild.support.text import counted


@pytest.mark.parametrize(("number", "text"), [(0, "0 results"), (1, "1 result"), (2, "2 results")])
def test_counted(number: int, text: str) -> None:
    assert counted(number, "result") == text
