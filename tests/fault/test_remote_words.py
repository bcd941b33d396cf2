"""A remote cache's texts are reported, our credentials never."""

import socket
from contextlib import closing
from pathlib import Path

import pytest
from fault.far_server import serve, settled
from unit.cache.samples import KEY, make_result, open_tiered
from unit.cache.servers import Raw, reply

from gpubuild.model.digest import digest_bytes


def test_credentials_stay_with_their_server(good: dict[str, bytes], tmp_path: Path) -> None:
    """Redirects are refused."""
    with Raw(serve(good)) as other:

        def answer(raw: Raw, head: str, client: socket.socket) -> None:
            location = other.url.removesuffix("/cache") + head.split()[1]
            client.sendall(reply(b"", "307 Temporary Redirect", f"Location: {location}\r\n"))

        with (
            Raw(answer) as server,
            closing(open_tiered(tmp_path / "cache", server.url, authorization="Bearer s3cret")) as store,
        ):
            assert not settled(store, tmp_path)
            store.publish(digest_bytes(b"other"), *make_result(tmp_path / "out"))
    assert any("s3cret" in head for head in server.requests)
    assert not other.requests
    assert "307 Temporary Redirect: configure the address that it redirects to" in store.warnings[0]


def test_credentials_are_in_nothing_that_is_kept(tmp_path: Path) -> None:
    with (
        Raw(serve({})) as server,
        closing(open_tiered(tmp_path / "cache", server.url, authorization="Bearer s3cret")) as store,
    ):
        store.publish(KEY, *make_result(tmp_path / "out"))
    assert all("s3cret" in head for head in server.requests)
    assert not any(b"s3cret" in body for body in server.bodies)
    for path in (tmp_path / "cache").rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


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
def test_texts_of_a_server_are_reported(tmp_path: Path, case: str) -> None:
    """If it is plain, short, and gives nothing away."""
    kind, words, end = WORDS[case]

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        client.sendall(reply(words, "400 Bad Request", f"Content-Type: {kind}\r\n"))

    with Raw(answer) as server:
        ours = f"Bearer {'t0ken' * 400}" if "token" in case else "Basic Y2k6czNjcmV0"
        with closing(open_tiered(tmp_path / "cache", server.url, authorization=ours)) as store:
            assert store.lookup(KEY) is None
    [warning] = store.warnings
    assert warning.endswith(end) and len(warning) < 300


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"HTTP/1.1 400 \x1b]0;title\x07 no\r\n", "it answered 400"),
        (b"HTTP/1.1 400 s3cret-t0ken is wrong\r\n", "it answered 400"),
        (b"\x1b[2J\x1b[31m\r\n", "BadStatusLine: '\\x1b[2J\\x1b[31m\\r\\n'"),
    ],
    ids=["controls", "our token", "no status"],
)
def test_the_line_with_the_status_is_no_text_to_trust(tmp_path: Path, line: bytes, expected: str) -> None:
    answer = line + b"Content-Length: 0\r\n\r\n"
    with (
        Raw(lambda raw, head, client: client.sendall(answer)) as server,
        closing(open_tiered(tmp_path / "cache", server.url, authorization="Bearer s3cret-t0ken")) as store,
    ):
        assert store.lookup(KEY) is None
    [warning] = store.warnings
    assert warning.endswith(expected)
