"""An nginx on loopback that serves as a remote cache while a benchmark runs."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONFIG = """\
daemon off;
master_process off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  keepalive_requests 1000000;
  server {{
    listen 127.0.0.1:{port};
    location /gpubuild/ {{
      root {folder}/srv;
      dav_methods PUT;
      create_full_put_path on;
      client_max_body_size 1g;
    }}
  }}
}}
"""


def nginx_program() -> str | None:
    """nginx, which distributions put where users' PATHs do not look."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin")


@contextmanager
def nginx(folder: Path) -> Iterator[str]:
    """The URL of an empty remote cache whose files lie in ``folder``."""
    program = nginx_program()
    assert program is not None
    (folder / "srv").mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(CONFIG.format(folder=folder, port=port, user=user))
    process = subprocess.Popen(
        [program, "-e", folder / "error.log", "-c", folder / "nginx.conf", "-p", folder],
        stdin=subprocess.DEVNULL,
    )
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}/gpubuild"
    finally:
        process.terminate()
        process.wait(timeout=20)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when somebody answers."""
    for _ in range(100):
        if process.poll() is not None:
            raise SystemExit("nginx did not start")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("nginx does not answer")
