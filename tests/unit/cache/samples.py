"""Results to store: a few small files and the record that describes them."""

import random
from pathlib import Path
from typing import Any

from gpubuild.cache.local.disk_store import DiskStore
from gpubuild.cache.remote.bazel_result import Encoding, RemoteRecord, Stored
from gpubuild.cache.remote.http import TimeLimits
from gpubuild.cache.remote.store import RemoteStore
from gpubuild.cache.remote.tiered import TieredStore
from gpubuild.model.digest import Digest, digest_bytes
from gpubuild.model.step import ActionResult, Blob

KEY = digest_bytes(b"key")
# The limits of a build, so that no pause of the machine is taken for one of the server.
PATIENT = TimeLimits(back_off=0.001)
CONTENT = {"asm": b".version 7.8\n", "object": bytes(range(256)), "empty": b""}


def open_tiered(directory: Path, url: str, *, limits: TimeLimits = PATIENT, **options: Any) -> TieredStore:
    """A cache in ``directory`` in front of the remote one at ``url``."""
    return TieredStore(DiskStore(directory), RemoteStore(url, limits=limits, **options), limits=limits)


def noise(size_bytes: int, seed: int = 0) -> bytes:
    """Bytes that no compression makes smaller; the same ones in every run."""
    return random.Random(seed).randbytes(size_bytes)


def make_result(folder: Path, content: dict[str, bytes] = CONTENT) -> tuple[ActionResult, dict[str, Path]]:
    """Write ``content`` into ``folder``; the result and the files, as ``publish`` wants them."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for name, data in content.items():
        files[name] = folder / name
        files[name].write_bytes(data)
    blobs = tuple(
        Blob(name=name, digest=digest_bytes(data), size_bytes=len(data), executable=name == "object")
        for name, data in content.items()
    )
    return ActionResult(blobs=blobs, warnings=("slow kernel",), seconds=0.25), files


def remote_record(folder: Path) -> RemoteRecord:
    """What a remote cache stores of ``make_result``: one blob is compressed."""
    result, _ = make_result(folder)
    stored = {
        b.digest: Stored(digest=b.digest, size_bytes=b.size_bytes, encoding=Encoding.IDENTITY)
        for b in result.blobs
    }
    packed = result.blobs[1].digest
    stored[packed] = Stored(digest=digest_bytes(b"packed"), size_bytes=6, encoding=Encoding.ZLIB)
    return RemoteRecord(result=result, stored=stored)


def blob_path(directory: Path, data: bytes) -> Path:
    """Where a disk store keeps ``data``."""
    digest: Digest = digest_bytes(data)
    return directory / "cas" / digest[:2] / digest
