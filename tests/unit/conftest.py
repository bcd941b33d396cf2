"""A fresh world for each test that asks for one."""

from pathlib import Path

import pytest
from unit.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)
