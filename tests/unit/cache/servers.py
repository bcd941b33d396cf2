"""Servers to test the remote cache with: a real nginx, and one of our own that misbehaves."""

import os
import re
import shutil
import socket
import socketserver
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

OPENSSL = shutil.which("openssl")
NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")

_CONFIG = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port}{tls};
{server}
  }}
}}
"""
# What docs/how-to/ci.md tells people to use; a test compares the two.
LOCATION = """\
    location /gpubuild/ {
      root /srv/cache;
      dav_methods PUT;
      create_full_put_path on;
      client_max_body_size 1g;
      dav_access user:rw group:r;
    }
"""


@dataclass(frozen=True)
class Certificate:
    """A server's certificate, its key, and the authority that signed it, all made by a test."""

    chain: Path
    key: Path
    authority: Path


def make_certificate(folder: Path, *, name: str = "localhost", days: int = 2) -> Certificate:
    """A throw-away authority, and a certificate of its for ``name``."""
    assert OPENSSL
    folder.mkdir()

    def openssl(*arguments: str) -> None:
        command = [OPENSSL, *arguments]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, stdin=subprocess.DEVNULL)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    # Without the machine's own configuration file, which need not be there.
    (folder / "openssl.cnf").write_text(
        "[req]\ndistinguished_name = name\nprompt = no\n[name]\nCN = test authority\n"
        "[ca]\nbasicConstraints = critical,CA:TRUE\nkeyUsage = critical,keyCertSign\n"
        "subjectKeyIdentifier = hash\n"
        f"[server]\nsubjectAltName = DNS:{name}\nauthorityKeyIdentifier = keyid\n"
        "basicConstraints = CA:FALSE\n"
    )
    config = ("-config", "openssl.cnf")
    days_of_ca = ("-extensions", "ca", "-days", "2")
    openssl("req", "-x509", *curve, *config, *days_of_ca, "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *curve, *config, "-subj", f"/CN={name}", "-keyout", "server.key", "-out", "server.csr")
    openssl(
        "x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-extfile", "openssl.cnf", "-extensions", "server", "-days", str(days), "-out", "server.pem",
    )  # fmt: skip
    return Certificate(chain=folder / "server.pem", key=folder / "server.key", authority=folder / "ca.pem")


@contextmanager
def nginx(folder: Path, location: str = LOCATION, certificate: Certificate | None = None) -> Iterator[str]:
    """Run nginx on a free port of loopback; yields the cache's URL. Content is in ``folder/srv``."""
    assert NGINX
    folder.mkdir()
    (folder / "srv").mkdir()
    port = free_port()
    tls = ""
    if certificate:
        tls = f" ssl;\n    ssl_certificate {certificate.chain};\n    ssl_certificate_key {certificate.key}"
    config = _CONFIG.format(
        folder=folder, port=port, tls=tls, server=location.replace("/srv/cache", str(folder / "srv"))
    )
    if os.getuid() == 0:
        config = "user root;\n" + config
    (folder / "nginx.conf").write_text(config)
    process = subprocess.Popen(
        [NGINX, "-e", folder / "error.log", "-c", folder / "nginx.conf", "-p", folder],
        stdin=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
        yield f"https://localhost:{port}/gpubuild" if certificate else f"http://127.0.0.1:{port}/gpubuild"
    finally:
        process.terminate()
        process.wait(timeout=120)


def free_port() -> int:
    """A port below those that connections get by themselves: none of another test takes it meanwhile."""
    first = os.getpid() * 97 % 20_000  # others, too, are looking for one
    for number in range(20_000):
        port = 10_000 + (first + number) % 20_000
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@contextmanager
def refusing_port() -> Iterator[int]:
    """A port of loopback without a server, reserved meanwhile."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


def wait_for(port: int, process: subprocess.Popen) -> None:
    for _ in range(2400):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert process.poll() is None, "the server did not start"
        time.sleep(0.05)
    raise AssertionError("the server does not listen")


class Raw:
    """A server that answers each request with whatever bytes ``answer`` writes, then hangs up.

    ``requests`` holds the head of each one, ``bodies`` what followed it.
    """

    def __init__(self, answer: Callable[[Self, str, socket.socket], None]) -> None:
        self.requests: list[str] = []
        self.bodies: list[bytes] = []
        self.stop = threading.Event()
        raw = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                data = b""
                while b"\r\n\r\n" not in data:
                    chunk = self.request.recv(65536)
                    if not chunk:
                        return
                    data += chunk
                head, _, body = data.partition(b"\r\n\r\n")
                text = head.decode("latin-1")
                found = re.search(r"^content-length:(.*)", text, re.M | re.I)
                length = int(found[1]) if found else 0
                while len(body) < length:
                    chunk = self.request.recv(65536)
                    if not chunk:
                        break
                    body += chunk
                raw.requests.append(text)
                raw.bodies.append(body)
                with suppress(OSError):  # the client has had enough
                    answer(raw, text, self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True
            request_queue_size = 64

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/cache"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._server.shutdown()
        self._server.server_close()


def reply(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """An ordinary answer."""
    return (
        f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{headers}\r\n".encode()
        + body
    )
