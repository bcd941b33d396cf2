"""Missing: what is said of an input that is not there, or cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpubuild.build.diagnosis import missing_input


def test_a_like_name_is_suggested_as_the_user_would_write_it(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/kernel.mlir").touch()
    error = missing_input(tmp_path / "src/kernal.mlir", tmp_path)
    assert error.message == "src/kernal.mlir does not exist or cannot be read"
    assert error.hint == "did you mean src/kernel.mlir?"
    assert "restore the file" in missing_input(tmp_path / "src/zzz.c", tmp_path).hint
    assert "the folder gone cannot be read" in missing_input(tmp_path / "gone/a.c", tmp_path).hint


def test_a_file_that_is_there_is_not_suggested_in_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "a.mlir").mkdir()
    os.mkfifo(tmp_path / "b.mlir")
    assert "a.mlir?" not in missing_input(tmp_path / "a.mlir", tmp_path).hint
    assert "b.mlir?" not in missing_input(tmp_path / "b.mlir", tmp_path).hint  # nor waits for a writer


def test_the_system_says_why_a_file_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_input(tmp_path / ("x" * 300), tmp_path).message.endswith(": File name too long")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root may read everything
    error = missing_input(tmp_path / "a.mlir", tmp_path)
    assert error.message == "a.mlir does not exist or cannot be read: Permission denied"
    assert error.hint == "make it readable for yourself"
