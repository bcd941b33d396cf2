"""Export: a new one takes the place of the last while something may be reading that."""

import os
from pathlib import Path

from gpubuild.cli.export import _replace_files


def tree(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_files_are_replaced_one_by_one_and_others_go(tmp_path: Path) -> None:
    last = tree(tmp_path / "last", {"link.sh": "1", "runtime/a.c": "a", "old/b.c": "b", "kind": "file"})
    _replace_files(tree(tmp_path / "new", {"runtime/a.c": "a"}), tmp_path / "first one")
    assert (tmp_path / "first one/runtime/a.c").read_text() == "a"
    reader = os.open(last / "runtime", os.O_RDONLY | os.O_DIRECTORY)
    fresh = tree(tmp_path / "fresh", {"link.sh": "2", "runtime/a.c": "a", "kind/c.c": "c"})
    _replace_files(fresh, last)
    found = {str(p.relative_to(last)): p.read_text() for p in last.rglob("*") if p.is_file()}
    assert found == {"link.sh": "2", "runtime/a.c": "a", "kind/c.c": "c"}
    try:  # a new folder would be empty for a reader of the old one
        assert os.stat("a.c", dir_fd=reader)
    finally:
        os.close(reader)
