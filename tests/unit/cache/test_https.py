"""The remote cache over TLS: a real nginx with a certificate that a throw-away authority signed."""

import ssl
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from unit.cache.samples import CONTENT, KEY, make_result, open_tiered
from unit.cache.servers import NGINX, OPENSSL, Certificate, make_certificate, nginx

from gpubuild.cache.remote.http import HttpClient, TimeLimits
from gpubuild.model.digest import digest_bytes

pytestmark = [
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed (apt-get install nginx-light)"),
    pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed (apt-get install openssl)"),
]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("tls") / "good")


@pytest.fixture(scope="module")
def url(certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with nginx(tmp_path_factory.mktemp("nginx") / "server", certificate=certificate) as address:
        yield address


@pytest.fixture
def trusted(certificate: Certificate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.authority))


@pytest.mark.usefixtures("trusted")
def test_one_machine_stores_and_another_finds(url: str, tmp_path: Path) -> None:
    with closing(open_tiered(tmp_path / "first", url, authorization="Bearer s3cret")) as first:
        keys = [KEY, *(digest_bytes(b"%d" % n) for n in range(20))]
        result, files = make_result(tmp_path / "out")
        for key in keys:
            assert first.publish(key, result, files)
    assert first.warnings == ()
    with closing(open_tiered(tmp_path / "second", url)) as second:
        second.anticipate(keys)
        for key in keys:
            assert second.lookup(key) == result and second.is_remote(key)
        for blob in result.blobs:
            assert second.fetch(blob, tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == CONTENT[blob.name]
    assert second.warnings == ()


def refused(directory: Path, url: str, scratch: Path) -> str:
    """The one warning of a build that cannot use its remote cache, and goes on all the same."""
    with closing(open_tiered(directory, url)) as store:
        result, files = make_result(scratch / "out")
        assert store.lookup(KEY) is None
        assert not store.has_remote
        assert store.publish(KEY, result, files), "the local cache works"
        assert store.lookup(KEY) == result
    [warning] = store.warnings
    assert "is not used for the rest of this build" in warning
    return warning


@pytest.mark.parametrize("known", ["the system's", "another"])
def test_an_authority_that_is_not_known(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: str
) -> None:
    if known == "another":
        monkeypatch.setenv("SSL_CERT_FILE", str(make_certificate(tmp_path / "other").authority))
    warning = refused(tmp_path / "cache", url, tmp_path)
    assert "its certificate is not trusted: " in warning
    assert "SSL_CERT_FILE" in warning


@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_host(url: str, tmp_path: Path) -> None:
    warning = refused(tmp_path / "cache", url.replace("localhost", "127.0.0.1"), tmp_path)
    assert "IP address mismatch" in warning and "the name that the certificate is for" in warning


@pytest.mark.usefixtures("trusted")
def test_a_server_that_speaks_no_tls(tmp_path: Path) -> None:
    with nginx(tmp_path / "plain") as plain:
        warning = refused(tmp_path / "cache", plain.replace("http:", "https:"), tmp_path)
    assert "no secure connection" in warning


@pytest.mark.usefixtures("trusted")
def test_the_authorities_are_read_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading them takes longer than a request, and each of a dozen threads has a connection."""
    real, count = ssl.create_default_context, [0]

    def counting() -> ssl.SSLContext:
        count[0] += 1
        return real()

    monkeypatch.setattr(ssl, "create_default_context", counting)
    client = HttpClient(url, limits=TimeLimits())
    for _ in range(3):
        assert client.get("ac/nothing", b"".join) is None
        client.close()
    assert count == [1]
