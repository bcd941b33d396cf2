"""HTTP requests to a cache server: kept connections, time limits, credentials.

``http.client`` imports in 25 ms, urllib3 in 65, httpx in 80. The server is not trusted: no length,
type or end that it sends is believed. Credentials are in no key, message or record.
"""

from __future__ import annotations

import base64
import binascii
import http.client
import netrc
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar
from urllib.parse import urlsplit

from gpubuild import __version__
from gpubuild.settings import Settings
from gpubuild.support.frozen import frozen


def find_authorization(url: str, settings: Settings) -> tuple[str, str]:
    """Return the value of the ``Authorization`` header for ``url``, or "", and a warning, or "".

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
        # The error's own text may quote the password.
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


_CHUNK_BYTES = 1 << 18
_MAX_EXPLANATION = 160  # characters of a server's own text
_REST_BYTES = 1 << 16  # of an unused answer, read so that the connection can be kept
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ABSENT = frozenset({404, 410})
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504, 507})  # 507: room is being made
_REFUSED = frozenset({401, 403, 405, 407, 409, 501})
_WRONG_NAME = frozenset({62, 64})  # X509_V_ERR_HOSTNAME_MISMATCH, …_IP_ADDRESS_MISMATCH
T = TypeVar("T")


@frozen
class TimeLimits:
    """How long a build waits, in seconds. ``idle`` is between two packets."""

    connect: float = 3.0
    idle: float = 10.0
    request: float = 30.0  # a whole exchange, plus the time of the bytes so far at the speed below
    slowest_bytes_per_second: float = 100_000.0
    slow: float = 5.0  # a small answer that takes longer counts as a failure
    back_off: float = 0.1  # before the first repetition; doubled for each further one
    drain: float = 60.0  # for uploads that are not done when the build is


class RemoteError(Exception):
    """An exchange failed. ``transient``: it may succeed when repeated."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


class UnreachableError(RemoteError):
    """No server answers at the address."""


class RefusedError(RemoteError):
    """The server refuses; repeating the request does not help."""


class TooLargeError(RemoteError):
    """The server refuses a body of this size."""


class HttpClient:
    """Requests below ``url`` (http or https, without a user). Thread-safe: one connection per thread.

    ``authorization`` is a header's value. Redirects are refused, so it is sent to ``url`` only.
    """

    def __init__(self, url: str, *, limits: TimeLimits, authorization: str = "") -> None:
        self._base = urlsplit(url.rstrip("/"))
        self._authorization = authorization
        self._limits = limits
        self._local = threading.local()
        self._watch = _Watch()
        self._tls_lock = threading.Lock()
        self._tls: ssl.SSLContext | None = None

    def get(self, path: str, read: Callable[[Iterator[bytes]], T]) -> T | None:
        """Return ``read`` of the body at ``path``; ``None`` when there is no such file.

        ``read`` may stop early. Its exceptions are passed on. Raises ``RemoteError``.
        """
        with self._exchange("GET", path) as (response, passed):
            if response.status == 200:
                if response.getheader("Content-Encoding", "identity") != "identity":
                    raise RemoteError("it answered with an encoding that was not requested")
                return read(_counted(_chunks(response), passed))
            if response.status in _ABSENT:
                return None
            raise self._failure(response)

    def put(self, path: str, size_bytes: int, body: Callable[[], Iterator[bytes]]) -> None:
        """Store ``size_bytes`` at ``path``. An exception of ``body`` aborts the request.

        Raises ``RemoteError``.
        """
        with self._exchange("PUT", path, size_bytes, body) as (response, _):
            if not 200 <= response.status < 300:
                raise self._failure(response)

    def close(self) -> None:
        """Close the calling thread's connection."""
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        self._local.connection = None
        if kept is not None:
            kept.close()

    @contextmanager
    def _exchange(
        self,
        method: str,
        path: str,
        size_bytes: int = 0,
        body: Callable[[], Iterator[bytes]] | None = None,
    ) -> Iterator[tuple[http.client.HTTPResponse, Callable[[int], None]]]:
        """Send a request; yield its answer and a function to call with the number of bytes received.

        Received bytes extend the time limit. Announced sizes do not: with one of a terabyte a server
        could stall for months. The connection is kept when the answer was read to its end.
        """
        connection = self._kept() or self._connect()
        self._local.connection = None
        keep = False
        try:
            watched = connection.sock

            def passed(count: int) -> None:
                self._watch.extend(watched, count / self._limits.slowest_bytes_per_second)

            with self._watch.within(watched, self._limits.request):
                self._send_head(connection, method, path, None if body is None else size_bytes)
                if body is not None:
                    self._send_body(connection, lambda: _counted(body(), passed))
                response = _answer(connection)
                yield response, passed
                with suppress(RemoteError):
                    if not response.isclosed():
                        next(_chunks(response, _REST_BYTES), None)
                keep = response.isclosed() and not response.will_close
        finally:
            if keep:
                self._local.connection = connection
            else:
                connection.close()

    def _send_head(
        self, connection: http.client.HTTPConnection, method: str, path: str, length: int | None
    ) -> None:
        with _network_errors():
            connection.putrequest(method, f"{self._base.path}/{path}", skip_accept_encoding=True)
            connection.putheader("Accept-Encoding", "identity")
            connection.putheader("User-Agent", f"gpubuild/{__version__}")
            if self._authorization:
                connection.putheader("Authorization", self._authorization)
            if length is not None:
                connection.putheader("Content-Type", "application/octet-stream")
                connection.putheader("Content-Length", str(length))
            connection.endheaders()

    def _send_body(self, connection: http.client.HTTPConnection, body: Callable[[], Iterator[bytes]]) -> None:
        for chunk in body():
            try:
                with _network_errors():
                    connection.send(chunk)
            except RemoteError as error:
                # A server that refuses may answer and hang up without reading the rest.
                try:
                    response = _answer(connection)
                except RemoteError:
                    raise error from None
                if response.status < 400:
                    raise
                raise self._failure(response) from None

    def _failure(self, response: http.client.HTTPResponse) -> RemoteError:
        status = response.status
        reason = response.reason[:80]
        message = f"it answered {status} {reason if self._is_quotable(reason) else ''}".rstrip()
        words = self._explanation(response)
        if words and not message.endswith(words):  # many repeat the line with the status
            message += f": {words}"
        if status in _REDIRECTS:
            return RefusedError(f"{message}: configure the address that it redirects to")
        if status in _REFUSED:
            return RefusedError(message)
        if status == 413:
            return TooLargeError(message)
        return RemoteError(message, transient=status in _TRANSIENT)

    def _explanation(self, response: http.client.HTTPResponse) -> str:
        """Return the server's plain text in one line, if it does not quote our credentials."""
        if not response.getheader("Content-Type", "").startswith("text/plain"):
            return ""
        try:
            data = next(_chunks(response, 4 * _MAX_EXPLANATION), b"")
        except RemoteError:
            return ""
        text = data.decode(errors="replace")
        words = " ".join(text.split())
        if not self._is_quotable(words) or not self._is_quotable(text, controls=True):
            return ""
        return words if len(words) <= _MAX_EXPLANATION else words[: _MAX_EXPLANATION - 1] + "…"

    def _is_quotable(self, text: str, *, controls: bool = False) -> bool:
        """Whether a server's text is safe for a terminal and does not quote our credentials."""
        # The text may end within a quotation, so the beginnings count.
        quotes = any(secret[:8] in text for secret in _secrets(self._authorization))
        return not quotes and (controls or text.isprintable())

    def _kept(self) -> http.client.HTTPConnection | None:
        """Return this thread's idle connection, unless the server has closed it."""
        kept: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if kept is None or kept.sock is None:
            return None
        readable, _, _ = select.select([kept.sock], [], [], 0)
        if readable:  # the end of the stream, or an answer to no request
            kept.close()
            return None
        return kept

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._base.hostname or "", self._base.port
        connection: http.client.HTTPConnection
        if self._base.scheme == "https":
            connection = http.client.HTTPSConnection(
                host, port, timeout=self._limits.connect, context=self._trusting()
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._limits.connect)
        try:
            connection.connect()
            connection.sock.settimeout(self._limits.idle)
        except ssl.SSLCertVerificationError as error:
            connection.close()
            raise UnreachableError(_distrust(error)) from None
        except (OSError, ValueError) as error:  # ValueError: a host name that IDNA cannot encode
            connection.close()
            raise UnreachableError(_reason(error), transient=True) from None
        return connection

    def _trusting(self) -> ssl.SSLContext:
        """Trust the authorities of this machine, or those in SSL_CERT_FILE, which OpenSSL reads."""
        with self._tls_lock:
            if self._tls is None:  # reading the authorities takes longer than a request
                self._tls = ssl.create_default_context()
            return self._tls


class _Watch:
    """Shuts down sockets whose time is over: a server that sends a byte now and then is never idle."""

    def __init__(self) -> None:
        self._deadlines: dict[socket.socket, float] = {}
        self._changed = threading.Condition()
        self._running = False

    @contextmanager
    def within(self, watched: socket.socket, seconds: float) -> Iterator[None]:
        with self._changed:
            self._deadlines[watched] = time.monotonic() + seconds
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="gpubuild-remote-watch", daemon=True).start()
        try:
            yield
        finally:
            with self._changed:
                self._deadlines.pop(watched, None)

    def extend(self, watched: socket.socket, seconds: float) -> None:
        """Give a socket more time if its time is not over."""
        with self._changed:
            if watched in self._deadlines:
                self._deadlines[watched] += seconds

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._deadlines:
                    # No request for a while: the next one starts another thread.
                    self._running = self._changed.wait(timeout=1.0) or bool(self._deadlines)
                    if not self._running:
                        return
                now = time.monotonic()
                for watched, deadline in list(self._deadlines.items()):
                    if deadline < now:
                        del self._deadlines[watched]
                        with suppress(OSError):
                            # SSLSocket's own method is not safe while another thread reads.
                            socket.socket.shutdown(watched, socket.SHUT_RDWR)
            time.sleep(0.1)


def _answer(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
    with _network_errors():
        return connection.getresponse()


def _counted(chunks: Iterable[bytes], passed: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        passed(len(chunk))
        yield chunk


def _chunks(response: http.client.HTTPResponse, size_bytes: int = _CHUNK_BYTES) -> Iterator[bytes]:
    while True:
        with _network_errors():
            chunk = response.read(size_bytes)
        if not chunk:
            if response.length:
                raise RemoteError("its answer ended early", transient=True)
            return
        yield chunk


@contextmanager
def _network_errors() -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise RemoteError(_reason(error), transient=True) from None


def _secrets(authorization: str) -> Iterator[str]:
    """Yield the secrets of an ``Authorization`` header: a token, or a password, encoded or not."""
    kind, _, value = authorization.partition(" ")
    if not value:
        return
    yield value
    if kind == "Basic":
        with suppress(binascii.Error, UnicodeDecodeError):
            yield base64.b64decode(value).decode().partition(":")[2]


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    reason = error.verify_message or error.reason or str(error)
    hint = "if an authority of your own has signed it, name the authority's file in SSL_CERT_FILE"
    if error.verify_code in _WRONG_NAME:
        hint = "use the name that the certificate is for"
    return f"its certificate is not trusted: {reason.rstrip('.')}; {hint}"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return f"no secure connection: {error.reason or error}"
    if isinstance(error, OSError):
        return error.strerror or str(error) or type(error).__name__
    text = str(error)[:80]
    return f"{type(error).__name__}: {text if text.isprintable() else ascii(text)}"
