"""The local cache, filled from a remote one by a few threads while the build runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Empty, Queue
from typing import Any, TypeVar

from gpubuild.cache.local.blobs import DestinationError, write_chunks
from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.remote.bazel_result import RemoteRecord, Stored
from gpubuild.cache.remote.http import TimeLimits
from gpubuild.cache.remote.store import RemoteStore
from gpubuild.cache.store import Store
from gpubuild.model.digest import Digest, is_digest
from gpubuild.model.step import ActionResult, Blob
from gpubuild.support.text import counted

T = TypeVar("T")


class Transfers:
    """Runs functions in up to ``workers`` threads, which are started when needed.

    The threads are daemons, unlike those of ``concurrent.futures``: a server that does not answer
    must not keep a finished build from exiting. Each thread calls ``at_end`` before it stops.
    """

    def __init__(self, workers: int, at_end: Callable[[], None]) -> None:
        self._workers = workers
        self._at_end = at_end
        self._queue: Queue[tuple[Future[Any], Callable[[], Any]] | None] = Queue()
        self._threads = 0
        self._closed = False

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run ``work`` soon. Its exception, if any, is in the future."""
        future: Future[T] = Future()
        if self._closed:
            future.cancel()
            return future
        self._queue.put((future, work))
        if self._threads < min(self._workers, self._queue.unfinished_tasks):
            self._threads += 1
            threading.Thread(target=self._loop, name="gpubuild-remote", daemon=True).start()
        return future

    def drain(self, seconds: float) -> int:
        """Wait until all is done, at most ``seconds``. Return how many functions are not done."""
        queue = self._queue
        with queue.all_tasks_done:
            queue.all_tasks_done.wait_for(lambda: not queue.unfinished_tasks, max(0.0, seconds))
            return queue.unfinished_tasks

    def close(self) -> None:
        """Begin nothing more; do not wait for running functions."""
        self._closed = True
        with suppress(Empty):
            while True:
                self._queue.get_nowait()
        for _ in range(self._threads):
            self._queue.put(None)

    def _loop(self) -> None:
        while (task := self._queue.get()) is not None:
            future, work = task
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            finally:
                self._queue.task_done()
        self._at_end()


_DOWNLOADS = 8
_UPLOADS = 4


class TieredStore(Store):
    """A ``Store``: look-ups go to ``local``, then to ``remote``, whose results are copied to ``local``.

    Uploads run in the background; closing the store waits for them, within bounds.
    """

    def __init__(self, local: DiskStore, remote: RemoteStore, *, limits: TimeLimits | None = None) -> None:
        self._local = local
        self._remote = remote
        self._limits = limits or TimeLimits()
        self._downloads = Transfers(_DOWNLOADS, remote.close)
        self._uploads = Transfers(_UPLOADS, remote.close)
        self._coming: dict[Digest, Future[RemoteRecord | None]] = {}
        self._from_remote: set[Digest] = set()  # keys
        self._distrusted: set[Digest] = set()  # keys whose remote result turned out to be unusable
        self._stored: dict[Digest, Stored] = {}  # of blobs that remote records name
        self._local_keys: dict[Digest, Digest] = {}  # of blobs that local records name
        self._unsent = 0
        self._cancelled = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """See ``Store``."""
        warnings = (*self._local.warnings, *self._remote.warnings)
        if not self._unsent:
            return warnings
        unsent = counted(self._unsent, "result")
        return (*warnings, f"{unsent} could not be sent to the remote cache in time")

    @property
    def has_remote(self) -> bool:
        """See ``Store``: while the server answers."""
        return self._remote.readable

    @property
    def remote(self) -> RemoteStore:
        """See ``Store``."""
        return self._remote

    def anticipate(self, keys: Iterable[Digest]) -> None:
        """See ``Store``: begin to download what a look-up would find on the server."""
        for key in keys:
            if self._asks_remote(key) and key not in self._coming and self._local.lookup(key) is None:
                self._coming[key] = self._begin(key)

    def lookup(self, key: Digest) -> ActionResult | None:
        """See ``Store``. A remote result is copied to the local cache before it is returned."""
        coming = self._coming.pop(key, None)
        if coming is None:
            found = self._local.lookup(key)
            if found is not None:
                self._local_keys.update((blob.digest, key) for blob in found.blobs)
                return found
            if not self._asks_remote(key):
                return None
            coming = self._begin(key)
        try:
            record = coming.result()
        except CancelledError:
            return None
        if record is None:
            return None
        self._from_remote.add(key)
        self._stored.update(record.stored)
        if self._local.writable:
            self._local.adopt(key, record.result)
        return record.result

    def peek(self, key: Digest) -> ActionResult | None:
        """See ``Store``. Only the record is requested from the server."""
        found = self._local.lookup(key)
        if found is None and self._asks_remote(key) and (record := self._remote.find(key)) is not None:
            self._from_remote.add(key)
            found = record.result
        return found

    def is_remote(self, key: Digest) -> bool:
        """See ``Store``."""
        return key in self._from_remote

    def fetch(self, blob: Blob, destination: Path) -> bool:
        """See ``Store``. A blob that is missing or damaged locally comes from the server."""
        if self._local.fetch(blob, destination):
            return True
        stored = self._stored.get(blob.digest) or self._find_remote(blob)
        if stored is None:
            return False
        if self._repair(blob, stored):
            return self._local.fetch(blob, destination)
        try:
            return self._remote.receive(blob, stored, lambda chunks: write_chunks(blob, chunks, destination))
        except DestinationError as error:
            self._local.warn_once("destination", str(error))
            raise
        except OSError as error:
            self._local.warn_once("destination", str(error))
            return False

    def publish(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """See ``Store``. Results with ``discovered`` files are of use on this machine only."""
        kept = self._local.publish(key, result, files)
        if self._remote.writable and is_digest(key) and not result.discovered:
            self._uploads.submit(
                lambda: self._remote.send(key, result, lambda blob: self._source(blob, files))
            )
        return kept

    @property
    def identity(self) -> str:
        """See ``Store``: of the local cache."""
        return self._local.identity

    def keep(self, key: Digest, result: ActionResult, files: Mapping[str, Path]) -> bool:
        """See ``Store``: in the local cache. Only results made now are sent."""
        return self._local.keep(key, result, files)

    def discard(self, key: Digest) -> None:
        """See ``Store``. The remote record is not requested again in this build."""
        self._local.discard(key)
        self._distrusted.add(key)

    def cancel(self) -> None:
        """See ``Store``: uploads are dropped."""
        self._cancelled = True
        self._remote.stop()

    def close(self) -> None:
        """See ``Store``. Waits for uploads while the server accepts them."""
        try:
            self._downloads.close()
            left = self._uploads.drain(0.0 if self._cancelled else self._limits.drain)
            if self._remote.writable:
                self._unsent += left
        finally:
            self._remote.stop()
            self._uploads.close()
            self._local.close()

    def _asks_remote(self, key: Digest) -> bool:
        return self._remote.readable and is_digest(key) and key not in self._distrusted

    def _begin(self, key: Digest) -> Future[RemoteRecord | None]:
        keeps = self._local.writable  # opens it, in this thread
        return self._downloads.submit(lambda: self._download(key, keeps=keeps))

    def _download(self, key: Digest, *, keeps: bool) -> RemoteRecord | None:
        """Return the record of ``key``; with ``keeps``, store its blobs locally. Runs in any thread."""
        record = self._remote.find(key)
        if record is None or not keeps:
            return record
        for blob in record.result.blobs:
            if self._local.has(blob):
                continue
            try:
                stored = record.stored[blob.digest]
                if not self._remote.receive(blob, stored, partial(self._local.receive, blob)):
                    return None
            except OSError as error:
                self._local.note_write_error(error)
                return record  # its blobs are then fetched from the server
        return record

    def _find_remote(self, blob: Blob) -> Stored | None:
        """Return where the server has a blob whose local copy is damaged or gone."""
        key = self._local_keys.get(blob.digest)
        if key is None or not self._asks_remote(key):
            return None
        record = self._remote.find(key)
        if record is None or blob.digest not in record.stored:
            return None
        self._stored.update(record.stored)
        self._from_remote.add(key)
        return record.stored[blob.digest]

    def _repair(self, blob: Blob, stored: Stored) -> bool:
        """Copy ``blob`` from the server to the local cache."""
        if not self._local.writable or self._local.has(blob):
            return False
        try:
            if not self._remote.receive(blob, stored, partial(self._local.receive, blob)):
                return False
            self._local.blobs.sync([blob.digest])
        except OSError as error:
            self._local.note_write_error(error)
            return False
        return True

    def _source(self, blob: Blob, files: Mapping[str, Path]) -> Path:
        """Return the cache's copy, which is never edited, else the build's own."""
        return self._local.blobs.path(blob.digest) if self._local.has(blob) else files[blob.name]
