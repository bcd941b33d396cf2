"""A real bazel-remote to test with, where there is one: on PATH, or named by GPUBUILD_TEST_BAZEL_REMOTE."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unit.cache.servers import Certificate, free_port, wait_for

BAZEL_REMOTE = os.environ.get("GPUBUILD_TEST_BAZEL_REMOTE") or shutil.which("bazel-remote")
PAGE = Path(__file__).parents[3] / "docs" / "cache.md"
ABSENT = "no bazel-remote on PATH, and none named by GPUBUILD_TEST_BAZEL_REMOTE"


@contextmanager
def bazel_remote(folder: Path, *flags: str, certificate: Certificate | None = None) -> Iterator[str]:
    """Run it on a free port of loopback; yields the cache's URL.

    What it stores is in ``folder/store`` and outlives it; its log and process number are in ``folder``.
    """
    assert BAZEL_REMOTE
    folder.mkdir(exist_ok=True)
    port = free_port()
    command = [BAZEL_REMOTE, *documented_flags(folder / "store", port), *flags]
    if certificate:
        command += ["--tls_cert_file", str(certificate.chain), "--tls_key_file", str(certificate.key)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("BAZEL_REMOTE_")}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder
        )
    (folder / "pid").write_text(str(process.pid))
    try:
        wait_for(port, process)
        yield f"{'https://localhost' if certificate else 'http://127.0.0.1'}:{port}"
    finally:
        process.terminate()
        process.wait(timeout=120)


def documented_flags(store: Path, port: int) -> list[str]:
    """Those of docs/cache.md, for a server of the test's own."""
    block = re.search(r"^```sh\nbazel-remote (.*)\n```$", PAGE.read_text(), re.M)
    assert block
    own = {"/srv/cache": str(store), ":8080": f"127.0.0.1:{port}"}
    flags = shlex.split(block[1])
    assert own.keys() <= set(flags)
    return [own.get(flag, flag) for flag in flags]


def stored(folder: Path, kind: str) -> list[Path]:
    """The files in which it keeps ``ac``, ``raw`` (results that it does not check) or ``cas``."""
    return sorted(path for path in (folder / "store" / f"{kind}.v2").rglob("*") if path.is_file())
