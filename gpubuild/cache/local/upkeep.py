"""Upkeep of the local cache: evict what was used longest ago, verify all blobs and records."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from gpubuild.cache.local.blobs import StoredBlob
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.local.folder import locked
from gpubuild.support.frozen import frozen

_STALE_SECONDS = 24 * 3600.0


@frozen
class Collected:
    """What :func:`collect` did. ``busy``: another process is collecting, nothing was done."""

    freed_bytes: int = 0
    blobs: int = 0
    records: int = 0
    kept_bytes: int = 0
    busy: bool = False


@frozen
class Verified:
    """What :func:`verify` found. ``incomplete`` results lacked a blob and were dropped."""

    records: int
    blobs: int
    size_bytes: int
    damaged: tuple[str, ...]  # digests, set aside
    unreadable: tuple[str, ...]
    incomplete: int

    @property
    def ok(self) -> bool:
        """Whether nothing was damaged. Results made incomplete by eviction are no damage."""
        return not self.damaged and not self.unreadable


def collect(
    store: DiskStore, *, max_size_bytes: int | None = None, max_age_seconds: float | None = None
) -> Collected:
    """Delete blobs that no result names, old ones, and the least recently used until the rest fits.

    Safe while others build: records are deleted before the blobs they name, so a reader sees complete
    results or misses. A blob that was just used again is kept.
    """
    made = store.make_room()
    if not store.writable:
        return Collected(freed_bytes=made)
    with locked(store.directory / "gc.lock", wait_seconds=0.0) as alone:
        if not alone:
            return Collected(busy=True)
        now = time.time()
        records = store.records()
        wanted = {blob.digest for result in records.values() for blob in result.blobs}
        blobs = sorted(store.blobs.scan(), key=lambda blob: blob.used_seconds)
        # A blob without a record may be one that is being published.
        doomed = [b for b in blobs if b.digest not in wanted and now - b.used_seconds > _STALE_SECONDS]
        if max_age_seconds is not None:
            doomed += [b for b in blobs if b.digest in wanted and now - b.used_seconds > max_age_seconds]
        gone = {blob.digest for blob in doomed}
        excess = sum(blob.size_bytes for blob in blobs if blob.digest not in gone)
        excess -= excess if max_size_bytes is None else max_size_bytes
        for blob in blobs:
            if excess <= 0:
                break
            if blob.digest not in gone:
                doomed.append(blob)
                excess -= blob.size_bytes
        left = {blob.digest for blob in blobs} - {blob.digest for blob in doomed}
        dropped = [key for key, r in records.items() if not left.issuperset(b.digest for b in r.blobs)]
        for key in dropped:
            del records[key]
            store.discard(key)
        # The other blobs of dropped results are unused, empty files too.
        left &= wanted - {blob.digest for result in records.values() for blob in result.blobs}
        doomed += [blob for blob in blobs if blob.digest in left]
        freed = [store.blobs.delete(blob) for blob in doomed]
        kept = sum(blob.size_bytes for blob in blobs) - sum(freed)
        store.note_size(kept)
        return Collected(
            freed_bytes=made + sum(freed) + store.blobs.sweep(older_than_seconds=_STALE_SECONDS),
            blobs=len(doomed),
            records=len(dropped),
            kept_bytes=kept,
        )


def verify(store: DiskStore, *, workers: int = 4) -> Verified:
    """Hash every blob again and read every record; move bad ones to quarantine."""
    records = store.records()
    blobs = list(store.blobs.scan())

    def check(blob: StoredBlob) -> str:
        try:
            return "" if store.blobs.rehash(blob) else "damaged"
        except OSError:
            return "unreadable"

    with ThreadPoolExecutor(max_workers=workers) as pool:  # hashing releases the interpreter's lock
        verdicts = list(zip(blobs, pool.map(check, blobs), strict=True))
    incomplete = [key for key, r in records.items() if not all(store.has(blob) for blob in r.blobs)]
    for key in incomplete:
        store.discard(key)
    return Verified(
        records=len(records) - len(incomplete),
        blobs=len(blobs),
        size_bytes=sum(blob.size_bytes for blob in blobs),
        damaged=tuple(blob.digest for blob, verdict in verdicts if verdict == "damaged"),
        unreadable=tuple(blob.digest for blob, verdict in verdicts if verdict == "unreadable"),
        incomplete=len(incomplete),
    )
