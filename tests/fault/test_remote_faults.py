"""A remote cache that lies, stalls, breaks off or is not there costs time, never correctness."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, make_result
from unit.cache.servers import Raw, free_port, reply

from gpubuild.cache.bazel_result import decode_bazel_result
from gpubuild.cache.disk import DiskStore
from gpubuild.cache.http import TimeLimits
from gpubuild.cache.remote import RemoteStore
from gpubuild.cache.remote_record import Encoding, RemoteRecord, Stored, encode_remote
from gpubuild.cache.tiered import TieredStore
from gpubuild.model.digest import digest_bytes

# Small, so that tests of what a build would wait for are quick.
LIMITS = TimeLimits(
    connect=0.5, idle=0.3, request=0.6, slowest_bytes_per_second=1e7, slow=0.25, back_off=0.001, drain=1.5
)
NOT_FOUND = reply(b"nothing", "404 Not Found")
Answer = Callable[[Raw, str, socket.socket], None]


def open_tiered(directory: Path, url: str, **options) -> TieredStore:
    return TieredStore(DiskStore(directory), RemoteStore(url, limits=LIMITS, **options), limits=LIMITS)


@pytest.fixture
def good(tmp_path: Path) -> dict[str, bytes]:
    """Paths and bodies of a server that has the result of KEY."""
    result, _ = make_result(tmp_path / "good")
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


def settled(store: TieredStore, scratch: Path) -> bool:
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


def test_the_good_server_hits(good: dict[str, bytes], tmp_path: Path) -> None:
    with Raw(serve(good)) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        assert settled(store, tmp_path) and store.is_remote(KEY)
        store.close()
        assert store.warnings == ()


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
    "garbage": lambda path, body: os.urandom(500),
    "hangs up": lambda path, body: b" "[:0] or b"\r\n",
    "half a head": lambda path, body: b"HTTP/1.1 200 OK\r\nContent-Le",
    "endless head": lambda path, body: b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 5000 + b"\r\n",
    "long line": lambda path, body: b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 200_000 + b"\r\n\r\n",
    "500": lambda path, body: reply(b"oops", "500 Internal Server Error"),
    "503": lambda path, body: reply(b"later", "503 Service Unavailable"),
    "204": lambda path, body: b"HTTP/1.1 204 No Content\r\n\r\n",
    "206": lambda path, body: reply(body[:10], "206 Partial Content"),
    "401": lambda path, body: reply(b"who?", "401 Unauthorized"),
    "redirect to itself": lambda path, body: reply(b"", "302 Found", f"Location: {path}\r\n"),
    "redirect to a file": lambda path, body: reply(b"", "302 Found", "Location: file:///etc/passwd\r\n"),
    "redirect nowhere": lambda path, body: reply(b"", "302 Found", "Location: http://\r\n"),
    "redirect without place": lambda path, body: reply(b"", "302 Found"),
    "redirect to a bad port": lambda path, body: reply(b"", "302 Found", "Location: http://h:99999/\r\n"),
    "redirect to a bad host": lambda path, body: reply(b"", "302 Found", "Location: http://[::x/\r\n"),
}


@pytest.mark.parametrize("where", ["/ac/", "/cas/"])
@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_lies(good: dict[str, bytes], tmp_path: Path, lie: str, where: str) -> None:
    def spoil(path: str, body: bytes) -> bytes | None:
        return LIES[lie](path, body) if where in path else None

    with Raw(serve(good, spoil)) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        assert not settled(store, tmp_path)
        builds_on(store, tmp_path)
        store.close()
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
            store = open_tiered(tmp_path / f"cache{flip[0]}", server.url)
            hits += settled(store, tmp_path)
            store.close()
    assert hits < 10


def stall(raw: Raw, client: socket.socket) -> None:
    raw.stop.wait(20)


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
    "stops after the head": (SIZED, b""),
    "stops in the body": (SIZED + b"123", b""),
    "drips a head": (HEAD, b"X: y\r\n" * 2000),
    "drips a body": (SIZED, b"x" * 900),
    "continues for ever": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
}


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("how", SLOW)
def test_a_server_that_is_slow(tmp_path: Path, how: str, method: str) -> None:
    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        if head.startswith(method):
            client.sendall(SLOW[how][0])
            drip(raw, client, SLOW[how][1])
            stall(raw, client)
        else:
            client.sendall(NOT_FOUND if method == "PUT" else reply(b"", "201 Created"))

    with Raw(answer) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        started = time.monotonic()
        for n in range(12):
            assert store.lookup(digest_bytes(bytes([n]))) is None
            store.publish(digest_bytes(bytes([n])), *make_result(tmp_path / "out"))
        builds_on(store, tmp_path)
        store.close()
        # Three failures of three attempts each, or the time for uploads: not 36 time limits.
        assert time.monotonic() - started < 15
        assert 1 <= len(store.warnings) <= 2, store.warnings
        assert any("rest of this build" in w or "in time" in w for w in store.warnings)


def test_an_endless_body(good: dict[str, bytes], tmp_path: Path) -> None:
    sent = [0]

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not raw.stop.is_set():
            client.sendall(b" " * 65536)
            sent[0] += 65536

    with Raw(answer) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        assert store.lookup(KEY) is None
        builds_on(store, tmp_path)
        store.close()
    assert sent[0] < 200 << 20


def test_an_endless_blob(good: dict[str, bytes], tmp_path: Path) -> None:
    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        if "/ac/" in head:
            client.sendall(reply(good[f"/cache/ac/{KEY}"]))
            return
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not raw.stop.is_set():
            client.sendall(b" " * 65536)

    with Raw(answer) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        assert not settled(store, tmp_path)
        store.close()
    assert sum(p.stat().st_size for p in (tmp_path / "cache" / "tmp").iterdir()) == 0


def test_a_compressed_bomb(good: dict[str, bytes], tmp_path: Path) -> None:
    packed = digest_bytes(zlib.compress(CONTENT["asm"]))
    bomb = zlib.compress(bytes(100 << 20))

    def spoil(path: str, body: bytes) -> bytes | None:
        return reply(bomb) if path.endswith(packed) else None

    with Raw(serve(good, spoil)) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        assert not settled(store, tmp_path)
        store.close()


def test_nobody_there(tmp_path: Path) -> None:
    store = open_tiered(tmp_path / "cache", f"http://127.0.0.1:{free_port()}/cache")
    started = time.monotonic()
    for n in range(50):
        assert store.lookup(digest_bytes(bytes([n]))) is None
    assert not store.has_remote
    builds_on(store, tmp_path)
    store.close()
    assert time.monotonic() - started < 5
    assert len(store.warnings) == 1 and "rest of this build" in store.warnings[0]


def test_a_name_that_does_not_resolve(tmp_path: Path) -> None:
    store = open_tiered(tmp_path / "cache", "http://cache.invalid/cache")
    assert store.lookup(KEY) is None
    builds_on(store, tmp_path)
    store.close()
    assert len(store.warnings) == 1


def test_a_server_that_dies_during_the_build(good: dict[str, bytes], tmp_path: Path) -> None:
    with Raw(serve(good)) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        assert settled(store, tmp_path)
    for n in range(20):
        assert store.lookup(digest_bytes(bytes([n]))) is None
    assert settled(store, tmp_path), "what was fetched before stays"
    store.close()
    assert len(store.warnings) == 1


@pytest.mark.parametrize("status", ["503 Service Unavailable", "507 Insufficient Storage"])
def test_a_server_that_recovers(good: dict[str, bytes], tmp_path: Path, status: str) -> None:
    """One bad answer in three is repeated, and nobody need know."""
    count = [0]

    def spoil(path: str, body: bytes) -> bytes | None:
        count[0] += 1
        return reply(b"busy", status) if count[0] % 3 == 1 else None

    with Raw(serve(good, spoil)) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        assert settled(store, tmp_path)
        store.close()
        assert store.warnings == ()


def test_credentials_stay_with_their_server(good: dict[str, bytes], tmp_path: Path) -> None:
    """A redirect to another host or port is followed without them, a PUT is not redirected at all."""
    with Raw(serve(good)) as other:

        def answer(raw: Raw, head: str, client: socket.socket) -> None:
            place = other.url.removesuffix("/cache") + head.split()[1]
            client.sendall(reply(b"", "307 Temporary Redirect", f"Location: {place}\r\n"))

        with Raw(answer) as server:
            store = open_tiered(tmp_path / "cache", server.url, authorization="Bearer s3cret")
            assert settled(store, tmp_path)
            store.publish(digest_bytes(b"other"), *make_result(tmp_path / "out"))
            store.close()
    assert any("s3cret" in head for head in server.requests)
    assert other.requests and not any("s3cret" in head for head in other.requests)
    assert not any(head.startswith("PUT") for head in other.requests)
    assert "s3cret" not in str(store.warnings)


def test_credentials_are_in_nothing_that_is_kept(tmp_path: Path) -> None:
    with Raw(serve({})) as server:
        store = open_tiered(tmp_path / "cache", server.url, authorization="Bearer s3cret")
        store.publish(KEY, *make_result(tmp_path / "out"))
        store.close()
        assert all("s3cret" in head for head in server.requests)
        assert not any(b"s3cret" in body for body in server.bodies)
    for path in (tmp_path / "cache").rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


def test_what_is_sent_is_what_is_read(tmp_path: Path) -> None:
    kept: dict[str, bytes] = {}

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        path = head.split()[1]
        if head.startswith("PUT"):
            kept[path] = raw.bodies[raw.requests.index(head)]
            client.sendall(reply(b"", "201 Created"))
        else:
            client.sendall(reply(kept[path]) if path in kept else NOT_FOUND)

    with Raw(answer) as server:
        first = open_tiered(tmp_path / "first", server.url)
        result, files = make_result(tmp_path / "out")
        first.publish(KEY, result, files)
        first.close()
        second = open_tiered(tmp_path / "second", server.url)
        assert settled(second, tmp_path)
        second.close()
    assert list(kept)[-1] == f"/cache/ac/{KEY}", "the record comes after what it names"
    assert json.loads(decode_bazel_result(kept[f"/cache/ac/{KEY}"]))["schema"] == "gpubuild.remote/1"


def test_a_server_that_takes_blobs_but_fails_leaves_no_record(tmp_path: Path) -> None:
    failing = digest_bytes(CONTENT["object"])

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        bad = failing in head
        client.sendall(reply(b"", "507 Insufficient Storage") if bad else reply(b"", "201 Created"))

    with Raw(answer) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        store.publish(KEY, *make_result(tmp_path / "out"))
        store.close()
        assert not any("/ac/" in head for head in server.requests)
        assert len(store.warnings) == 1


def test_a_server_that_takes_blobs_but_no_records(tmp_path: Path) -> None:
    """It is of no use, however many blobs it takes; its own words say why."""

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        bad = "/ac/" in head
        why = "Content-Type: text/plain; charset=utf-8\r\n"
        client.sendall(
            reply(b"not an\n ActionResult\n", "400 Bad Request", why) if bad else reply(b"", "201 Created")
        )

    with Raw(answer) as server:
        store = open_tiered(tmp_path / "cache", server.url)
        for n in range(12):
            result, files = make_result(tmp_path / f"out{n}", {"object": bytes([n])})
            store.publish(digest_bytes(bytes([n])), result, files)
        store.close()
        off = [
            warning for warning in store.warnings if "not written to for the rest of this build" in warning
        ]
        assert len(off) == 1 and off[0].endswith("it answered 400 Bad Request: not an ActionResult")
        # Uploads that were under way when the third one failed may end.
        assert sum("/ac/" in head for head in server.requests) <= 3 + 4


def test_a_server_that_refuses_before_it_has_read_everything(tmp_path: Path) -> None:
    """It says why and hangs up while we are still sending: that is no failure of the network."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_all() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    asked.append(client.recv(4096))
                    client.sendall(reply(b"", "403 Forbidden"))
                    client.shutdown(socket.SHUT_WR)
                    time.sleep(0.05)

        threading.Thread(target=serve_all, daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        store = open_tiered(tmp_path / "cache", url)
        store.publish(KEY, *make_result(tmp_path / "out", {"object": os.urandom(8 << 20)}))
        store.close()
        listener.shutdown(socket.SHUT_RDWR)
    assert len(store.warnings) == 1 and store.warnings[0].endswith("it answered 403 Forbidden")
    assert len(asked) == 1, "asking again does not help"


WORDS = {
    "plain": ("text/plain", b"the disk is full", ": the disk is full"),
    "long": ("text/plain", b"no" * 5000, "non…"),
    "the status again": ("text/plain", b"Bad Request\n", "400 Bad Request"),
    "a page": ("text/html", b"<h1>no</h1>", "400 Bad Request"),
    "controls": ("text/plain", b"\x1b[31mno", "400 Bad Request"),
    "our header": ("text/plain", b"you sent Basic Y2k6czNjcmV0", "400 Bad Request"),
    "our password": ("text/plain", b"ci, s3cret is wrong", "400 Bad Request"),
    "our token": ("text/plain", b"wrong: " + b"t0ken" * 400, "400 Bad Request"),
}


@pytest.mark.parametrize("case", WORDS)
def test_what_a_server_says_is_told(tmp_path: Path, case: str) -> None:
    """If it is plain, short, and gives nothing away."""
    kind, words, end = WORDS[case]

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        client.sendall(reply(words, "400 Bad Request", f"Content-Type: {kind}\r\n"))

    with Raw(answer) as server:
        ours = f"Bearer {'t0ken' * 400}" if "token" in case else "Basic Y2k6czNjcmV0"
        store = open_tiered(tmp_path / "cache", server.url, authorization=ours)
        assert store.lookup(KEY) is None
        store.close()
    [warning] = store.warnings
    assert warning.endswith(end) and len(warning) < 300


def test_an_interrupted_build_does_not_wait_for_uploads(tmp_path: Path) -> None:
    with Raw(lambda raw, head, client: stall(raw, client)) as server:
        patient = TimeLimits(drain=30.0)
        store = TieredStore(
            DiskStore(tmp_path / "cache"), RemoteStore(server.url, limits=patient), limits=patient
        )
        for n in range(20):
            store.publish(digest_bytes(bytes([n])), *make_result(tmp_path / "out"))
        started = time.monotonic()
        store.cancel()
        store.close()
        assert time.monotonic() - started < 5
