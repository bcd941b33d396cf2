"""A real bazel-remote to test with, where there is one: on PATH, or named by GPUBUILD_TEST_BAZEL_REMOTE."""

import base64
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest
from unit.cache.samples import CONTENT, KEY, make_result, noise, open_tiered
from unit.cache.servers import OPENSSL, Certificate, free_port, make_certificate, wait_for

from gpubuild.model.project import RemoteMode

BAZEL_REMOTE = os.environ.get("GPUBUILD_TEST_BAZEL_REMOTE") or shutil.which("bazel-remote")
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "cache.md"
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
    """Those of docs/how-to/cache.md, for a server of the test's own."""
    block = re.search(r"^```sh\nbazel-remote (.*)\n```$", PAGE.read_text(), re.M)
    assert block
    own = {"/srv/cache": str(store), ":8080": f"127.0.0.1:{port}"}
    flags = shlex.split(block[1])
    assert own.keys() <= set(flags)
    return [own.get(flag, flag) for flag in flags]


def stored(folder: Path, kind: str) -> list[Path]:
    """The files in which it keeps ``ac``, ``raw`` (results that it does not check) or ``cas``."""
    return sorted(path for path in (folder / "store" / f"{kind}.v2").rglob("*") if path.is_file())


pytestmark = pytest.mark.skipif(BAZEL_REMOTE is None, reason=ABSENT)

TEXT = b"  mov.u32 %r1, %tid.x;\n" * 2000
UNCHECKED = "--disable_http_ac_validation"


def publish(url: str, folder: Path, content: dict[str, bytes], **options) -> tuple[str, ...]:
    """Store a result under KEY; the warnings."""
    with closing(open_tiered(Path(mkdtemp(dir=folder)), url, **options)) as store:
        store.publish(KEY, *make_result(folder / "out", content))
    return store.warnings


def found(url: str, folder: Path, content: dict[str, bytes], **options) -> tuple[bool, tuple[str, ...]]:
    """Whether another machine finds the result, byte for byte; and its warnings."""
    place = Path(mkdtemp(dir=folder))
    with closing(open_tiered(place, url, **options)) as store:
        result = store.lookup(KEY)
        if result is not None:
            assert result == make_result(folder / "out", content)[0] and store.is_remote(KEY)
            for blob in result.blobs:
                assert store.fetch(blob, place / blob.name)
                assert (place / blob.name).read_bytes() == content[blob.name]
    return result is not None, store.warnings


@pytest.mark.parametrize("flags", [(), (UNCHECKED,), ("--storage_mode", "uncompressed")], ids=str)
def test_one_machine_stores_and_another_finds(tmp_path: Path, flags: tuple[str, ...]) -> None:
    content = {**CONTENT, "text": TEXT, "large": noise(700_000)}
    with bazel_remote(tmp_path / "server", *flags) as url:
        assert found(url, tmp_path, content) == (False, ())
        assert publish(url, tmp_path, content, mode=RemoteMode.READ_ONLY) == ()
        assert found(url, tmp_path, content) == (False, ())
        assert publish(url, tmp_path, content, mode=RemoteMode.WRITE_ONLY) == ()
        assert found(url, tmp_path, content, mode=RemoteMode.WRITE_ONLY) == (False, ())
        assert found(url, tmp_path, content) == (True, ())
    assert len(stored(tmp_path / "server", "raw" if UNCHECKED in flags else "ac")) == 1
    with bazel_remote(tmp_path / "server", *flags) as url:
        assert found(url, tmp_path, content) == (True, ()), "it was started again"


@pytest.mark.parametrize("flags", [(), (UNCHECKED,)], ids=str)
def test_one_blob_of_a_result_was_evicted(tmp_path: Path, flags: tuple[str, ...]) -> None:
    server = tmp_path / "server"
    with bazel_remote(server, *flags) as url:
        assert publish(url, tmp_path, CONTENT) == ()
    digest = hashlib.sha256(CONTENT["object"]).hexdigest()
    [gone] = [path for path in stored(server, "cas") if path.name.startswith(digest)]
    gone.unlink()
    with bazel_remote(server, *flags) as url:
        assert found(url, tmp_path, CONTENT) == (False, ())
        log = (server / "log").read_text().splitlines()
        missed = [line.split()[-1] for line in log if "GET 404" in line]
        # It knows what a result consists of: without a part of it, it does not hand out the record.
        assert missed == [f"/cas/{digest}" if flags else f"/ac/{KEY}"]
        assert publish(url, tmp_path, CONTENT) == ()
        assert found(url, tmp_path, CONTENT) == (True, ()), "it fills up again"


def test_everybody_reads_and_who_has_a_password_writes(tmp_path: Path) -> None:
    digest = base64.b64encode(hashlib.sha1(b"s3cret word").digest()).decode()
    (tmp_path / "users").write_text(f"ci:{{SHA}}{digest}\n")
    right = "Basic " + base64.b64encode(b"ci:s3cret word").decode()
    wrong = "Basic " + base64.b64encode(b"ci:a guess").decode()
    content = {"large": noise(3_000_000)}  # refused before it was read to its end
    guarded = ("--htpasswd_file", str(tmp_path / "users"))
    assert "`--htpasswd_file FILE --allow_unauthenticated_reads`" in PAGE.read_text()
    with bazel_remote(tmp_path / "server", *guarded, "--allow_unauthenticated_reads") as url:
        for authorization in ("", wrong):
            [warning] = publish(url, tmp_path, content, authorization=authorization)
            assert "not written to for the rest of this build: it answered 401 Unauth" in warning
            assert "guess" not in warning
        assert publish(url, tmp_path, content, authorization=right) == ()
        assert found(url, tmp_path, content) == (True, ())
    with bazel_remote(tmp_path / "server", *guarded) as url:
        hit, [warning] = found(url, tmp_path, content)
        assert not hit and "401" in warning
        assert found(url, tmp_path, content, authorization=right) == (True, ())


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed (apt-get install openssl)")
def test_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificate = make_certificate(tmp_path / "tls")
    with bazel_remote(tmp_path / "server", certificate=certificate) as url:
        assert url.startswith("https:")
        [warning] = publish(url, tmp_path, CONTENT)
        assert "certificate is not trusted" in warning
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate.authority))
        assert publish(url, tmp_path, CONTENT) == ()
        assert found(url, tmp_path, CONTENT) == (True, ())
