import json
import os
from pathlib import Path

import pytest

from gpubuild.model.digest import digest_bytes
from gpubuild.toolchain.memo import Memo


def saved(tmp_path: Path, content: bytes = b"one") -> tuple[Path, Path]:
    file, memo_path = tmp_path / "tool", tmp_path / "state" / "memo.json"
    file.write_bytes(content)
    memo = Memo(memo_path)
    memo.digest(file)
    memo.learn("version", file, "1.2")
    memo.save()
    return file, memo_path


def test_a_known_file_is_not_read_again(tmp_path: Path) -> None:
    file, path = saved(tmp_path)
    document = json.loads(path.read_text())
    (key,) = document["digests"]
    document["digests"][key] = "a" * 64
    path.write_text(json.dumps(document))
    assert Memo(path).digest(file) == "a" * 64
    assert Memo(path).fact("version", file) == "1.2"


def test_a_swap_that_keeps_size_and_modification_time_is_seen(tmp_path: Path) -> None:
    file, path = saved(tmp_path)
    before = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    memo = Memo(path)
    assert memo.digest(file) == digest_bytes(b"two")
    assert memo.fact("version", file) is None


def test_a_link_that_points_elsewhere_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    (tmp_path / "b").write_bytes(b"b")
    link = tmp_path / "link"
    link.symlink_to("a")
    memo = Memo(None)
    first = memo.digest(link)
    link.unlink()
    link.symlink_to("b")
    assert memo.digest(link) != first


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"schema": 99}', b'{"schema": 1, "digests": {"x": 1}}']
)
def test_a_damaged_memo_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    file, path = saved(tmp_path)
    path.write_bytes(content)
    memo = Memo(path)
    assert memo.digest(file) == digest_bytes(b"one")
    memo.save()
    assert Memo(path).digest(file) == digest_bytes(b"one")


def test_a_truncated_memo_never_gives_a_wrong_digest(tmp_path: Path) -> None:
    file, path = saved(tmp_path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert Memo(path).digest(file) == digest_bytes(b"one")


def test_a_memo_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    memo = Memo(tmp_path / "file" / "memo.json")
    memo.digest(tmp_path / "file")
    memo.save()


def test_a_new_checkout_knows_what_another_has_learnt(tmp_path: Path) -> None:
    file, shared = tmp_path / "tool", tmp_path / "user" / "memo.json"
    file.write_bytes(b"one")
    first = Memo(tmp_path / "a" / "memo.json", shared)
    first.learn("version", file, "1.2")
    first.digest(file)
    first.save()
    assert Memo(tmp_path / "b" / "memo.json", shared).fact("version", file) == "1.2"
    file.write_bytes(b"two")
    second = Memo(tmp_path / "b" / "memo.json", shared)
    assert second.fact("version", file) is None
    assert second.digest(file) == digest_bytes(b"two")


def test_the_shared_memo_keeps_the_entries_of_others_and_the_newest_of_a_file(tmp_path: Path) -> None:
    one, two, shared = tmp_path / "one", tmp_path / "two", tmp_path / "memo.json"
    for file in (one, two):
        file.write_bytes(b"x")
    first, second = Memo(None, shared), Memo(None, shared)
    first.digest(one)
    first.save()
    second.digest(two)
    second.save()
    one.write_bytes(b"changed")
    third = Memo(None, shared)
    third.digest(one)
    third.save()
    known = json.loads(shared.read_text())["digests"]
    assert sorted(Path(key.split("|")[0]).name for key in known) == ["one", "two"]
    assert digest_bytes(b"changed") in known.values()


def test_a_memo_that_others_may_write_is_an_empty_one(tmp_path: Path) -> None:
    file, path = saved(tmp_path)
    assert Memo(path).fact("version", file) == "1.2"
    path.chmod(0o620)
    assert Memo(path).fact("version", file) is None
