"""Receipts and what is not of the project: tools, variables that choose them, packages, this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from unit.build.receipt_world import World, keep_times, settled_world

from gpubuild import environment


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return settled_world(tmp_path, monkeypatch)


def test_a_tool_swapped_with_its_time_kept(world: World) -> None:
    world.good_build()
    keep_times(world.root / "tools/ptxas", b"two")
    assert not world.proven()


def test_a_tool_that_is_gone(world: World) -> None:
    world.good_build()
    (world.root / "tools/ptxas").unlink()
    assert not world.proven()


def test_an_optional_tool_that_appears(world: World) -> None:
    world.good_build()
    (world.root / "tools/optional").write_bytes(b"here")
    assert not world.proven()


def test_a_tool_swapped_while_building(world: World) -> None:
    """The fingerprint was taken of the old one, the receipt would have described the new one."""
    world.during = lambda: keep_times(world.root / "tools/ptxas", b"two")
    world.build()
    assert world.receipt() is None


def test_a_tool_removed_while_building(world: World) -> None:
    world.during = lambda: (world.root / "tools/ptxas").unlink(missing_ok=True)
    world.build()
    assert world.receipt() is None


@pytest.mark.parametrize(
    "variable", ["PATH", "GPUBUILD_CC", "GPUBUILD_PTXAS", "ROCM_PATH", "LD_LIBRARY_PATH"]
)
def test_a_variable_that_chooses_tools(world: World, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    world.build()
    monkeypatch.setenv("GPUBUILD_JOBS", "7")
    assert world.proven()
    monkeypatch.setenv(variable, "/elsewhere")
    assert not world.proven()


def test_a_relative_path_in_a_variable_counts_from_the_current_folder(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUBUILD_CC", "bin/cc")
    world.build()
    assert world.proven()
    monkeypatch.chdir(world.root)
    assert not world.proven()


def test_variants_of_the_c_library_that_a_variable_chooses(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.build()
    assert world.proven()
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-FMA")
    assert not world.proven()
    world.build()
    assert world.proven()
    monkeypatch.chdir(world.root)
    assert world.proven()  # it is no path


def test_a_package_that_appears_on_the_path_of_python(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = world.root / "packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    world.build()
    (folder / "other.py").touch()
    assert world.proven()
    (folder / "mlir").mkdir()
    assert not world.proven()


def test_a_receipt_holds_until_the_machine_is_started_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its CPU may be another one then, which rounds constants in another way, or is another `native`."""
    monkeypatch.setattr(environment, "boot", lambda: "one")
    world.build()
    assert world.proven()
    monkeypatch.setattr(environment, "boot", lambda: "two")
    assert not world.proven()
    monkeypatch.setattr(environment, "boot", lambda: "")
    world.build()
    assert world.receipt() is None
