"""A cache in the test's folder."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gpubuild.cache.local.disk_store import DiskStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DiskStore]:
    with closing(DiskStore(tmp_path / "cache")) as opened:
        yield opened
