"""Store: what the build asks of a cache, local or remote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult, Blob


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Sizes of a store. ``reclaimable_bytes`` are blobs no record names."""

    directory: str
    records: int
    blobs: int
    size_bytes: int
    reclaimable_bytes: int
    quarantined: int


class Store(Protocol):
    """An action cache with its content-addressed blobs.

    No method raises for a broken, full, locked or unreachable store: look-ups miss, fetches and
    publications return False, and one warning per cause is kept for the report (invariant 2).
    """

    def lookup(self, key: Digest) -> ActionResult | None:
        """The result stored under ``key``, if its record is well-formed; blobs are not read yet."""
        ...

    def fetch(self, blob: Blob, destination: Path) -> bool:
        """Put a verified copy of ``blob`` at ``destination`` atomically; False is a miss.

        A blob that is missing or does not match its digest is set aside and never served.
        """
        ...

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """Store ``result``; ``files`` maps blob names to files. Blobs are durable before the record."""
        ...

    def discard(self, key: Digest) -> None:
        """Forget the record of ``key`` after a fetch of one of its blobs failed."""
        ...

    def stats(self) -> StoreStats:
        """Count and measure."""
        ...

    def clear(self) -> int:
        """Delete everything; returns the bytes freed."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """What went wrong so far, one message per cause."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...
