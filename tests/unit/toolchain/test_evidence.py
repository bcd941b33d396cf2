"""What the answers of the tool chain rest on: all that a receipt must see unchanged."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from gpubuild.settings import Settings
from gpubuild.toolchain.find import Toolchain


def evidence(tools: Toolchain) -> tuple[set[Path], set[Path]]:
    used, looked_for = tools.evidence()
    return {*map(Path, used)}, {*map(Path, looked_for)}


def test_an_overriding_tool_and_its_absence(tmp_path: Path) -> None:
    ptxas = tmp_path / "ptxas"
    shutil.copy2(os.path.realpath(sys.executable), ptxas)
    tools = Toolchain(Settings(ptxas=ptxas, lld=tmp_path / "ld.lld"))
    assert tools.find("ptxas") is not None
    assert tools.find("ld.lld") is None
    used, looked_for = evidence(tools)
    assert ptxas in used
    assert tmp_path / "ld.lld" in looked_for


def test_installed_packages_file_by_file() -> None:
    tools = Toolchain(Settings())
    for name in ("mlir", "llvmlite", "ptxas", "libdevice", "ld.lld"):
        assert tools.find(name) is not None
    used, _ = evidence(tools)
    names = {p.name for p in used}
    assert {"ptxas", "libdevice.10.bc", "zig", "RECORD", "METADATA"} <= names
    assert sum("mlir" in p.parts for p in used) > 100
    assert all(p.is_absolute() for p in used)


def test_our_own_code() -> None:
    _, looked_for = evidence(Toolchain(Settings()))
    names = {p.name for p in looked_for}
    assert {"engine", "fission.py", "planner.py", "cpu_pool.c", "schema.json"} <= names
    assert not any("__pycache__" in p.parts for p in looked_for)


def test_compilers_that_may_appear_in_path(tmp_path: Path) -> None:
    tools = Toolchain(Settings(search_path=(tmp_path / "a", Path("relative"), Path("/usr/bin"))))
    tools.find("cc")
    _, looked_for = evidence(tools)
    for name in ("cc", "gcc", "clang", "c++", "g++", "ar"):
        assert tmp_path / "a" / name in looked_for
    assert not any(p.parts[0] == "relative" for p in looked_for)


def test_the_parts_of_the_system_compiler() -> None:
    tools = Toolchain(Settings(search_path=(Path("/usr/bin"),)))
    found = tools.find("cc")
    if found is None or found.source != "system":
        pytest.skip("no whole C compiler in /usr/bin")
    used, _ = evidence(tools)
    assert {"crt1.o", "crti.o"} <= {p.name for p in used}
