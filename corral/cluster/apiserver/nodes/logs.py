"""Pod logs: the kubelet's bytes to the client, as they come."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import aiohttp
from aiohttp import web

from corral.cluster.apiserver.audit.record import started
from corral.cluster.apiserver.nodes.kubelets import Kubelets, answered, explain
from corral.cluster.apiserver.nodes.lookup import Lookup, container_of
from corral.cluster.apiserver.nodes.options import log_options
from corral.cluster.apiserver.nodes.passing import Passing
from corral.cluster.apiserver.requests import RequestInfo
from corral.cluster.streaming.upgrade import MAX_ERROR_BODY
from corral.cluster.streaming.wires import Departure, first_of
from corral.kube import errors
from corral.kube.podstreams.logs import LOG_COMPLETE_HEADER


class Logs:
    """GET pods/NAME/log."""

    def __init__(self, lookup: Lookup, kubelets: Kubelets, passing: Passing) -> None:
        self._lookup = lookup
        self._kubelets = kubelets
        self._passing = passing

    async def handle(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        options = log_options(request.query, info.name)
        pod = self._lookup.pod(info.namespace, info.name)
        container = container_of(pod, options.container)
        if not pod["spec"].get("nodeName"):
            return web.Response(status=204)
        kubelet = self._lookup.kubelet_of_pod(pod)
        path = f"/containerLogs/{quote(info.namespace)}/{quote(info.name)}/{quote(container)}"
        target = f"{path}?{options.query}" if options.query else path
        try:
            async with self._kubelets.get(kubelet, target) as answer:
                if not 200 <= answer.status <= 206:
                    body = await answer.content.read(MAX_ERROR_BODY)
                    raise answered(
                        answer.status, "pods/log", info.name, body.decode(errors="replace")
                    )
                return await self._pass_on(request, info, answer, follow=options.follow)
        except (aiohttp.ClientConnectionError, OSError) as err:
            if request.transport is None or request.transport.is_closing():
                raise ConnectionResetError("the client is gone") from err
            url = f"https://{kubelet.authority}{target}"
            raise errors.ApiError(f'Get "{url}": {explain(err, kubelet.authority)}') from err

    async def _pass_on(
        self,
        request: web.BaseRequest,
        info: RequestInfo,
        answer: aiohttp.ClientResponse,
        *,
        follow: bool,
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": "text/plain", LOG_COMPLETE_HEADER: "true"}
        )
        if follow:
            response.force_close()
        await response.prepare(request)
        started(request, response.status)

        copying = self._passing.copy(info.namespace, answer, response)
        try:
            if follow:
                # a quiet log is written to never, so nobody would notice that its reader has left
                await first_of(copying, Departure(request).wait())
            else:
                await copying
        except (aiohttp.ClientError, asyncio.IncompleteReadError) as err:
            # the status line is long gone; a broken chunked body is the only way to say it
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError(f"the node broke off: {err}") from err
        return response
