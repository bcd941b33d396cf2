"""What is sent to a remote cache, and what follows when it takes only a part."""

import json
import socket
import threading
import time
from contextlib import closing
from pathlib import Path

from fault.far_server import NOT_FOUND, settled
from unit.cache.samples import CONTENT, KEY, make_result, noise, open_tiered
from unit.cache.servers import Raw, reply

from gpubuild.cache.remote.bazel_result import decode_bazel_result
from gpubuild.model.digest import digest_bytes


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
        with closing(open_tiered(tmp_path / "first", server.url)) as first:
            result, files = make_result(tmp_path / "out")
            first.publish(KEY, result, files)
        with closing(open_tiered(tmp_path / "second", server.url)) as second:
            assert settled(second, tmp_path)
    assert list(kept)[-1] == f"/cache/ac/{KEY}", "the record comes after what it names"
    assert json.loads(decode_bazel_result(kept[f"/cache/ac/{KEY}"]))["schema"] == "gpubuild.remote/2"


def test_a_server_that_takes_blobs_but_fails_leaves_no_record(tmp_path: Path) -> None:
    failing = digest_bytes(CONTENT["object"])

    def answer(raw: Raw, head: str, client: socket.socket) -> None:
        bad = failing in head
        client.sendall(reply(b"", "507 Insufficient Storage") if bad else reply(b"", "201 Created"))

    with Raw(answer) as server, closing(open_tiered(tmp_path / "cache", server.url)) as store:
        store.publish(KEY, *make_result(tmp_path / "out"))
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

    with Raw(answer) as server, closing(open_tiered(tmp_path / "cache", server.url)) as store:
        for n in range(12):
            result, files = make_result(tmp_path / f"out{n}", {"object": bytes([n])})
            store.publish(digest_bytes(bytes([n])), result, files)
    off = [warning for warning in store.warnings if "not written to for the rest of this build" in warning]
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
        with closing(open_tiered(tmp_path / "cache", url)) as store:
            store.publish(KEY, *make_result(tmp_path / "out", {"object": noise(8 << 20)}))
        listener.shutdown(socket.SHUT_RDWR)
    assert len(store.warnings) == 1 and store.warnings[0].endswith("it answered 403 Forbidden")
    assert len(asked) == 1, "asking again does not help"
