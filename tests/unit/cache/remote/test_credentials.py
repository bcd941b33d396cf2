import base64
from pathlib import Path

import pytest

from gpubuild.cache.remote.http import find_authorization
from gpubuild.settings import Settings

URL = "https://cache.example:8443/gpubuild"


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def test_token_user_and_netrc_in_this_order(tmp_path: Path) -> None:
    """Another host than that of the file's entry gets nothing."""
    file = tmp_path / "netrc"
    file.write_text(
        "machine cache.example login nina password n3t\nmachine other.example login x password y\n"
    )
    settings = {"netrc": file}
    assert find_authorization(URL, Settings()) == ("", "")
    assert find_authorization("https://third.example", Settings(**settings)) == ("", "")
    assert find_authorization(URL, Settings(**settings)) == (basic("nina:n3t"), "")
    settings |= {"remote_user": "uma", "remote_password": "ü"}
    assert find_authorization(URL, Settings(**settings)) == (basic("uma:ü"), "")
    settings |= {"remote_token": "t0k"}
    assert find_authorization(URL, Settings(**settings)) == ("Bearer t0k", "")


def test_a_netrc_that_was_named_must_be_there(tmp_path: Path) -> None:
    named = Settings.from_environ({"NETRC": str(tmp_path / "none")})
    assert find_authorization(URL, named)[1].startswith(f"NETRC names {tmp_path}/none, which is not a file")
    assert find_authorization(URL, Settings.from_environ({"HOME": str(tmp_path)})) == ("", "")


@pytest.mark.parametrize("text", ["machine cache.example login nina hunter2", "\xff\xfe"])
def test_a_damaged_netrc_is_reported_without_its_secrets(tmp_path: Path, text: str) -> None:
    file = tmp_path / "netrc"
    file.write_bytes(text.encode("latin-1"))
    authorization, problem = find_authorization(URL, Settings(netrc=file))
    assert authorization == ""
    assert str(file) in problem and "hunter2" not in problem


@pytest.mark.parametrize("token", ["a\r\nX-Evil: 1", "a\nb", "tökén"])
def test_a_token_that_would_not_fit_a_header(token: str) -> None:
    authorization, problem = find_authorization(URL, Settings(remote_token=token))
    assert authorization == ""
    assert "GPUBUILD_REMOTE_TOKEN" in problem and token not in problem


def test_secrets_are_not_shown_with_the_settings() -> None:
    environ = {
        "GPUBUILD_REMOTE_TOKEN": "t0k",
        "GPUBUILD_REMOTE_USER": "uma",
        "GPUBUILD_REMOTE_PASSWORD": "pa55",
        "HOME": "/home/uma",
    }
    settings = Settings.from_environ(environ)
    assert (settings.remote_token, settings.remote_password) == ("t0k", "pa55")
    assert settings.netrc == Path("/home/uma/.netrc")
    assert "t0k" not in repr(settings) and "pa55" not in repr(settings)
