"""What the answers of the tool chain rest on: all that a receipt must see unchanged."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from gpubuild.settings import Settings
from gpubuild.toolchain import find
from gpubuild.toolchain.find import Toolchain


def program(path: Path, text: str = "#!/bin/sh\necho 1.0\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


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


def stat_changes(paths: set[Path]) -> dict[Path, tuple[int, ...] | None]:
    found: dict[Path, tuple[int, ...] | None] = {}
    for path in paths:
        try:
            stat = path.stat()
            found[path] = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_size)
        except OSError:
            found[path] = None
    return found


@pytest.mark.parametrize(
    "place",
    [
        "opt/rocm/amdgcn/bitcode",
        "opt/rocm/lib/llvm/lib/clang/17/amdgcn/bitcode",
        "usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
        "usr/lib/llvm-18/lib/clang/18/amdgcn/bitcode",
    ],
)
@pytest.mark.parametrize("there_before", ["", "usr/lib", "opt/rocm/lib/llvm/lib/clang", "all but the last"])
def test_device_libraries_that_appear_are_noticed(tmp_path: Path, place: str, there_before: str) -> None:
    folder = tmp_path / place
    if there_before == "all but the last":
        folder.mkdir(parents=True)
        (folder / "ocml.bc").touch()
    elif there_before:
        (tmp_path / there_before).mkdir(parents=True)
    (tmp_path / "usr/lib/x86_64-linux-gnu").mkdir(parents=True, exist_ok=True)
    assert find.find_device_libraries(None, root=tmp_path)[0] is None
    seen = find.searched_paths(None, root=tmp_path)
    before = stat_changes(seen)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("ocml.bc", "ockl.bc"):
        (folder / name).touch()
    assert find.find_device_libraries(None, root=tmp_path)[0] == folder
    assert stat_changes(seen) != before


def test_unrelated_changes_are_not(tmp_path: Path) -> None:
    (tmp_path / "usr/lib").mkdir(parents=True)
    before = stat_changes(find.searched_paths(None, root=tmp_path))
    (tmp_path / "home").mkdir()
    (tmp_path / "usr/bin").mkdir()
    assert stat_changes(set(before)) == before
