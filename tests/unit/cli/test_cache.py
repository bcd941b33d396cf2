"""The cache commands on a cache that was filled by hand."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, blob_path, make_result

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.history import BuildEntry, Group, project_id, write_history
from gpubuild.cli.cache import parse_age, parse_size
from gpubuild.cli.main import main
from gpubuild.errors import UsageError
from gpubuild.toolchain.run import collect_later


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """One result, and a history of two builds."""
    store = DiskStore(tmp_path / "cache")
    assert store.publish(KEY, *make_result(tmp_path / "out"))
    store.close()
    groups = (
        Group(kind="compile", target="sm_90", hit_local=3, ran=1),
        Group(kind="preprocess", target=""),
    )
    entries = [BuildEntry(when=n, groups=groups, tools={}, options={}, keys=(KEY,)) for n in (1, 2)]
    write_history(tmp_path / "cache", project_id(["app"]), entries)
    return tmp_path / "cache"


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = main(["cache", *map(str, arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def test_stats(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "stats", "--cache-dir", cache)
    assert code == 0
    assert "results      1" in out and "hit rate     75% 75%" in out
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert rows["compile"] == ["compile", "sm_90", "75%", "6", "0", "0", "2"]
    assert rows["preprocess"] == ["preprocess", "-", "-", "0", "0", "0", "0"]
    document = json.loads(run(capsys, "stats", "--json", "--cache-dir", cache)[1])
    assert document["records"] == 1
    assert document["builds"] == [{"when": 1, "hit_rate": 0.75}, {"when": 2, "hit_rate": 0.75}]
    assert document["groups"][0]["hit_local"] == 6


def test_verify(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "verify", "--cache-dir", cache)[:2] == (
        0,
        f"{cache}: 1 result, 3 blobs, 269 B: all good\n",
    )
    path = blob_path(cache, CONTENT["object"])
    path.chmod(0o644)
    path.write_bytes(bytes(256))
    code, out, _ = run(capsys, "verify", "--cache-dir", cache)
    assert code == 1
    assert path.name in out and "1 bad; 1 incomplete result dropped" in out
    document = json.loads(run(capsys, "verify", "--json", "--cache-dir", cache)[1])
    assert document["ok"] and document["records"] == 0


@pytest.mark.parametrize("command", ["stats", "verify", "gc", "clear"])
def test_a_cache_that_cannot_be_used_has_no_numbers(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("gpubuild.cache.local.index.WritableIndex", refuse)
    code, out, err = run(capsys, command, "--cache-dir", cache)
    assert (code, out) == (2, "")
    assert f"cannot use the cache {cache}: cannot open its index: Permission denied" in err


def test_gc(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(run(capsys, "gc", "--json", "--cache-dir", cache)[1])["freed_bytes"] == 0
    past = time.time() - 40 * 86400
    for path in (cache / "cas").rglob("*"):
        if path.is_file():
            os.utime(path, (past, past))
    code, out, _ = run(capsys, "gc", "--max-age", "30d", "--cache-dir", cache)
    assert code == 0 and "269 B freed, 1 result dropped, 0 B kept" in out


def test_gc_in_a_process_of_its_own(cache: Path) -> None:
    """What a build that ends with a full cache starts."""
    collect_later(cache, 0)
    for _ in range(2400):  # at the lowest priority, on a machine that may be busy
        if not any(p.is_file() for p in (cache / "cas").rglob("*")):
            break
        time.sleep(0.05)
    else:
        pytest.fail("nothing was collected")


def test_export_and_import(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.tar"
    code, out, err = run(capsys, "export", file, "--cache-dir", cache)
    assert (code, out, err) == (0, f"{file}: 1 result, 269 B\n", "")
    code, out, err = run(capsys, "import", file, "--cache-dir", tmp_path / "second")
    assert (code, out, err) == (0, f"{tmp_path / 'second'}: 1 result, 269 B new\n", "")
    os.truncate(file, file.stat().st_size - 1500)
    code, out, err = run(capsys, "import", file, "--json", "--cache-dir", tmp_path / "third")
    assert code == 1
    assert json.loads(out)["records"] == 0
    assert "it ends early" in err


def test_nothing_to_export_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "export", tmp_path / "a.tar", "--cache-dir", tmp_path / "empty")
    assert code == 0
    assert "nothing to export" in err


def test_no_file_to_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "import", tmp_path / "none.tar", "--cache-dir", tmp_path / "cache")
    assert code == 2
    assert "cannot read" in err


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("1000", 1000), ("2GiB", 2 << 30), ("1.5 M", 3 << 19), ("7KB", 7 << 10)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "-1", "2 XB", "many", "1e9", "2GiBs"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(UsageError, match="not a size"):
        parse_size(text)


def test_ages() -> None:
    assert [parse_age(t) for t in ("30m", "12h", "14d", "2w")] == [1800, 43200, 1209600, 1209600]
    with pytest.raises(UsageError, match="length of time"):
        parse_age("14")
