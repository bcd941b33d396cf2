"""A remote cache that stalls or drips is not waited for longer than the limits say."""

import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fault.far_server import NOT_FOUND, builds_on
from unit.cache.samples import KEY, make_result, open_tiered
from unit.cache.servers import Raw, reply
from variants import few

from gpubuild.cache.remote.bazel_result import Encoding, RemoteRecord, Stored, encode_remote
from gpubuild.cache.remote.http import TimeLimits
from gpubuild.model.digest import digest_bytes
from gpubuild.model.step import ActionResult, Blob

LIMITS = TimeLimits(
    connect=0.5, idle=0.3, request=0.4, slowest_bytes_per_second=1e7, slow=0.25, back_off=0.001, drain=0.8
)


# Of a server's silence. Whoever waits that long has no limit; a paused machine does not make it up.
SILENCE_SECONDS = 60.0


@pytest.fixture
def outlasted() -> list[str]:
    """Requests for whose answer a build waited until the server itself hung up."""
    return []


def stall(raw: Raw, head: str, outlasted: list[str]) -> None:
    """Say nothing more until the build is over."""
    if not raw.stop.wait(SILENCE_SECONDS):
        outlasted.append(head)


def drip(raw: Raw, client: socket.socket, data: bytes) -> None:
    """A byte now and then: never idle, never done."""
    for byte in data:
        client.sendall(bytes([byte]))
        if raw.stop.wait(0.05):
            return


HEAD = b"HTTP/1.1 200 OK\r\n"
SIZED = HEAD + b"Content-Length: 900\r\n\r\n"
# What is sent at once, what drips after it; then silence.
SLOW = {
    "says nothing": (b"", b""),
    "drips a body": (SIZED, b"x" * 899),
    "stops in the body": (SIZED + b"123", b""),
    "continues for ever": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "stops after the head": (SIZED, b""),
    "drips a head": (HEAD, b"X: y\r\n" * 2000),
}


# A lookup in four ways, an upload in two.
CASES = few([("GET", how) for how in SLOW], 4) + few([("PUT", how) for how in SLOW], 2)


@pytest.mark.parametrize(("method", "how"), CASES)
def test_a_server_that_is_slow(tmp_path: Path, outlasted: list[str], how: str, method: str) -> None:
    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        if head.startswith(method):
            client.sendall(SLOW[how][0])
            drip(raw, client, SLOW[how][1])
            stall(raw, head, outlasted)
        else:
            client.sendall(NOT_FOUND if method == "PUT" else reply(b"", "201 Created"))

    with Raw(answer) as server, closing(open_tiered(tmp_path / "cache", server.url, limits=LIMITS)) as store:
        for n in range(12):
            assert store.lookup(digest_bytes(bytes([n]))) is None
            store.publish(digest_bytes(bytes([n])), *make_result(tmp_path / "out"))
        builds_on(store, tmp_path)
    # Three failures of three attempts each, not 36 time limits.
    assert method == "PUT" or sum(head.startswith("GET") for head in server.requests) <= 9
    assert not outlasted
    assert 1 <= len(store.warnings) <= 2, store.warnings
    assert any("rest of this build" in w or "in time" in w for w in store.warnings)


def test_a_size_that_is_claimed_buys_no_time(tmp_path: Path) -> None:
    """A record that names a blob of 2 GiB, at 100 kB/s, would hold a build for six hours."""
    blob = Blob(name="object", digest=digest_bytes(b"?"), size_bytes=2 << 30)
    stored = Stored(digest=blob.digest, size_bytes=blob.size_bytes, encoding=Encoding.IDENTITY)
    record = encode_remote(
        KEY, RemoteRecord(result=ActionResult(blobs=(blob,)), stored={blob.digest: stored})
    )
    hung_up: list[bool] = []

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        if "/ac/" in head:
            client.sendall(reply(record))
            return
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % blob.size_bytes)
        try:
            for _ in range(int(SILENCE_SECONDS / 0.05)):
                client.sendall(b"x")
                if raw.stop.wait(0.05):
                    return
            hung_up.append(False)
        except OSError:
            hung_up.append(True)

    with Raw(answer) as server:
        limits = replace(LIMITS, slowest_bytes_per_second=1e5)
        with closing(open_tiered(tmp_path / "cache", server.url, limits=limits)) as store:
            assert store.lookup(KEY) is None
            builds_on(store, tmp_path)
    assert hung_up and all(hung_up)


def test_an_interrupted_build_does_not_wait_for_uploads(tmp_path: Path, outlasted: list[str]) -> None:
    patient = TimeLimits(idle=600.0, request=600.0, drain=600.0)
    with (
        Raw(lambda raw, head, client: stall(raw, head, outlasted)) as server,
        closing(open_tiered(tmp_path / "cache", server.url, limits=patient)) as store,
    ):
        for n in range(20):
            store.publish(digest_bytes(bytes([n])), *make_result(tmp_path / "out"))
        store.cancel()
    assert not outlasted
