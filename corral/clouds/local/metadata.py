"""The metadata endpoint of a local VM, as GCP's metadata server speaks."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import Callable, Mapping

from aiohttp import web

__all__ = ["MetadataServer"]

_ROOT = "/computeMetadata/v1/instance/"
_FLAVOR = {"Metadata-Flavor": "Google", "Server": "Metadata Server for VM"}
_LONGEST_WAIT_S = 300.0


class MetadataServer:
    """Values by path; whoever waits for a change of one is answered when it comes."""

    def __init__(self, values: Callable[[], Mapping[str, str]]) -> None:
        self._values = values
        self._changed = asyncio.Condition()
        self._runner: web.AppRunner | None = None

    async def start(self, sock: socket.socket) -> None:
        app = web.Application()
        app.router.add_get(_ROOT + "{path:.+}", self._get)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.SockSite(self._runner, sock, shutdown_timeout=0.1).start()

    async def changed(self) -> None:
        """Tell those who wait that values may have changed."""
        async with self._changed:
            self._changed.notify_all()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _get(self, request: web.Request) -> web.Response:
        if request.headers.get("Metadata-Flavor") != "Google":
            # as on GCP: a page in a browser must not be able to read it
            return web.Response(status=403, text="Missing Metadata-Flavor:Google header.")
        path = request.match_info["path"]
        if request.query.get("wait_for_change") == "true":
            await self._wait(path, request.query)
        value = self._values().get(path)
        if value is None:
            return web.Response(status=404, headers=_FLAVOR, text="Not Found")
        headers = {**_FLAVOR, "ETag": _etag(value)}
        return web.Response(text=value, headers=headers, content_type="application/text")

    async def _wait(self, path: str, query: Mapping[str, str]) -> None:
        """Until the value is another than the one the asker knows, or time is over."""
        try:
            longest = min(float(query.get("timeout_sec", _LONGEST_WAIT_S)), _LONGEST_WAIT_S)
        except ValueError:
            raise web.HTTPBadRequest(text="timeout_sec is no number") from None
        known = query.get("last_etag") or _etag(self._values().get(path, ""))
        try:
            async with asyncio.timeout(longest), self._changed:
                await self._changed.wait_for(lambda: _etag(self._values().get(path, "")) != known)
        except TimeoutError:
            return


def _etag(value: str) -> str:
    return hashlib.sha256(value.encode()).hexdigest()[:16]
