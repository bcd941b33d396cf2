"""A remote cache that is not there, goes away or comes back: the build goes on."""

import socket
from contextlib import closing
from pathlib import Path

import pytest
from fault.far_server import builds_on, serve, settled
from unit.cache.samples import open_tiered
from unit.cache.servers import Raw, refusing_port, reply

from gpubuild.model.digest import digest_bytes


def test_nobody_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    connect = socket.create_connection

    def counted(address, *arguments, **options):
        tried.append(address)
        return connect(address, *arguments, **options)

    monkeypatch.setattr(socket, "create_connection", counted)
    with (
        refusing_port() as port,
        closing(open_tiered(tmp_path / "cache", f"http://127.0.0.1:{port}/cache")) as store,
    ):
        for n in range(50):
            assert store.lookup(digest_bytes(bytes([n]))) is None
        assert not store.has_remote
        builds_on(store, tmp_path)
    assert len(tried) == 2, "once more, then never again"
    assert len(store.warnings) == 1 and "rest of this build" in store.warnings[0]


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
    """One bad answer in three is repeated without a warning."""
    count = [0]

    def spoil(path: str, body: bytes) -> bytes | None:
        count[0] += 1
        return reply(b"busy", status) if count[0] % 3 == 1 else None

    with Raw(serve(good, spoil)) as server, closing(open_tiered(tmp_path / "cache", server.url)) as store:
        assert settled(store, tmp_path)
    assert store.warnings == ()
