"""What the tests of remote caches share."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault.far_server import good_bodies


@pytest.fixture
def good(tmp_path: Path) -> dict[str, bytes]:
    """Paths and bodies of a server that has the result of KEY."""
    return good_bodies(tmp_path / "good")
