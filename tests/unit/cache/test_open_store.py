"""Which store a build gets: what the project file, GPUBUILD_CACHE and the remote cache's variables say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from unit.cache.samples import KEY, make_result

from gpubuild.cache.open_store import open_store
from gpubuild.cache.protocol import Store
from gpubuild.errors import UsageError
from gpubuild.model.project import CacheConfig, RemoteCache, RemoteMode
from gpubuild.settings import Settings


def opened(folder: Path, mode: str) -> Store:
    return open_store(CacheConfig(directory=folder), Settings.from_environ({"GPUBUILD_CACHE": mode}))


@pytest.mark.parametrize(
    ("mode", "stores", "finds"),
    [
        ("", True, True),
        ("read-write", True, True),
        ("read-only", False, True),
        ("write-only", True, False),
        ("off", False, False),
    ],
)
def test_what_each_mode_does(mode: str, stores: bool, finds: bool, tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    empty = opened(tmp_path / "empty", mode)
    assert empty.publish(KEY, result, files) == stores
    empty.close()
    assert (tmp_path / "empty").exists() == stores
    full = opened(tmp_path / "full", "")
    assert full.publish(KEY, result, files)
    full.close()
    store = opened(tmp_path / "full", mode)
    assert (store.lookup(KEY) is not None) == finds
    assert (store.peek(KEY) is not None) == finds
    assert store.warnings == ()
    store.close()


def test_what_is_made_anew_replaces_what_is_stored(tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    for mode in ("", "write-only"):
        store = opened(tmp_path / "cache", mode)
        assert store.publish(KEY, result, files)
        store.close()
    again = opened(tmp_path / "cache", "")
    assert again.lookup(KEY) == result
    again.close()


def test_write_only_takes_nothing_from_a_server_either(tmp_path: Path) -> None:
    for configured, asked in ((RemoteMode.READ_WRITE, True), (RemoteMode.READ_ONLY, False)):
        config = CacheConfig(
            directory=tmp_path, remote=RemoteCache(url="http://127.0.0.1:1", mode=configured)
        )
        store = open_store(config, Settings(cache_mode="write-only"))
        assert not store.has_remote  # nothing to anticipate
        assert (type(store).__name__ == "TieredStore") == asked


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="GPUBUILD_CACHE is 'no'") as caught:
        opened(tmp_path, "no")
    assert "read-only" in caught.value.hint


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://cache.example", "cannot be used"),
        ("http://", "cannot be used"),
        ("http://cache.example:99999", "cannot be used"),
        ("http://cache.example/?token=hunter2", "cannot be used"),
        ("http://user:hunter2@cache.example", "a user or password"),
    ],
)
def test_an_address_that_cannot_be(tmp_path: Path, url: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        open_store(CacheConfig(directory=tmp_path), Settings(remote_url=url))
    assert "user" not in url or "hunter2" not in caught.value.render()


def test_the_environment_goes_before_the_project_file(tmp_path: Path) -> None:
    config = CacheConfig(directory=tmp_path / "c", remote=RemoteCache(url="http://127.0.0.1:1"))
    assert open_store(config, Settings()).has_remote
    assert not open_store(config, Settings(remote_mode="off")).has_remote
    assert not open_store(config, Settings(remote_mode="write-only")).has_remote
    only_here = CacheConfig(directory=tmp_path / "c")
    assert not open_store(only_here, Settings()).has_remote
    assert open_store(only_here, Settings(remote_url="http://127.0.0.1:1")).has_remote
    with pytest.raises(UsageError, match="GPUBUILD_REMOTE_MODE"):
        open_store(config, Settings(remote_mode="readonly"))
    assert not (tmp_path / "c").exists()


def test_without_a_remote_no_http_is_imported() -> None:
    code = (
        "import sys; from pathlib import Path; from gpubuild.cache.open_store import open_store;"
        "from gpubuild.model.project import CacheConfig;"
        "open_store(CacheConfig(directory=Path('/nonexistent')));"
        "sys.exit(bool({'http.client', 'ssl', 'netrc', 'zlib'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
