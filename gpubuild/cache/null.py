"""NullStore: no cache at all, for ``--no-cache``.

Alone: what a store answers that has no other machine behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from gpubuild.cache.protocol import StoreStats
from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult, Blob


class Alone:
    """Part of a ``Store``. A look-up on this machine takes 0.1 ms: nothing to prepare or wait for."""

    @property
    def has_remote(self) -> bool:
        """See ``Store``."""
        return False

    def anticipate(self, keys: Iterable[Digest]) -> None:
        """See ``Store``."""

    def is_remote(self, key: Digest) -> bool:
        """See ``Store``."""
        return False

    def cancel(self) -> None:
        """See ``Store``."""


class NullStore(Alone):
    """A ``Store`` in which nothing is ever found and nothing is kept."""

    def lookup(self, key: Digest) -> ActionResult | None:
        """Miss."""
        return None

    peek = lookup

    def fetch(self, blob: Blob, destination: Path) -> bool:
        """Miss."""
        return False

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """Store nothing."""
        return False

    @property
    def place(self) -> str:
        """Nowhere."""
        return ""

    def keep(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """Keep nothing."""
        return False

    def discard(self, key: Digest) -> None:
        """Forget nothing."""

    def stats(self) -> StoreStats:
        """All zero."""
        return StoreStats(directory="", records=0, blobs=0, size_bytes=0, reclaimable_bytes=0, quarantined=0)

    def clear(self) -> int:
        """Delete nothing."""
        return 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """None, ever."""
        return ()

    def close(self) -> None:
        """Release nothing."""
