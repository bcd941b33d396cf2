"""Open the store of a build, from the ``cache:`` section of the project and the environment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.folder import trust_everyone, why_not_personal, why_untrusted
from gpubuild.cache.store import NullStore, Store
from gpubuild.errors import UsageError
from gpubuild.model.project import CacheConfig, RemoteCache, RemoteMode
from gpubuild.settings import NO_USER_CACHE, Settings
from gpubuild.support.frozen import replace

if TYPE_CHECKING:
    from gpubuild.cache.remote.store import RemoteStore

_OFF = "off"
_USER_LIMIT_BYTES = 5 << 30


def user_cache(settings: Settings) -> tuple[Path, str]:
    """Return the folder of the cache that this user's projects share, and why it cannot be used."""
    if settings.user_cache == NO_USER_CACHE:
        return NO_USER_CACHE, "neither XDG_CACHE_HOME nor HOME is the path of a folder"
    folder = settings.user_cache / "results"
    return folder, why_not_personal(folder)


def locate(config: CacheConfig, settings: Settings, project: Path) -> tuple[Path, int]:
    """Return the folder of the cache and its limit in bytes. ``project`` is a folder."""
    if config.directory is not None:
        return config.directory, config.max_size_bytes
    folder, problem = user_cache(settings)
    return (project / "cache", 0) if problem else (folder, _USER_LIMIT_BYTES)


def open_store(
    config: CacheConfig | None,
    settings: Settings | None = None,
    on_full: Callable[[Path, int], None] | None = None,
    project: Path | None = None,
) -> Store:
    """Return the store that ``config`` describes; ``None`` (``--no-cache``) stores nothing.

    ``settings`` may override the remote cache and its mode, and have its credentials. ``on_full``: see
    ``DiskStore``; ``project``, a folder: see ``why_untrusted``. Files and network are opened on first
    use. Raises ``UsageError`` for a wrong address or mode.
    """
    settings = settings or Settings()
    mode = settings.cache_mode or RemoteMode.READ_WRITE
    if config is None or mode == _OFF:
        return NullStore()
    directory, max_size_bytes = locate(config, settings, project or Path())
    local = DiskStore(
        directory,
        max_size_bytes=max_size_bytes,
        read_only=mode == RemoteMode.READ_ONLY,
        write_only=mode == RemoteMode.WRITE_ONLY,
        audit=trust_everyone if settings.cache_shared else partial(why_untrusted, project=project),
        on_full=on_full,
    )
    remote = choose_remote(config.remote, settings)
    if remote is not None and mode == RemoteMode.WRITE_ONLY:
        remote = replace(remote, mode=RemoteMode.WRITE_ONLY) if remote.mode != RemoteMode.READ_ONLY else None
    if remote is None:
        return local
    from gpubuild.cache.remote.tiered import TieredStore  # most builds have no remote cache

    store, problem = open_remote(remote, settings)
    if problem:
        local.warn_once("credentials", problem)
    return TieredStore(local, store)


def open_remote(remote: RemoteCache, settings: Settings) -> tuple[RemoteStore, str]:
    """Return the remote cache with the credentials of the environment, and a warning, or ""."""
    # Imported here: HTTP costs 25 ms.
    from gpubuild.cache.remote.http import find_authorization
    from gpubuild.cache.remote.store import RemoteStore

    authorization, problem = find_authorization(remote.url, settings)
    return RemoteStore(remote.url, mode=remote.mode, authorization=authorization), problem


def choose_remote(configured: RemoteCache | None, settings: Settings) -> RemoteCache | None:
    """Return the remote cache to use; the environment overrides the project file.

    Raises ``UsageError``.
    """
    url = settings.remote_url or (configured.url if configured else "")
    if settings.remote_mode == _OFF or not url:
        return None
    mode = settings.remote_mode or (configured.mode if configured else RemoteMode.READ_WRITE)
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        parts, good = urlsplit(""), False
    if parts.username is not None or parts.password is not None:
        # The address may contain a password, so the message does not repeat it.
        raise UsageError(
            "the address of the remote cache has a user or password in it",
            hint="put them into GPUBUILD_REMOTE_USER and GPUBUILD_REMOTE_PASSWORD, or into ~/.netrc",
        )
    if not good or parts.query or parts.fragment:
        raise UsageError(
            f"the address of the remote cache cannot be used: {url}",
            hint="write something like https://cache.example:8080/gpubuild",
        )
    return RemoteCache(url=url.rstrip("/"), mode=RemoteMode(mode))
