"""GPUBUILD_CACHE: what a build may do with caches."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.cache.samples import KEY, make_result

from gpubuild.cache.opening import open_store
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
