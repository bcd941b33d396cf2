"""Far server: what a remote cache says to a build, good or spoiled, and what the build does then."""

import socket
import zlib
from collections.abc import Callable
from pathlib import Path

from unit.cache.samples import CONTENT, KEY, make_result
from unit.cache.servers import Raw, reply

from gpubuild.cache.remote.bazel_result import Encoding, RemoteRecord, Stored, encode_remote
from gpubuild.cache.remote.tiered import TieredStore
from gpubuild.cache.store import Store
from gpubuild.model.digest import digest_bytes

NOT_FOUND = reply(b"nothing", "404 Not Found")
Answer = Callable[[Raw, str, socket.socket], None]


def good_bodies(folder: Path) -> dict[str, bytes]:
    """Paths and bodies of a server that has the result of KEY."""
    result, _ = make_result(folder)
    stored = {}
    bodies = {}
    for blob in result.blobs:
        data = CONTENT[blob.name]
        if blob.name == "asm":
            data = zlib.compress(data)
        encoding = Encoding.ZLIB if blob.name == "asm" else Encoding.IDENTITY
        stored[blob.digest] = Stored(digest=digest_bytes(data), size_bytes=len(data), encoding=encoding)
        bodies[f"/cache/cas/{digest_bytes(data)}"] = data
    bodies[f"/cache/ac/{KEY}"] = encode_remote(KEY, RemoteRecord(result=result, stored=stored))
    return bodies


def serve(bodies: dict[str, bytes], spoil: Callable[[str, bytes], bytes | None] | None = None) -> Answer:
    """Answers from ``bodies``; ``spoil`` may replace the whole answer to a path."""

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        path = head.split()[1]
        body = bodies.get(path)
        if head.startswith("PUT"):
            client.sendall(reply(b"", "201 Created"))
        elif body is None:
            client.sendall(NOT_FOUND)
        else:
            client.sendall((spoil and spoil(path, body)) or reply(body))

    return answer


def settled(store: Store, scratch: Path) -> bool:
    """What a build would do with KEY: whether it is a hit, and then with the exact bytes."""
    found = store.lookup(KEY)
    if found is None:
        return False
    assert found == make_result(scratch / "expected")[0]
    for blob in found.blobs:
        if not store.fetch(blob, scratch / "copy"):
            store.discard(KEY)
            return False
        assert (scratch / "copy").read_bytes() == CONTENT[blob.name]
    return True


def builds_on(store: TieredStore, scratch: Path) -> None:
    """What follows a miss works: the result is made, kept here, and found by the next build."""
    result, files = make_result(scratch / "made")
    store.publish(KEY, result, files)
    assert store.lookup(KEY) == result
    assert store.fetch(result.blobs[1], scratch / "copy")
