import base64
import hashlib
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest

from gpubuild.settings import Settings
from gpubuild.toolchain import find
from gpubuild.toolchain.distribution import find_distribution, hidden_by
from gpubuild.toolchain.find import Toolchain
from gpubuild.toolchain.memo import Memo


def install(root: Path, *, installer: str = "pip", content: bytes = b"code", record: bool = True) -> None:
    (root / "thing").mkdir(parents=True, exist_ok=True)
    (root / "thing" / "a.py").write_bytes(content)
    info = root / "gpubuild_probe-1.0.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: gpubuild-probe\nVersion: 1.0\n")
    (info / "INSTALLER").write_text(installer)
    if record:
        lines = []
        for path in (root / "thing" / "a.py", info / "INSTALLER"):
            raw = hashlib.sha256(path.read_bytes()).digest()
            digest = base64.urlsafe_b64encode(raw).decode().rstrip("=")
            lines.append(f"{path.relative_to(root)},sha256={digest},{path.stat().st_size}")
        (info / "RECORD").write_text("\n".join([*lines, "thing/__pycache__/a.pyc,,"]) + "\n")


def fingerprint(root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "path", [str(root), *sys.path])
        found = find_distribution("gpubuild-probe", Memo(None), package="thing")
    assert found.root == root
    return found.fingerprint


def test_the_content_of_a_package_is_its_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "a")
    install(tmp_path / "b", installer="uv")
    install(tmp_path / "c", content=b"edoc")
    here, elsewhere, another = (fingerprint(tmp_path / name, monkeypatch) for name in "abc")
    assert here == elsewhere != another
    file = tmp_path / "a" / "thing" / "a.py"
    file.write_bytes(b"patched")
    assert fingerprint(tmp_path / "a", monkeypatch) != here
    file.unlink()
    assert fingerprint(tmp_path / "a", monkeypatch) != here


@pytest.mark.parametrize("time_kept", [False, True])
def test_a_file_edited_to_the_same_size_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, time_kept: bool
) -> None:
    install(tmp_path)
    file = tmp_path / "thing" / "a.py"
    os.utime(file, (1000, 1000))
    os.utime(tmp_path / "gpubuild_probe-1.0.dist-info/RECORD", (1001, 1001))
    before = fingerprint(tmp_path, monkeypatch)
    file.write_bytes(b"edoc")
    if time_kept:  # the time of change, which cannot be set, then tells, some minutes later
        os.utime(file, (1000, 1000))
        monkeypatch.setattr("gpubuild.toolchain.distribution._UNPACKING_NS", -(10**9))
    assert fingerprint(tmp_path, monkeypatch) != before
    file.write_bytes(b"code")
    assert fingerprint(tmp_path, monkeypatch) == before


def test_without_a_record_the_files_are_digested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, record=False)
    before = fingerprint(tmp_path, monkeypatch)
    (tmp_path / "thing" / "a.py").write_bytes(b"edoc")
    assert fingerprint(tmp_path, monkeypatch) != before


def test_metadata_left_without_the_package_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path)
    (tmp_path / "thing" / "a.py").unlink()
    (tmp_path / "thing").rmdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert find_distribution("gpubuild-probe", Memo(None), package="thing") is None


def test_many_files_are_digested_once_and_are_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    memo = Memo(None)
    first = find_distribution("gpubuild-probe", memo, package="thing", many_files=True)
    (tmp_path / "thing" / "a.py").write_bytes(b"patched")
    assert find_distribution("gpubuild-probe", memo, package="thing", many_files=True) == first
    assert str(tmp_path / "thing" / "a.py") not in memo.seen
    record = tmp_path / "gpubuild_probe-1.0.dist-info" / "RECORD"
    assert str(record) in memo.seen
    record.write_text(record.read_text() + "thing/b.py,,\n")
    again = find_distribution("gpubuild-probe", memo, package="thing", many_files=True)
    assert again is not None
    assert again.fingerprint != first.fingerprint


def test_names_and_digests_do_not_run_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    info = tmp_path / "gpubuild_probe-1.0.dist-info"
    (tmp_path / "thing" / "a.pysha").write_bytes(b"x")
    found = []
    for names in (("thing/a.py", "thing/a.pysha"), ("thing/a.pysha", "thing/a.py"), ("thing/a.py",)):
        (info / "RECORD").write_text("".join(f'"{name}",,\n' for name in names))
        found.append(fingerprint(tmp_path, monkeypatch))
    assert found[0] == found[1] != found[2]


def package(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("")
    return folder


@pytest.mark.parametrize(
    ("names", "hides"), [(["notes.txt"], False), (["ir.py"], True), (["__init__.py", "x.py"], True)]
)
def test_a_folder_of_the_same_name_hides_a_namespace_package_only_with_its_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], hides: bool
) -> None:
    installed = package(tmp_path / "site" / "gpubuild_probe_ns", "ir.py")
    other = package(tmp_path / "cwd" / "gpubuild_probe_ns", *names)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "cwd"), str(tmp_path / "site"), *sys.path])
    assert hidden_by("gpubuild_probe_ns", installed) == (other if hides else None)


@pytest.mark.parametrize("name", ["gpubuild-probe", "GPUBuild.Probe", "gpubuild_probe"])
def test_every_spelling_of_a_name_finds_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "absent"), str(tmp_path)])
    found = find_distribution(name, Memo(None), package="thing")
    assert (found.version, found.root) == ("1.0", tmp_path)
    assert find_distribution("gpubuild", Memo(None), package="thing") is None, "a longer name is another"


def test_what_is_installed_in_an_older_form_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "thing").mkdir()
    (tmp_path / "thing" / "a.py").write_bytes(b"code")
    info = tmp_path / "gpubuild_probe-2.0.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: gpubuild-probe\nVersion: 2.0\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = find_distribution("gpubuild-probe", Memo(None), package="thing")
    assert found.version == "2.0"


def test_a_part_of_a_package_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def part(name: str) -> str:
        found = find_distribution("gpubuild-probe", Memo(None), package="thing", part=name)
        return found.fingerprint

    assert part("") == part("thing/") != part("thing/none")


# ---- packages of tools ----


PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]


def test_a_plain_installation_has_every_package_that_tools_are_taken_from() -> None:
    """The `test` extra must not be what makes it work."""
    installed = {re.split(r"[<>=~; ]", text)[0] for text in PROJECT["dependencies"]}
    sources = {row.source for row in Toolchain(Settings()).describe_all() if row.required}
    taken = {source.removeprefix("PyPI package ") for source in sources if source.startswith("PyPI package ")}
    assert {"llvmlite", find.MLIR, find.NVCC, "ziglang"} <= taken
    assert taken | {find.LLVM} <= installed


def install_file(root: Path, name: str, file: str, text: str) -> None:
    (root / file).parent.mkdir(parents=True, exist_ok=True)
    (root / file).write_text(text)
    info = root / f"{name.replace('-', '_')}-22.1.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 22.1\n")
    (info / "RECORD").write_text(f"{file},,\n")


def mlir_from(root: Path, monkeypatch: pytest.MonkeyPatch, *, llvm: str, bindings: str = "bindings") -> str:
    install_file(root, find.MLIR, "mlir/_mlir_libs/_mlir.so", bindings)
    install_file(root, find.LLVM, "llvm/lib/libLLVM.so", llvm)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(root)
        tool = Toolchain(Settings()).find("mlir")
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
