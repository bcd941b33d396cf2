"""The runtime library, built once in a run by the system's C compiler."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from unit.runtime.programs import Runtime, built_once


@pytest.fixture(scope="session")
def built_runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return built_once(tmp_path_factory.mktemp("runtime"))


@pytest.fixture
def runtime(built_runtime: Runtime, tmp_path: Path) -> Runtime:
    return replace(built_runtime, scratch=tmp_path)
