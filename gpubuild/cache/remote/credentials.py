"""Credentials: what to show to a remote cache. They are in no key, no message and no record."""

from __future__ import annotations

import base64
import netrc
from urllib.parse import urlsplit

from gpubuild.settings import Settings


def find_authorization(url: str, settings: Settings) -> tuple[str, str]:
    """The ``Authorization`` header's value for ``url``, empty for none, and a problem to tell.

    In order: GPUBUILD_REMOTE_TOKEN, GPUBUILD_REMOTE_USER with GPUBUILD_REMOTE_PASSWORD, netrc.
    """
    if settings.remote_token:
        return _sendable(f"Bearer {settings.remote_token}", "GPUBUILD_REMOTE_TOKEN")
    if settings.remote_user:
        return _basic(settings.remote_user, settings.remote_password), ""
    file = settings.netrc
    if file is None or not file.is_file():
        if file is not None and settings.netrc_is_named:
            problem = f"NETRC names {file}, which is not a file"
            return "", f"{problem}: the remote cache is asked without credentials"
        return "", ""
    try:
        entry = netrc.netrc(str(file)).authenticators(urlsplit(url).hostname or "")
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError) as error:
        line = f" (line {error.lineno})" if isinstance(error, netrc.NetrcParseError) else ""
        # Not the error's own text: it may quote the password.
        return "", f"{file} cannot be read{line}: the remote cache is asked without credentials"
    if entry is None:
        return "", ""
    return _basic(entry[0] or "", entry[2] or ""), ""


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def _sendable(value: str, name: str) -> tuple[str, str]:
    if value.isascii() and value.isprintable():
        return value, ""
    return "", f"{name} has characters that no header can have: the remote cache is asked without it"
