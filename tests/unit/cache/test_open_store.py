"""Which store a build gets: what the project file, GPUBUILD_CACHE and the remote cache's variables say."""

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from unit.cache.samples import KEY, make_result

from gpubuild.cache.open_store import locate, open_store, user_cache
from gpubuild.cache.store import Store
from gpubuild.cli.main import main
from gpubuild.errors import UsageError
from gpubuild.model.project import CacheConfig, RemoteCache, RemoteMode
from gpubuild.model.step import ActionResult
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
    with closing(opened(tmp_path / "empty", mode)) as empty:
        assert empty.publish(KEY, result, files) == stores
    assert (tmp_path / "empty").exists() == stores
    with closing(opened(tmp_path / "full", "")) as full:
        assert full.publish(KEY, result, files)
    with closing(opened(tmp_path / "full", mode)) as store:
        assert (store.lookup(KEY) is not None) == finds
        assert (store.peek(KEY) is not None) == finds
        assert store.warnings == ()


def test_what_is_made_anew_replaces_what_is_stored(tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    for mode in ("", "write-only"):
        with closing(opened(tmp_path / "cache", mode)) as store:
            assert store.publish(KEY, result, files)
    with closing(opened(tmp_path / "cache", "")) as again:
        assert again.lookup(KEY) == result


def test_write_only_takes_nothing_from_a_server_either(tmp_path: Path) -> None:
    for configured, asked in ((RemoteMode.READ_WRITE, True), (RemoteMode.READ_ONLY, False)):
        remote = RemoteCache(url="http://127.0.0.1:1", mode=configured)
        store = open_store(CacheConfig(directory=tmp_path, remote=remote), Settings(cache_mode="write-only"))
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
    assert not (tmp_path / "c").exists()


def test_a_store_that_is_opened_imports_nothing_dear() -> None:
    """Without a remote cache, none of HTTP."""
    code = (
        "import sys; from pathlib import Path; from gpubuild.cache.open_store import open_store;"
        "from gpubuild.model.project import CacheConfig;"
        "open_store(CacheConfig(directory=Path('/nonexistent')));"
        "sys.exit(bool({'sqlite3', 'http.client', 'ssl', 'netrc', 'zlib'} & {*sys.modules}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def planted(cache: Path, tmp_path: Path) -> tuple[ActionResult, dict[str, Path]]:
    """A result that is under KEY in ``cache``, and its files."""
    made = make_result(tmp_path / "out")
    with closing(opened(cache, "")) as store:
        assert store.publish(KEY, *made)
    return made


@pytest.mark.parametrize("folder", [".", "index", "cas"])
@pytest.mark.parametrize("mode", ["", "read-only"])
def test_a_cache_that_every_user_can_write(folder: str, mode: str, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    result, files = planted(cache, tmp_path)
    (cache / folder).chmod(0o777)
    with closing(opened(cache, mode)) as store:
        assert store.lookup(KEY) is None
        assert not store.publish(KEY, result, files)
        assert store.identity == ""
        (warning,) = store.warnings
        problem = f"every user can write to {cache / folder} (chmod"
        assert warning.startswith(f"the cache {cache} is not used: {problem}")
    variables = {"GPUBUILD_CACHE": mode, "GPUBUILD_CACHE_SHARED": "1"}
    with closing(open_store(CacheConfig(directory=cache), Settings.from_environ(variables))) as shared:
        assert shared.lookup(KEY) is not None
        assert shared.warnings == ()


@pytest.mark.parametrize("mode", [0o1777, 0o775])
def test_others_who_can_change_nothing_or_were_let_in(mode: int, tmp_path: Path) -> None:
    planted(tmp_path / "cache", tmp_path)
    (tmp_path / "cache").chmod(mode)
    with closing(opened(tmp_path / "cache", "")) as store:
        assert store.lookup(KEY) is not None


@pytest.mark.parametrize("folder", [".", "index", "cas"])
def test_a_cache_of_another_user(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(tmp_path / "cache", tmp_path)
    there, stat = tmp_path / "cache" / folder, Path.stat

    def other(path: Path, **options: bool) -> object:
        found = stat(path, **options)
        values = list(found)
        values[4] = 4_000_000_000 if path == there or path == tmp_path / "theirs" else os.geteuid()
        return os.stat_result(values)

    (tmp_path / "theirs").mkdir()
    monkeypatch.setattr(Path, "stat", other)
    config = CacheConfig(directory=tmp_path / "cache")
    for project, found in ((None, False), (tmp_path, False), (tmp_path / "theirs", True)):
        with closing(open_store(config, project=project)) as store:
            assert (store.lookup(KEY) is not None) == found
            words = f"{there} belongs to another user, 4000000000;"
            assert [words in warning for warning in store.warnings] == ([] if found else [True])


def test_commands_about_a_cache_that_every_user_can_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    planted(tmp_path / "cache", tmp_path)
    (tmp_path / "cache").chmod(0o777)
    folder = ["--cache-dir", str(tmp_path / "cache")]
    assert main(["cache", "export", str(tmp_path / "archive"), "--all", *folder]) == 2
    assert "every user can write" in capsys.readouterr().err
    assert main(["cache", "stats", *folder]) == 2
    monkeypatch.setenv("GPUBUILD_CACHE_SHARED", "1")
    assert main(["cache", "stats", *folder]) == 0
    monkeypatch.setenv("GPUBUILD_CACHE_SHARED", "0")
    assert main(["cache", "clear", *folder]) == 0  # it takes nothing from there
    monkeypatch.setenv("GPUBUILD_CACHE_SHARED", "yes")
    assert main(["cache", "clear", *folder]) == 2


# --- the cache of a user's projects ---


def test_projects_that_name_no_cache_share_one(tmp_path: Path) -> None:
    result, files = make_result(tmp_path / "out")
    for number, variables in enumerate(
        ({"HOME": str(tmp_path / "me")}, {"XDG_CACHE_HOME": str(tmp_path / "me/.cache"), "HOME": "/other"})
    ):
        settings = Settings.from_environ(variables)
        with closing(open_store(CacheConfig(), settings, project=tmp_path / f"{number}")) as store:
            assert (store.lookup(KEY) is not None) == bool(number)
            assert store.publish(KEY, result, files)
        where, limit = locate(CacheConfig(), settings, tmp_path / f"{number}")
        assert where == tmp_path / "me/.cache/gpubuild/results"
        assert limit > 1 << 30
    assert locate(CacheConfig(directory=tmp_path / "c"), settings, tmp_path) == (tmp_path / "c", 0)


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({}, "neither XDG_CACHE_HOME nor HOME is the path of a folder"),
        ({"HOME": "", "XDG_CACHE_HOME": "relative"}, "neither XDG_CACHE_HOME nor HOME"),
        ({"HOME": "TMP/file"}, "results cannot be written"),
        ({"HOME": "TMP/home"}, "TMP/home/.cache/gpubuild/results is not a folder"),
        (
            {"HOME": "TMP/nobody", "XDG_CACHE_HOME": "TMP/theirs"},
            "TMP/theirs/gpubuild belongs to another user",
        ),
    ],
)
def test_a_user_without_a_folder_for_caches(variables: dict[str, str], problem: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "home/.cache/gpubuild").mkdir(parents=True)
    (tmp_path / "home/.cache/gpubuild/results").touch()
    (tmp_path / "theirs/gpubuild").mkdir(parents=True)
    if "theirs" in problem:
        if os.geteuid():
            pytest.skip("only root can give a folder away")
        os.chown(tmp_path / "theirs/gpubuild", 12345, -1)
    settings = Settings.from_environ({k: v.replace("TMP", str(tmp_path)) for k, v in variables.items()})
    assert problem.replace("TMP", str(tmp_path)) in user_cache(settings)[1]
    assert locate(CacheConfig(), settings, tmp_path / "p") == (tmp_path / "p/cache", 0)
