"""The proxy subresources: a plain reverse proxy to pods, services and nodes."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from corral.cluster.apiserver.audit.record import started
from corral.cluster.apiserver.nodes.kubelets import Kubelets, explain, returned_headers
from corral.cluster.apiserver.nodes.lookup import Backend, Lookup
from corral.cluster.apiserver.nodes.passing import Passing
from corral.cluster.apiserver.nodes.streams import Streams
from corral.cluster.apiserver.requests import RequestInfo
from corral.cluster.streaming import upgrade
from corral.cluster.streaming.wires import Departure, first_of
from corral.kube import errors


class Proxy:
    """Any method on pods/NAME/proxy, services/NAME/proxy, nodes/NAME/proxy."""

    def __init__(
        self, lookup: Lookup, kubelets: Kubelets, streams: Streams, passing: Passing
    ) -> None:
        self._lookup = lookup
        self._kubelets = kubelets
        self._streams = streams
        self._passing = passing

    async def handle(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        backend = self._backend(info)
        path, _, query = request.raw_path.partition("?")
        prefix, rest = _split(path, 5 if info.resource == "nodes" else 7)
        question = f"?{query}" if query else ""
        if upgrade.is_upgrade(request):
            return await self._streams.pass_through(request, backend, (rest or "/") + question)
        if not rest and request.method in ("GET", "HEAD"):
            return web.Response(status=301, headers={"Location": f"{path}/{question}"})
        try:
            async with self._kubelets.request(
                backend, request.method, (rest or "/") + question, request=request
            ) as answer:
                return await _pass_on(
                    request, answer, backend, prefix, self._passing, info.namespace
                )
        except (aiohttp.ClientConnectionError, OSError, aiohttp.ClientPayloadError) as err:
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError("the client is gone") from err
            raise errors.ServiceUnavailable(
                f"error trying to reach service: {explain(err, backend.authority)}"
            ) from err

    def _backend(self, info: RequestInfo) -> Backend:
        match info.resource:
            case "pods":
                return self._lookup.pod_backend(info.namespace, info.name)
            case "services":
                return self._lookup.service_backend(info.namespace, info.name)
            case _:
                return self._lookup.node_backend(info.name)


def _split(path: str, count: int) -> tuple[str, str]:
    """Cut a path behind its first ``count`` parts: the way here, and the way from here on."""
    at = -1
    for _ in range(count):
        at = path.find("/", at + 1)
    end = path.find("/", at + 1)
    return (path, "") if end < 0 else (path[:end], path[end:])


async def _pass_on(
    request: web.BaseRequest,
    answer: aiohttp.ClientResponse,
    backend: Backend,
    prefix: str,
    passing: Passing,
    flow: str,
) -> web.StreamResponse:
    headers = returned_headers(answer.headers.items())
    location = headers.get("Location")
    if location:
        headers["Location"] = _rewritten(location, backend, prefix)
    response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=headers)
    endless = "Content-Length" not in headers and not request.can_read_body
    if endless:
        response.force_close()
    await response.prepare(request)
    started(request, response.status)
    if request.method == "HEAD":
        return response

    copying = passing.copy(flow, answer, response)
    try:
        if endless:
            # a backend with nothing to say must not be kept for a client that has left
            await first_of(copying, Departure(request).wait())
        else:
            await copying
    except (aiohttp.ClientError, asyncio.IncompleteReadError) as err:
        raise ConnectionResetError(f"the backend broke off: {err}") from err
    return response


def _rewritten(location: str, backend: Backend, prefix: str) -> str:
    """A redirect within the backend stays behind the proxy."""
    parts = urlsplit(location)
    if parts.netloc and parts.netloc != backend.authority:
        return location
    if not parts.path.startswith("/"):
        return location
    query = f"?{parts.query}" if parts.query else ""
    return f"{prefix}{parts.path}{query}"
