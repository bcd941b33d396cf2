"""The interface between the build and a cache, and ``NullStore`` for builds without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult, Blob

if TYPE_CHECKING:
    from gpubuild.cache.remote.store import RemoteStore


class Store:
    """An action cache with its content-addressed blobs; this one finds and keeps nothing.

    No method raises for a broken, full, locked or unreachable store: look-ups miss, fetches and
    publications return False, and one warning per cause is kept for the report (invariant 2).
    """

    def lookup(self, key: Digest) -> ActionResult | None:
        """Return the result stored under ``key``, if its record is well-formed; read no blobs."""
        return None

    def peek(self, key: Digest) -> ActionResult | None:
        """Return the result of :meth:`lookup` without moving blobs between machines."""
        return self.lookup(key)

    @property
    def has_remote(self) -> bool:
        """Whether look-ups may ask another machine, so that :meth:`anticipate` saves time."""
        return False

    @property
    def remote(self) -> RemoteStore | None:
        """The cache on another machine behind this one."""
        return None

    def anticipate(self, keys: Iterable[Digest]) -> None:
        """Announce keys that will soon be looked up: a slow store may begin now."""

    def is_remote(self, key: Digest) -> bool:
        """Whether the result of ``lookup`` for ``key`` came from another machine."""
        return False

    def fetch(self, blob: Blob, destination: Path) -> bool:
        """Put a verified copy of ``blob`` at ``destination`` atomically; False is a miss.

        A blob that is missing or does not match its digest is set aside and never served.
        Raises ``DestinationError``, for which there is a warning, too: the record is good.
        """
        return False

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """Store ``result``; ``files`` maps blob names to files. Blobs are durable before the record."""
        return False

    @property
    def identity(self) -> str:
        """The identity of the cache on this machine: it changes when the cache is cleared or replaced.

        Empty when nothing can be stored there. Cheap, and opens nothing.
        """
        return ""

    def keep(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """Publish an earlier build's result on this machine if it is missing; whether it is stored now."""
        return self.lookup(key) is not None or self.publish(key, result, files)

    def discard(self, key: Digest) -> None:
        """Remove the record of ``key`` after a fetch of one of its blobs failed."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return one message for each cause of failure so far."""
        return ()

    def cancel(self) -> None:
        """Note that the build was interrupted: :meth:`close` must not wait."""

    def close(self) -> None:
        """Release files and locks."""


class NullStore(Store):
    """A store for builds without a cache."""
