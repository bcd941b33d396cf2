"""clang-linker-wrapper and CUDA's linker: found whole or not at all, known by all they consist of."""

from dataclasses import replace
from pathlib import Path

import pytest
from unit.toolchain.test_find import executable

from gpubuild.errors import ToolNotFoundError
from gpubuild.settings import Settings
from gpubuild.toolchain.clang_linker_wrapper import hidden
from gpubuild.toolchain.find import Toolchain


def llvm_folder(root: Path) -> Path:
    """What Debian installs: programs beside each other, and a link to one of them in PATH."""
    started = ("clang", "lld", "clang-offload-bundler", "clang-nvlink-wrapper")
    for name in ("clang-linker-wrapper", *started):
        executable(root / "llvm/bin" / name)
    (root / "llvm/lib").mkdir()
    (root / "llvm/lib/libLLVM.so.22.1").write_bytes(b"library")
    (root / "bin").mkdir()
    link = root / "bin/clang-linker-wrapper-22"
    link.symlink_to(root / "llvm/bin/clang-linker-wrapper")
    return link


def test_the_wrapper_in_path_and_its_identity(tmp_path: Path) -> None:
    link = llvm_folder(tmp_path)
    settings = Settings(search_path=(tmp_path / "bin",))
    tool = Toolchain(settings).require("clang-linker-wrapper")
    assert (tool.command, tool.version, tool.source) == ((str(link),), "fake 1.0", "system")
    for name in ("bin/lld", "bin/clang-offload-bundler", "lib/libLLVM.so.22.1"):
        executable(tmp_path / "llvm" / name, "#!/bin/sh\n# changed\n")
        changed = Toolchain(settings).require("clang-linker-wrapper")
        assert changed.fingerprint != tool.fingerprint, name
        tool = changed


def test_a_receipt_looks_at_the_links_that_the_wrapper_starts(tmp_path: Path) -> None:
    llvm_folder(tmp_path)
    lld = tmp_path / "llvm/bin/lld"
    lld.rename(tmp_path / "lld-22.1")
    lld.symlink_to(tmp_path / "lld-22.1")
    toolchain = Toolchain(Settings(search_path=(tmp_path / "bin",)))
    toolchain.require("clang-linker-wrapper")
    assert str(lld) in toolchain.evidence()[1]


def test_a_wrapper_without_what_it_starts_is_not_taken(tmp_path: Path) -> None:
    llvm_folder(tmp_path)
    (tmp_path / "llvm/bin/lld").unlink()
    toolchain = Toolchain(Settings(search_path=(tmp_path / "bin",)))
    with pytest.raises(ToolNotFoundError, match="clang-linker-wrapper there is no lld") as caught:
        toolchain.require("clang-linker-wrapper")
    assert "lld-22" in caught.value.hint
    assert str(tmp_path / "bin/clang-linker-wrapper-22") in toolchain.evidence()[1]


def test_an_override_is_not_passed_over(tmp_path: Path) -> None:
    llvm_folder(tmp_path)
    settings = Settings(search_path=(tmp_path / "bin",))
    mine = replace(settings, clang_linker_wrapper=tmp_path / "llvm/bin/clang-linker-wrapper")
    assert Toolchain(mine).require("clang-linker-wrapper").source == "GPUBUILD_CLANG_LINKER_WRAPPER"
    nothing = replace(settings, clang_linker_wrapper=tmp_path / "nothing")
    with pytest.raises(ToolNotFoundError, match="GPUBUILD_CLANG_LINKER_WRAPPER names .*nothing"):
        Toolchain(nothing).require("clang-linker-wrapper")


def test_cudas_linker_needs_both_programs(tmp_path: Path) -> None:
    settings = Settings(cuda_path=tmp_path)
    executable(tmp_path / "bin/nvlink")
    with pytest.raises(ToolNotFoundError, match=r"CUDA_PATH is .*, which has no bin/fatbinary$") as caught:
        Toolchain(settings).require("cuda-linker")
    assert "CUDA_PATH" in caught.value.hint
    executable(tmp_path / "bin/fatbinary")
    said = "Copyright (c) 2005-2025\nBuilt on 1 May 2025\nrelease 13.0, V13.0.88\n"
    executable(tmp_path / "bin/nvlink", f"#!/bin/sh\nprintf '{said}'\n")
    tool = Toolchain(settings).require("cuda-linker")
    assert (tool.command, tool.version) == ((str(tmp_path),), "release 13.0, V13.0.88")
    executable(tmp_path / "bin/fatbinary", "#!/bin/sh\n# other\n")
    assert Toolchain(settings).require("cuda-linker").fingerprint != tool.fingerprint


def test_only_libraries_are_hidden() -> None:
    """The wrapper looks for -lm itself, and in -L folders only."""
    assert [hidden(a) for a in ("-lm", "-L/x", "libm.a", "-Wl,-z,now")] == [
        "-Wl,-lm",
        "-L/x",
        "libm.a",
        "-Wl,-z,now",
    ]
