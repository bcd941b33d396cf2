"""What tests of remote caches share, and tests of whole builds."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault.far_server import good_bodies
from fault.whole_builds import PROGRAM, VARIANTS, build, edit, make_world


@pytest.fixture
def good(tmp_path: Path) -> dict[str, bytes]:
    """Paths and bodies of a server that has the result of KEY."""
    return good_bodies(tmp_path / "good")


@pytest.fixture(scope="module")
def small_runtime(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Two files instead of fifty, and no waiting for disks: a killed process loses no page."""
    folder = tmp_path_factory.mktemp("runtime")
    for name in ("mgpu.c", "image.h"):
        (folder / name).write_text(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpubuild.toolchain.runtime_library.FOLDER", folder)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(scope="module")
def right(small_runtime: None, tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The program of each variant, built where nothing ever went wrong."""
    found = []
    for variant in range(VARIANTS):
        world = make_world(tmp_path_factory.mktemp("right") / "project")
        edit(world, variant)
        assert world.build().ok
        found.append((world.root / PROGRAM).read_bytes())
    assert len(set(found)) == VARIANTS
    return found


@pytest.fixture
def pristine(small_runtime: None, tmp_path: Path) -> Path:
    """A project with its cache, built and closed."""
    world = make_world(tmp_path / "pristine")
    build(world, 0, tmp_path / "pristine" / "cache")
    return tmp_path / "pristine"


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project for clusters that was built on this machine, into the folder ``build``."""
    from fault.dask_builds import make_project

    return make_project(tmp_path_factory.mktemp("project"))
