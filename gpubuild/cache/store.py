"""Store: the interface between the build and a cache; ``NullStore`` for builds without one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from gpubuild.model.digest import Digest
from gpubuild.model.step import ActionResult, Blob
from gpubuild.support.frozen import frozen


@frozen
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

    def peek(self, key: Digest) -> ActionResult | None:
        """What :meth:`lookup` would give; no blob is moved from one machine to another for it."""
        ...

    @property
    def has_remote(self) -> bool:
        """Whether look-ups may ask another machine, so that :meth:`anticipate` pays."""
        ...

    def anticipate(self, keys: Iterable[Digest]) -> None:
        """These keys will soon be looked up: a store that is slow to answer may begin now."""
        ...

    def is_remote(self, key: Digest) -> bool:
        """Whether the result that ``lookup`` gave for ``key`` came from another machine."""
        ...

    def fetch(self, blob: Blob, destination: Path) -> bool:
        """Put a verified copy of ``blob`` at ``destination`` atomically; False is a miss.

        A blob that is missing or does not match its digest is set aside and never served.
        """
        ...

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """Store ``result``; ``files`` maps blob names to files. Blobs are durable before the record."""
        ...

    @property
    def place(self) -> str:
        """Which cache on this machine this is: another text after it was emptied or made anew.

        Empty when nothing can be kept there. Costs next to nothing and opens nothing.
        """
        ...

    def keep(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """Publish an earlier build's result on this machine, unless it is there; whether it is now."""
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

    def cancel(self) -> None:
        """The build was interrupted: :meth:`close` shall not wait for anybody."""
        ...

    def close(self) -> None:
        """Release files and locks."""
        ...


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
