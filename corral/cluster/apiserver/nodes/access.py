"""Which handler answers a request that reaches into a node."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import web

from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.nodes.kubelets import Kubelets
from corral.cluster.apiserver.nodes.logs import Logs
from corral.cluster.apiserver.nodes.lookup import Lookup, Objects
from corral.cluster.apiserver.nodes.metrics import FIRST_WINDOW, Metrics
from corral.cluster.apiserver.nodes.passing import Passing
from corral.cluster.apiserver.nodes.proxy import Proxy
from corral.cluster.apiserver.nodes.streams import Streams
from corral.cluster.apiserver.requests import RequestInfo
from corral.cluster.apiserver.resources import ResourceInfo
from corral.kube import errors

Handler = Callable[[web.BaseRequest, RequestInfo, UserInfo], Awaitable[web.StreamResponse]]
_Work = Callable[[web.BaseRequest, RequestInfo], Awaitable[web.StreamResponse]]
_UPGRADES = ("GET", "POST")
_PROXIED = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


class NodeAccess:
    """Logs, exec, attach, port-forward, proxies, metrics.

    ``objects`` is the store. ``cert_file`` and ``key_file`` are the client certificate shown to
    kubelets, whose own certificates are verified only against ``ca_file``, where one is given.
    ``require`` refuses what a user may not do. ``allow_loopback`` lets proxies reach pods and
    nodes on this machine, where the process runtime puts them; kube-apiserver never does.
    ``first_window`` is the time in seconds between the first two readings of a node's metrics.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        cert_file: Path | None = None,
        key_file: Path | None = None,
        ca_file: Path | None = None,
        require: Callable[[Attributes], None] | None = None,
        allow_loopback: bool = True,
        first_window: float = FIRST_WINDOW,
    ) -> None:
        lookup = Lookup(objects, allow_loopback=allow_loopback)
        self._kubelets = Kubelets(cert_file=cert_file, key_file=key_file, ca_file=ca_file)
        self._require = require
        self._running: set[asyncio.Task[object]] = set()
        streams = Streams(lookup, self._kubelets)
        passing = Passing()
        proxy = Proxy(lookup, self._kubelets, streams, passing)
        logs = Logs(lookup, self._kubelets, passing)
        command = self._handler(streams.command, _UPGRADES, creates=True)
        proxied = self._handler(proxy.handle, _PROXIED)
        metrics = Metrics(lookup, self._kubelets, first_window=first_window)
        self._metrics = self._handler(metrics.handle, ("GET", "HEAD"))
        self._table: dict[tuple[str, str], Handler] = {
            ("pods", "log"): self._handler(logs.handle, ("GET", "HEAD")),
            ("pods", "exec"): command,
            ("pods", "attach"): command,
            ("pods", "portforward"): self._handler(streams.forward, _UPGRADES, creates=True),
            ("pods", "proxy"): proxied,
            ("services", "proxy"): proxied,
            ("nodes", "proxy"): proxied,
        }

    def use_certificate(self, cert_file: Path, key_file: Path) -> None:
        """Show kubelets this certificate from now on. Raises OSError, ssl.SSLError."""
        self._kubelets.use_certificate(cert_file, key_file)

    async def start(self) -> None:
        await self._kubelets.start()

    async def stop(self) -> None:
        """End every session that is still going on. Call it before the HTTP server stops."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._kubelets.stop()

    def find(self, found: ResourceInfo, info: RequestInfo) -> Handler | None:
        """The handler of a request, or None when it is not about the inside of a node."""
        if found.group == "metrics.k8s.io":
            return self._metrics
        if found.group:
            return None
        return self._table.get((found.plural, info.subresource))

    def _handler(self, work: _Work, methods: tuple[str, ...], *, creates: bool = False) -> Handler:
        async def handle(
            request: web.BaseRequest, info: RequestInfo, user: UserInfo
        ) -> web.StreamResponse:
            if request.method not in methods:
                raise errors.MethodNotSupported(
                    "the server does not allow this method on the requested resource"
                )
            if creates and info.verb != "create" and self._require is not None:
                self._require(_as_create(info, user))
            task = asyncio.current_task()
            assert task is not None
            self._running.add(task)
            try:
                return await work(request, info)
            finally:
                self._running.discard(task)

        return handle


def _as_create(info: RequestInfo, user: UserInfo) -> Attributes:
    """A WebSocket comes as a GET, but running something in a pod takes the right to create."""
    return Attributes(
        user,
        "create",
        info.namespace,
        info.group,
        info.version,
        info.resource,
        info.subresource,
        info.name,
        True,
        info.path,
    )
