"""HTTPS connections that are kept: a handshake costs more than all the rest of a small request."""

from __future__ import annotations

import http.client
import json
import select
import ssl
import time
from collections import deque
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

_IDLE = 20.0
"""Seconds after which a connection is not used again; servers close them later than that."""
_TIMEOUT = 60.0


@dataclass
class Reply:
    """An HTTP answer; errors are answers too."""

    code: int
    body: bytes
    headers: dict[str, str]

    def json(self) -> Any:
        return json.loads(self.body)


class Connections:
    """Those to one server; any thread may ask."""

    def __init__(self, server: str, tls: ssl.SSLContext) -> None:
        self.server = server
        parts = urlsplit(server)
        self._address = (parts.hostname or "", parts.port or 443)
        self._tls = tls
        self._idle: deque[tuple[float, http.client.HTTPSConnection]] = deque()

    def request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Reply:
        """Raises OSError when there is no answer."""
        connection = self._take()
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            reply = Reply(answer.status, answer.read(), dict(answer.headers.items()))
        except http.client.HTTPException as err:
            connection.close()
            raise ConnectionError(f"{method} {path}: {err!r}") from err
        except BaseException:
            connection.close()
            raise
        self._idle.append((time.monotonic(), connection))
        return reply

    def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()

    def __del__(self) -> None:
        self.close()  # whoever forgot it

    def _take(self) -> http.client.HTTPSConnection:
        """One that is open, or a new one."""
        while True:
            try:
                since, connection = self._idle.pop()
            except IndexError:
                host, port = self._address
                return http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=self._tls)
            if time.monotonic() - since < _IDLE and not _was_closed(connection):
                return connection
            connection.close()


def _was_closed(connection: http.client.HTTPSConnection) -> bool:
    """Whether the server has; an idle connection has nothing else to say."""
    if connection.sock is None:
        return False  # it asked for a new one, which is made with the next request
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
