"""What end-to-end tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment with one cache for all who use it: they need not compile the runtime each."""
    return {"GPUBUILD_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
