"""NullStore: no cache at all, for ``--no-cache``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpubuild.cache.alone import Alone
from gpubuild.cache.protocol import StoreStats
from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult, Blob


class NullStore(Alone):
    """A ``Store`` in which nothing is ever found and nothing is kept."""

    def lookup(self, key: Digest) -> ActionResult | None:
        """Miss."""
        return None

    peek = lookup

    @property
    def directory(self) -> Path | None:
        """None."""
        return None

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
