"""A remote cache that sends something else than it was asked for costs time, never correctness."""

import socket
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from fault.far_server import builds_on, serve, settled
from unit.cache.samples import KEY, noise, open_tiered
from unit.cache.servers import Raw, reply


@cache
def bomb() -> bytes:
    return zlib.compress(bytes(100 << 20))


LIES: dict[str, Callable[[str, bytes], bytes | None]] = {
    "wrong bytes": lambda path, body: reply(bytes(b ^ 1 for b in body)),
    "html with 200": lambda path, body: reply(
        b"<html>please sign in</html>", headers="Content-Type: text/html\r\n"
    ),
    "empty": lambda path, body: reply(b""),
    "too short": lambda path, body: reply(body[:-5]) if body else reply(b"x"),
    "too long": lambda path, body: reply(body + b"more"),
    "length too long": lambda path, body: b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + body,
    "length too short": lambda path, body: b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n" + body,
    "negative length": lambda path, body: b"HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\nhello",
    "length is no number": lambda path, body: b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nhello",
    "bad chunks": lambda path, body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello",
    "cut chunks": lambda path, body: b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello",
    "encoded": lambda path, body: reply(zlib.compress(body), headers="Content-Encoding: deflate\r\n"),
    "not http": lambda path, body: b"SSH-2.0-OpenSSH_9.2\r\n",
    "garbage": lambda path, body: noise(500),
    "says an empty line": lambda path, body: b"\r\n",
    "half a head": lambda path, body: b"HTTP/1.1 200 OK\r\nContent-Le",
    "endless head": lambda path, body: b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 5000 + b"\r\n",
    "long line": lambda path, body: b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 200_000 + b"\r\n\r\n",
    "a compressed bomb": lambda path, body: reply(bomb()),
    "500": lambda path, body: reply(b"oops", "500 Internal Server Error"),
    "503": lambda path, body: reply(b"later", "503 Service Unavailable"),
    "204": lambda path, body: b"HTTP/1.1 204 No Content\r\n\r\n",
    "206": lambda path, body: reply(body[:10], "206 Partial Content"),
    "401": lambda path, body: reply(b"who?", "401 Unauthorized"),
    "redirect": lambda path, body: reply(b"", "302 Found", f"Location: {path}\r\n"),
}


@pytest.mark.parametrize("where", ["/ac/", "/cas/"])
@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies(good: dict[str, bytes], tmp_path: Path, lie: str, where: str) -> None:
    def spoil(path: str, body: bytes) -> bytes | None:
        return LIES[lie](path, body) if where in path else None

    with Raw(serve(good, spoil)) as server, closing(open_tiered(tmp_path / "cache", server.url)) as store:
        assert not settled(store, tmp_path)
        builds_on(store, tmp_path)
    assert 1 <= len(store.warnings) <= 2, store.warnings
    assert len(server.requests) < 25


@pytest.mark.parametrize("where", ["/ac/", "/cas/"])
def test_every_flipped_byte_of_an_answer(good: dict[str, bytes], tmp_path: Path, where: str) -> None:
    """The same blobs, whatever happens to one byte on the way; most of the time a miss."""
    flip = [0]

    def spoil(path: str, body: bytes) -> bytes | None:
        if where not in path or not body:
            return None
        bad = bytearray(body)
        start = max(0, body.find(b'{"record"'))  # before it is what only servers read
        bad[start + flip[0] * 7 % (len(bad) - start)] ^= 1 << flip[0] % 8
        return reply(bytes(bad))

    with Raw(serve(good, spoil)) as server:
        hits = 0
        for flip[0] in range(60):
            with closing(open_tiered(tmp_path / f"cache{flip[0]}", server.url)) as store:
                hits += settled(store, tmp_path)
    assert hits < 10


@pytest.mark.parametrize("what", ["record", "blob"])
def test_an_endless_body(good: dict[str, bytes], tmp_path: Path, what: str) -> None:
    sent = [0]

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        if what == "blob" and "/ac/" in head:
            client.sendall(reply(good[f"/cache/ac/{KEY}"]))
            return
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not raw.stop.is_set():
            client.sendall(b" " * 65536)
            sent[0] += 65536

    with Raw(answer) as server, closing(open_tiered(tmp_path / "cache", server.url)) as store:
        assert not settled(store, tmp_path)
        if what == "record":
            builds_on(store, tmp_path)
    assert sum(p.stat().st_size for p in (tmp_path / "cache" / "tmp").iterdir()) == 0
    assert sent[0] < 200 << 20
