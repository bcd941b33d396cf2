"""Opening: from a project's ``cache:`` section to the store a build uses."""

from __future__ import annotations

from gpubuild.cache.disk import DiskStore
from gpubuild.cache.null import NullStore
from gpubuild.cache.protocol import Store
from gpubuild.model.project import CacheConfig


def open_store(config: CacheConfig | None) -> Store:
    """The store that ``config`` describes; ``None`` (``--no-cache``) keeps nothing.

    Touches no file: the folder is made and opened on first use.
    """
    if config is None:
        return NullStore()
    store = DiskStore(config.directory, max_size_bytes=config.max_size_bytes)
    if config.remote is not None:
        store.warn_once("remote", f"the remote cache {config.remote.url} is not used: not supported yet")
    return store
