"""Watches of one server, read line by line."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from tests.cluster.compare.normal import Normal
from tests.cluster.compare.pair import Side


class Watch:
    """An open watch; ``rest`` reads until the server ends it."""

    def __init__(self, side: Side, path: str, *, accept: str = "application/json") -> None:
        backend = side.backend
        host, _, port = backend.server.removeprefix("https://").rpartition(":")
        tls = ssl.create_default_context(cafile=backend.ca_file)
        self._connection = http.client.HTTPSConnection(host, int(port), context=tls, timeout=30)
        headers = {"Authorization": f"Bearer {backend.token}", "Accept": accept}
        self._connection.request("GET", path, headers=headers)
        self._reply = self._connection.getresponse()
        self.code = self._reply.status

    def next(self) -> Any:
        """The next event, normalised."""
        line = self._reply.readline()
        return _normal(json.loads(line)) if line.strip() else None

    def rest(self) -> list[Any]:
        """All events until the end."""
        try:
            text = self._reply.read()
        finally:
            self.close()
        return [_normal(json.loads(line)) for line in text.splitlines() if line.strip()]

    def close(self) -> None:
        self._connection.close()


def _normal(event: Any) -> Any:
    return Normal().value(event)
