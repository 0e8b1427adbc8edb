"""HTTP/1.1 over one kept-alive connection, with the standard library.

Whatever goes wrong between sending and the last byte of the answer is `Unavailable`: the request
may or may not have been carried out, so callers only send what may be repeated.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from .errors import Unavailable

if TYPE_CHECKING:
    import http.client
    import ssl
    from collections.abc import Iterator, Mapping
    from io import BufferedReader

BLOCK = 1 << 20
"""Bytes sent and received at a time."""
_LIMIT = 64 << 20
"""Bytes of an answer that is read whole."""


class Answer(NamedTuple):
    """A complete answer of an HTTP server."""

    status: int
    headers: Mapping[str, str]
    """All names are in lower case."""
    data: bytes


class Slice(NamedTuple):
    """A part of a file as the body of a request."""

    path: str
    start: int
    size: int

    def open(self) -> _Reader:
        return _Reader(self)


class _Reader:
    """What `http.client` reads a body from."""

    def __init__(self, part: Slice) -> None:
        self._file: BufferedReader = open(part.path, "rb")
        self._file.seek(part.start)
        self._left = part.size

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._file.close()


class Wire:
    """One connection, made when needed and made anew when broken; for one thread."""

    def __init__(self, *, ca: str = "", system_trust: bool = False, timeout: float = 10.0) -> None:
        """Connects to nothing yet.

        Args:
            ca: PEM of authorities to trust.
            system_trust: whether to trust the system's authorities besides those of `ca`.
            timeout: seconds that the other side may be silent.
        """
        self._ca = ca
        self._system_trust = system_trust
        self._timeout = timeout
        self._origin: tuple[str, str] | None = None
        self._connection: http.client.HTTPConnection | None = None

    def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | Slice = b"",
        *,
        timeout: float | None = None,
    ) -> Answer:
        """Sends a request and reads the whole answer.

        Raises:
            Unavailable: if there was no whole answer.
        """
        with self._failures(url):
            response = self._request(method, url, headers, body, timeout)
            data = response.read(_LIMIT + 1)
            if len(data) > _LIMIT or response.length:
                raise ValueError(f"its answer breaks off after {len(data)} bytes")
            if response.will_close:
                self.close()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, data)

    def stream(self, method: str, url: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
        """Sends a request; the caller reads the answer to its end or calls `close`."""
        with self._failures(url):
            return self._request(method, url, headers, b"", None)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextlib.contextmanager
    def _failures(self, url: str) -> Iterator[None]:
        # Imported where it is needed: it would be a third of the package's import time.
        import http.client

        try:
            yield
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            reason = str(error) or type(error).__name__
            raise Unavailable(f"{urlsplit(url).netloc} did not answer: {reason}") from error
        except BaseException:
            self.close()
            raise

    def _request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | Slice,
        timeout: float | None,
    ) -> http.client.HTTPResponse:
        import http.client

        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kept = self._connection is not None and self._origin == parts[:2]
        try:
            return self._attempt(parts[:2], method, target, headers, body, timeout)
        except (ConnectionError, http.client.RemoteDisconnected):
            # The other side may close a kept connection at any time; a new one decides.
            self.close()
            if not kept:
                raise
        return self._attempt(parts[:2], method, target, headers, body, timeout)

    def _attempt(
        self,
        origin: tuple[str, str],
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | Slice,
        timeout: float | None,
    ) -> http.client.HTTPResponse:
        connection = self._connect(origin, timeout or self._timeout)
        length = body.size if isinstance(body, Slice) else len(body)
        sized = {**headers, "Content-Length": str(length)} if method != "GET" else dict(headers)
        if not isinstance(body, Slice):
            connection.request(method, target, body=body or None, headers=sized)
            return connection.getresponse()
        source = body.open()
        try:
            connection.request(method, target, body=source, headers=sized)
        finally:
            source.close()
        return connection.getresponse()

    def _connect(self, origin: tuple[str, str], timeout: float) -> http.client.HTTPConnection:
        import http.client

        if self._origin != origin:
            self.close()
        if self._connection is None:
            scheme, place = origin
            if scheme == "https":
                self._connection = http.client.HTTPSConnection(
                    place, context=self._context(), blocksize=BLOCK
                )
            elif scheme == "http":
                self._connection = http.client.HTTPConnection(place, blocksize=BLOCK)
            else:
                raise ValueError(f"{scheme}://{place} is neither http nor https")
            self._origin = origin
        self._connection.timeout = timeout
        if self._connection.sock is not None:
            self._connection.sock.settimeout(timeout)
        return self._connection

    def _context(self) -> ssl.SSLContext:
        import ssl

        if not self._ca:
            return ssl.create_default_context()
        if not self._system_trust:
            return ssl.create_default_context(cadata=self._ca)
        context = ssl.create_default_context()
        context.load_verify_locations(cadata=self._ca)
        return context
