"""The runtime library, built once a session by the system's C compiler."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from unit.runtime.programs import Runtime, build


@pytest.fixture(scope="session")
def built_runtime(tmp_path_factory: pytest.TempPathFactory) -> Runtime:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("runtime")
    return build(folder, folder)


@pytest.fixture
def runtime(built_runtime: Runtime, tmp_path: Path) -> Runtime:
    return replace(built_runtime, scratch=tmp_path)
