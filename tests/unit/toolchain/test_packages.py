"""Packages: what the tools come from is what installing gpubuild installs, and all of it is identified."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gpubuild.settings import Settings
from gpubuild.toolchain import find
from gpubuild.toolchain.find import Toolchain

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def test_a_plain_installation_has_every_package_that_tools_are_taken_from() -> None:
    """The `test` extra must not be what makes it work."""
    installed = {re.split(r"[<>=~; ]", text)[0] for text in PROJECT["dependencies"]}
    sources = {row.source for row in Toolchain(Settings()).describe_all() if row.required}
    taken = {source.removeprefix("PyPI package ") for source in sources if source.startswith("PyPI package ")}
    assert {"llvmlite", find.MLIR, find.NVCC, "ziglang"} <= taken
    assert taken | {find.LLVM} <= installed


def install(root: Path, name: str, file: str, text: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)
    info = root / f"{name.replace('-', '_')}-22.1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 22.1\n")
    (info / "RECORD").write_text(f"{file},,\n")


def mlir_from(root: Path, monkeypatch: pytest.MonkeyPatch, *, llvm: str, bindings: str = "bindings") -> str:
    install(root, find.MLIR, "mlir/_mlir_libs/_mlir.so", bindings)
    install(root, find.LLVM, "llvm/lib/libLLVM.so", llvm)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(root)
        tool = Toolchain(Settings()).find("mlir")
    assert tool is not None
    return tool.fingerprint


def test_mlir_is_its_bindings_and_the_llvm_that_they_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = mlir_from(tmp_path / "a", monkeypatch, llvm="one")
    assert mlir_from(tmp_path / "b", monkeypatch, llvm="one") == first
    assert mlir_from(tmp_path / "c", monkeypatch, llvm="two") != first
    assert mlir_from(tmp_path / "d", monkeypatch, llvm="one", bindings="other") != first


def test_bindings_without_their_llvm_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find, "LLVM", "no-such-package")
    tools = Toolchain(Settings())
    assert tools.find("mlir") is None
    [row] = [row for row in tools.describe_all() if row.name == "mlir"]
    assert row.problem == "the PyPI package no-such-package is not installed"
    assert find.MLIR in row.fix
