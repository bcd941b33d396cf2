"""Files that are replaced as a whole."""

import os
import stat
from pathlib import Path

import pytest

from gpubuild.support.files import Replacement, UserFile, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "state"
    write_atomically(file, b"one")
    assert file.read_bytes() == b"one"
    write_atomically(str(file), "größe\n")
    assert file.read_text(encoding="utf-8") == "größe\n"
    assert names(tmp_path) == ["state"]


def test_the_umask_counts(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "shared", b"")
        write_atomically(tmp_path / "private", b"", mode=0o600)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"shared": 0o640, "private": 0o600}


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"other")
    (tmp_path / "link").symlink_to("other")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "other").read_bytes() == b"other"
    assert not (tmp_path / "link").is_symlink()


def test_after_an_error_the_old_file_is_there_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "state"
    file.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), Replacement(file) as temporary:
        Path(temporary).write_bytes(b"half of the n")
        raise ZeroDivisionError
    assert file.read_bytes() == b"old"
    assert names(tmp_path) == ["state"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_atomically(tmp_path / "folder", b"new")
    with pytest.raises(FileNotFoundError):
        write_atomically(tmp_path / "absent/file", b"new")
    assert names(tmp_path) == ["folder", "state"]


def test_the_temporary_file_lies_where_it_is_asked_to(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with Replacement(tmp_path / "state", folder=tmp_path / "tmp") as temporary:
        assert Path(temporary).parent == tmp_path / "tmp"
        Path(temporary).write_bytes(b"new")
    assert (tmp_path / "state").read_bytes() == b"new"
    assert names(tmp_path / "tmp") == []


def test_a_file_of_the_user_is_whole_or_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_bytes(b"old")
    file.chmod(0o604)
    with pytest.raises(ZeroDivisionError), UserFile(file) as name:
        Path(name).write_bytes(b"half of the n")
        raise ZeroDivisionError
    assert file.read_bytes() == b"old"
    with UserFile(file) as name:
        Path(name).write_bytes(b"new")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"new", 0o604)
    assert names(tmp_path) == ["report"]


@pytest.mark.parametrize("what", ["link", "name", "pipe"])
def test_what_is_not_a_plain_file_of_the_user_stays_what_it_is(tmp_path: Path, what: str) -> None:
    file, target = tmp_path / "report", tmp_path / "target"
    target.write_bytes(b"old")
    if what == "link":
        file.symlink_to("target")
    elif what == "name":
        file.hardlink_to(target)
    else:
        os.mkfifo(file)
        reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
    before = file.lstat()
    with UserFile(file) as name:
        Path(name).write_bytes(b"new")
    assert (os.read(reader, 9) if what == "pipe" else target.read_bytes()) == b"new"
    assert os.path.samestat(file.lstat(), before)
