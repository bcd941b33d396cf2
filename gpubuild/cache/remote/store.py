"""Results on an HTTP server in Bazel's layout, ``/ac/<key>`` and ``/cas/<digest>``.

A bad server costs time, never correctness: every byte is checked against a digest from a record
with a checksum. After a few failures in a row the server is not used for the rest of the build.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from gpubuild.cache.local.blobs import DamagedBlobError, SourceError, read_verified
from gpubuild.cache.record import RecordError
from gpubuild.cache.remote.bazel_result import (
    MAX_REMOTE_RECORD_BYTES,
    Encoding,
    RemoteRecord,
    Stored,
    decode_remote,
    decompress,
    encode_remote,
)
from gpubuild.cache.remote.http import (
    HttpClient,
    RefusedError,
    RemoteError,
    TimeLimits,
    TooLargeError,
    UnreachableError,
)
from gpubuild.cache.warnings import Warnings
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.project import RemoteMode
from gpubuild.model.step import ActionResult, Blob

MAX_UPLOAD_BYTES = 1 << 30
_ATTEMPTS = 3
_FAILURES_ALLOWED = 3  # in a row
_COMPRESS_FROM_BYTES = 2048
_COMPRESS_UP_TO_BYTES = 256 << 20  # done in memory
_COMPRESSION_LEVEL = 3
_WORTH_IT = 0.9  # stored compressed when smaller than this part of the original
_CHUNK_BYTES = 1 << 18
T = TypeVar("T")


class RemoteStore:
    """A server at ``url``. Methods are thread-safe and raise nothing for a bad server."""

    def __init__(
        self,
        url: str,
        *,
        mode: RemoteMode = RemoteMode.READ_WRITE,
        authorization: str = "",
        limits: TimeLimits | None = None,
    ) -> None:
        self._limits = limits or TimeLimits()
        self.url = url
        self._client = HttpClient(url, limits=self._limits, authorization=authorization)
        parts = urlsplit(url)
        self._shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self._lock = threading.Lock()
        self._readable = mode is not RemoteMode.WRITE_ONLY
        self._writable = mode is not RemoteMode.READ_ONLY
        self._read_failures = 0
        self._write_failures = 0
        self._present: dict[Digest, Stored] = {}  # blobs that the server has, by the digest of their content
        self._warnings = Warnings()

    @property
    def readable(self) -> bool:
        """Whether requests for results make sense."""
        return self._readable

    @property
    def writable(self) -> bool:
        """Whether uploads make sense."""
        return self._writable

    @property
    def warnings(self) -> tuple[str, ...]:
        """One message for each cause of failure so far."""
        return self._warnings.messages()

    def find(self, key: Digest) -> RemoteRecord | None:
        """Return the record of ``key``; ``None`` for a miss of any kind."""

        def read(chunks: Iterator[bytes]) -> RemoteRecord:
            return decode_remote(key, _limited(chunks, MAX_REMOTE_RECORD_BYTES))

        started = time.monotonic()
        found = self._reading(lambda: self._client.get(f"ac/{key}", read))
        if time.monotonic() - started > self._limits.slow:
            self._failed_reading("it is too slow")
        return found

    def receive(self, blob: Blob, stored: Stored, take: Callable[[Iterable[bytes]], None]) -> bool:
        """Pass the content of ``blob`` to ``take``, which must raise for wrong content.

        ``take`` is called again when the transfer is repeated. Its ``OSError`` is passed on.
        """

        def read(chunks: Iterator[bytes]) -> bool:
            take(decompress(chunks, blob.size_bytes) if stored.encoding is Encoding.ZLIB else chunks)
            return True

        path = f"cas/{stored.digest}"
        if not self._reading(lambda: self._client.get(path, read)):
            return False
        with self._lock:
            self._present[blob.digest] = stored
        return True

    def send(self, key: Digest, result: ActionResult, find: Callable[[Blob], Path]) -> bool:
        """Send blobs, then the record that names them. ``find`` returns the file of a blob."""
        if not self._writable or any(blob.size_bytes > MAX_UPLOAD_BYTES for blob in result.blobs):
            return False
        try:
            stored = {}
            for blob in result.blobs:
                sent = self.send_blob(blob, find(blob))
                if sent is None:
                    return False
                stored[blob.digest] = sent
            data = encode_remote(key, RemoteRecord(result=result, stored=stored))
        except (RecordError, SourceError, OSError) as error:
            self._warnings.add("source", f"a result was not sent to the remote cache: {error}")
            return False
        return self._writing(lambda: self._client.put(f"ac/{key}", len(data), lambda: iter((data,))))

    def send_blob(self, blob: Blob, file: Path) -> Stored | None:
        """Return how the server has ``blob``, sent from ``file`` if it has not yet; ``None`` for a failure.

        Raises ``OSError`` and ``SourceError``.
        """
        with self._lock:
            known = self._present.get(blob.digest)
        if known is not None:
            return known
        stored, body = _encoded(blob, file)
        path = f"cas/{stored.digest}"
        if not self._writing(lambda: self._client.put(path, stored.size_bytes, body), ends=False):
            return None
        with self._lock:
            self._present[blob.digest] = stored
        return stored

    def close(self) -> None:
        """Close the calling thread's connection."""
        self._client.close()

    def stop(self) -> None:
        """Send no more requests."""
        with self._lock:
            self._readable = self._writable = False

    # --- failures ---

    def _reading(self, request: Callable[[], T | None]) -> T | None:
        if not self._readable:
            return None
        try:
            found = self._repeat(request, lambda: self._readable)
        except (RecordError, DamagedBlobError) as error:
            self._failed_reading(f"what it sent is damaged: {error}")
        except UnreachableError as error:
            self._give_up(str(error), reading=True, writing=True)
        except RefusedError as error:
            self._give_up(str(error), reading=True)
        except RemoteError as error:
            self._failed_reading(str(error))
        else:
            with self._lock:
                self._read_failures = 0
            return found
        return None

    def _writing(self, request: Callable[[], None], *, ends: bool = True) -> bool:
        """Whether ``request`` succeeded. ``ends``: a result is then stored completely.

        A server that stores blobs but no records is of no use.
        """
        if not self._writable:
            return False
        try:
            self._repeat(request, lambda: self._writable)
        except UnreachableError as error:
            self._give_up(str(error), reading=True, writing=True)
        except RefusedError as error:
            self._give_up(str(error), writing=True)
        except TooLargeError as error:
            self._warnings.add("size", f"a result was not sent to the remote cache {self._shown}: {error}")
        except RemoteError as error:
            self._warnings.add("write", f"a result was not sent to the remote cache {self._shown}: {error}")
            with self._lock:
                self._write_failures += 1
                over = self._write_failures >= _FAILURES_ALLOWED
            if over:
                self._give_up(str(error), writing=True)
        else:
            if ends:
                with self._lock:
                    self._write_failures = 0
            return True
        return False

    def _repeat(self, request: Callable[[], T], wanted: Callable[[], bool]) -> T:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return request()
            except RemoteError as error:
                # A failed connection has taken its whole time limit: twice is enough.
                last = attempt == (2 if isinstance(error, UnreachableError) else _ATTEMPTS)
                if last or not error.transient or not wanted():
                    raise
            # Spread out, so that machines that failed together do not repeat together.
            pause = self._limits.back_off * 2 ** (attempt - 1)
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
        raise AssertionError

    def _failed_reading(self, reason: str) -> None:
        self._warnings.add("read", f"the remote cache {self._shown} failed: {reason}")
        with self._lock:
            self._read_failures += 1
            over = self._read_failures >= _FAILURES_ALLOWED
        if over:
            self._give_up(reason, reading=True)

    def _give_up(self, reason: str, *, reading: bool = False, writing: bool = False) -> None:
        with self._lock:
            if not ((reading and self._readable) or (writing and self._writable)):
                return
            self._readable &= not reading
            self._writable &= not writing
        self._warnings.drop("read" if reading else "write")  # this message covers it
        what = {(True, True): "used", (True, False): "read", (False, True): "written to"}[reading, writing]
        self._warnings.add(
            "off", f"the remote cache {self._shown} is not {what} for the rest of this build: {reason}"
        )


def _limited(chunks: Iterable[bytes], limit_bytes: int) -> bytes:
    data = bytearray()
    for chunk in chunks:
        data += chunk
        if len(data) > limit_bytes:
            raise RecordError("too long")
    return bytes(data)


def _encoded(blob: Blob, file: Path) -> tuple[Stored, Callable[[], Iterator[bytes]]]:
    """Return how ``blob`` is stored, and its body. Raises ``OSError``, ``SourceError``."""
    if _COMPRESS_FROM_BYTES <= blob.size_bytes <= _COMPRESS_UP_TO_BYTES:
        packer = zlib.compressobj(_COMPRESSION_LEVEL)
        packed = b"".join([*(packer.compress(chunk) for chunk in _checked(blob, file)), packer.flush()])
        if len(packed) < _WORTH_IT * blob.size_bytes:
            stored = Stored(digest=digest_bytes(packed), size_bytes=len(packed), encoding=Encoding.ZLIB)
            return stored, lambda: (
                packed[at : at + _CHUNK_BYTES] for at in range(0, len(packed), _CHUNK_BYTES)
            )
    stored = Stored(digest=blob.digest, size_bytes=blob.size_bytes, encoding=Encoding.IDENTITY)
    return stored, lambda: _checked(blob, file)


def _checked(blob: Blob, file: Path) -> Iterator[bytes]:
    """Yield the bytes of ``file``. A changed file aborts the request before the server has a whole body."""
    try:
        yield from read_verified(blob, file)
    except DamagedBlobError as error:
        raise SourceError(f"{file} changed before it was sent") from error
