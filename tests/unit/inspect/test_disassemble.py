"""Disassembly by what is here: the real tools of the test environment, and none at all."""

from dataclasses import replace
from pathlib import Path

import pytest
from unit.inspect import samples

from gpubuild.errors import ToolNotFoundError
from gpubuild.inspect import disassemble as module
from gpubuild.inspect.disassemble import disassemble
from gpubuild.inspect.reader import inspect_file
from gpubuild.settings import Settings


def only_object(data: bytes, folder: Path):
    (folder / "file").write_bytes(data)
    return inspect_file(folder / "file").modules[0].objects[0]


def test_a_cpus_code(tmp_path: Path) -> None:
    text = disassemble(only_object(samples.cpu_object(), tmp_path), Settings.from_environ())
    assert "ret" in text
    assert str(tmp_path) not in text


def test_amd_code_or_what_to_install(tmp_path: Path) -> None:
    item = only_object(samples.hsaco("gfx90a"), tmp_path)
    try:
        assert "s_endpgm" in disassemble(item, Settings.from_environ())
    except ToolNotFoundError as error:
        assert "gfx90a" in error.message
        assert "llvm" in error.hint


def test_ptx_is_text_already(tmp_path: Path) -> None:
    item = only_object(samples.PTX.format(chip="sm_60").encode() + b"\0", tmp_path)
    assert disassemble(item, Settings()).startswith(".version")


def test_nothing_here_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_find", lambda *_: [])
    for data in (samples.cubin("sm_60"), samples.hsaco("gfx90a")):
        with pytest.raises(ToolNotFoundError, match="no disassembler here reads") as caught:
            disassemble(only_object(data, tmp_path), Settings())
        assert "install" in caught.value.hint
    with pytest.raises(ToolNotFoundError, match="fatbin"):
        disassemble(replace(only_object(samples.cubin("sm_60"), tmp_path), format="fatbin"), Settings())


def test_a_tool_that_refuses_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing, reading = tmp_path / "refusing", tmp_path / "reading"
    refusing.write_text("#!/bin/sh\necho 'no such chip' >&2\nexit 1\n")
    reading.write_text('#!/bin/sh\necho "code of $2"\n')
    for path in (refusing, reading):
        path.chmod(0o755)
    monkeypatch.setattr(module, "_find", lambda name, _: [refusing, reading] if name == "nvdisasm" else [])
    item = only_object(samples.cubin("sm_60"), tmp_path)
    assert disassemble(item, Settings()) == "code of object\n"
    monkeypatch.setattr(module, "_find", lambda name, _: [refusing] if name == "nvdisasm" else [])
    with pytest.raises(ToolNotFoundError, match="no such chip"):
        disassemble(item, Settings())
