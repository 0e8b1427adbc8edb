"""exec, attach and port-forward: whatever the client speaks, joined to what the kubelet speaks.

============================  ==============================  =================================
client                        kubelet takes WebSockets        kubelet does not
============================  ==============================  =================================
SPDY                          bytes passed                    bytes passed
WebSocket channels            bytes passed                    translated to SPDY streams
WebSocket tunnel (SPDY in it) bytes passed                    unpacked, SPDY bytes passed
============================  ==============================  =================================
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web
from multidict import CIMultiDict

from corral.cluster.apiserver.nodes.kubelets import (
    Kubelets,
    backend_of,
    explain,
    forward_headers,
    returned_headers,
)
from corral.cluster.apiserver.nodes.lookup import Backend, Kubelet, Lookup, container_of
from corral.cluster.apiserver.nodes.options import command_options, command_query, forward_ports
from corral.cluster.apiserver.requests import RequestInfo
from corral.cluster.streaming import channels as ch
from corral.cluster.streaming import commands, forwarding, upgrade
from corral.cluster.streaming.spdy import Connection
from corral.cluster.streaming.wires import WebSocketWire, relay
from corral.kube import errors

PING_EVERY = 5.0
"""Seconds between signs of life on a translated connection to a kubelet."""


class Streams:
    """The upgrade subresources of pods."""

    def __init__(self, lookup: Lookup, kubelets: Kubelets) -> None:
        self._lookup = lookup
        self._kubelets = kubelets

    # -- exec, attach ------------------------------------------------------------------------

    async def command(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        options = command_options(request.query)
        pod = self._lookup.pod(info.namespace, info.name)
        container = container_of(pod, request.query.get("container", ""))
        kubelet = self._lookup.kubelet_of_pod(pod)
        words = request.query.getall("command", []) if info.subresource == "exec" else []
        query = command_query(options, words)
        path = f"/{info.subresource}/{quote(info.namespace)}/{quote(info.name)}/{quote(container)}"
        target = f"{path}?{query}" if query else path
        _require_upgrade(request)
        if upgrade.is_websocket(request) and not kubelet.websockets:
            return await self._translate_command(request, kubelet, target, options)
        return await self.pass_through(request, backend_of(kubelet), target)

    async def _translate_command(
        self,
        request: web.BaseRequest,
        kubelet: Kubelet,
        target: str,
        options: commands.Options,
    ) -> web.StreamResponse:
        try:
            wanted = upgrade.offered(request, upgrade.SOCKET_PROTOCOL_HEADER)
            protocol = upgrade.choose(wanted, ch.COMMAND_PROTOCOLS)
        except upgrade.NoProtocol as err:
            return web.Response(status=403, text=str(err))
        try:
            upgraded = await self._dial_spdy(kubelet, target, [ch.V4])
        except (OSError, upgrade.Refused) as err:
            if protocol != ch.V5:
                return _failure(err, kubelet.authority)
            return await _refuse_command(request, options, _why_not(err, kubelet, target))
        async with upgraded:
            socket = await upgrade.accept_websocket(request, protocol)
            channels = ch.Channels(socket, protocol, readable=(commands.STDIN, commands.RESIZE))
            connection = Connection(
                upgraded.wire, server=False, idle=commands.IDLE, ping_every=PING_EVERY
            )
            with suppress(ConnectionError):
                async with connection:
                    await channels.write(commands.first_writable(options), b"")
                    status = await _run(channels, connection, options)
                    if status is not None:
                        text = commands.encode_status(status, protocol)
                        await channels.write(commands.ERROR, text)
            await channels.close()
        return socket

    async def _dial_spdy(
        self, kubelet: Kubelet, target: str, protocols: list[str]
    ) -> upgrade.Upgraded:
        headers: CIMultiDict[str] = CIMultiDict(
            {"Host": kubelet.authority, "Connection": "Upgrade", "Upgrade": upgrade.SPDY}
        )
        for protocol in protocols:
            headers.add(upgrade.PROTOCOL_HEADER, protocol)
        return await self._kubelets.dial(backend_of(kubelet), target, headers, method="POST")

    # -- port-forward ------------------------------------------------------------------------

    async def forward(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        ports = forward_ports(request.query)
        pod = self._lookup.pod(info.namespace, info.name)
        kubelet = self._lookup.kubelet_of_pod(pod)
        target = f"/portForward/{quote(info.namespace)}/{quote(info.name)}"
        if ports:
            target += f"?port={'%2C'.join(map(str, ports))}"
        _require_upgrade(request)
        if kubelet.websockets or not upgrade.is_websocket(request):
            return await self.pass_through(request, backend_of(kubelet), target)
        wanted = upgrade.offered(request, upgrade.SOCKET_PROTOCOL_HEADER)
        prefix = f"{upgrade.SPDY}+"
        tunnelled = [w[len(prefix) :] for w in wanted if w.startswith(prefix)]
        try:
            if tunnelled:
                return await self._tunnel(request, kubelet, target, tunnelled)
            return await self._translate_forward(request, kubelet, target, ports)
        except (OSError, upgrade.Refused) as err:
            return _failure(err, kubelet.authority)

    async def _tunnel(
        self, request: web.BaseRequest, kubelet: Kubelet, target: str, protocols: list[str]
    ) -> web.StreamResponse:
        async with await self._dial_spdy(kubelet, target, protocols) as upgraded:
            chosen = upgraded.headers.get(upgrade.PROTOCOL_HEADER, "").strip()
            socket = await upgrade.accept_websocket(
                request, f"{upgrade.SPDY}+{chosen}" if chosen else ""
            )
            await relay(WebSocketWire(socket), upgraded.wire, idle=commands.IDLE)
        return socket

    async def _translate_forward(
        self, request: web.BaseRequest, kubelet: Kubelet, target: str, ports: list[int]
    ) -> web.StreamResponse:
        if not ports:
            raise errors.BadRequest('query parameter "port" is required')
        try:
            wanted = upgrade.offered(request, upgrade.SOCKET_PROTOCOL_HEADER)
            protocol = upgrade.choose(wanted, forwarding.CHANNEL_PROTOCOLS)
        except upgrade.NoProtocol as err:
            return web.Response(status=403, text=str(err))
        async with await self._dial_spdy(kubelet, target, [forwarding.PROTOCOL]) as upgraded:
            socket = await upgrade.accept_websocket(request, protocol)
            channels = ch.Channels(socket, protocol, readable=forwarding.data_of(ports))
            connection = Connection(
                upgraded.wire, server=False, idle=commands.IDLE, ping_every=PING_EVERY
            )
            async with connection:
                await forwarding.bridge(channels, ports, connection)
        return socket

    # -- bytes as they are -------------------------------------------------------------------

    async def pass_through(
        self, request: web.BaseRequest, backend: Backend, target: str
    ) -> web.StreamResponse:
        """Repeat the client's upgrade towards the backend, then carry bytes."""
        headers = forward_headers(request, upgrading=True)
        headers.setdefault("Host", backend.authority)
        try:
            upgraded = await self._kubelets.dial(backend, target, headers, method=request.method)
        except (OSError, upgrade.Refused) as err:
            return _failure(err, backend.authority)
        answer = returned_headers(upgraded.headers.items())
        answer["Connection"] = "Upgrade"
        answer["Upgrade"] = upgraded.headers.get("Upgrade", request.headers.get("Upgrade", ""))
        answer.popall("Content-Length", None)
        async with upgraded:
            response, wire = await upgrade.accept_raw(request, answer)
            await relay(wire, upgraded.wire, idle=commands.IDLE)
        return response


async def _run(
    channels: ch.Channels, connection: Connection, options: commands.Options
) -> dict[str, Any] | None:
    """How the command ended; None when the client did not wait for it."""
    try:
        remote = await commands.Remote.open(connection, ch.V4, options)
    except (ConnectionError, TimeoutError) as err:
        return commands.failed(f"error creating streams: {err}")
    said = await commands.bridge(channels, remote)
    if said is None:
        return None
    if not said:
        return commands.failed("error reading from error stream: unexpected EOF")
    try:
        status = orjson.loads(said)
    except orjson.JSONDecodeError:
        return commands.failed(said.decode(errors="replace"))
    return status if isinstance(status, dict) else commands.failed(str(status))


def _require_upgrade(request: web.BaseRequest) -> None:
    if not upgrade.is_upgrade(request):
        raise errors.BadRequest("Upgrade request required")


def _failure(err: OSError | upgrade.Refused, authority: str) -> web.Response:
    """No upgrade: the backend's own answer where it gave one."""
    if not isinstance(err, upgrade.Refused):
        raise errors.ApiError(f"error dialing backend: {explain(err, authority)}") from err
    if err.status < 400:
        raise errors.ApiError(f"invalid upgrade response: status code {err.status}") from err
    headers = returned_headers(err.headers.items())
    headers.popall("Content-Length", None)
    return web.Response(status=err.status, headers=headers, body=err.body)


def _why_not(err: OSError | upgrade.Refused, kubelet: Kubelet, target: str) -> str:
    """The same for a client that hears of it on its error channel."""
    if isinstance(err, upgrade.Refused):
        return f"unable to upgrade connection: {err.body.decode(errors='replace').strip()}"
    url = f"https://{kubelet.authority}{target}"
    return f'error sending request: Post "{url}": {explain(err, kubelet.authority)}'


async def _refuse_command(
    request: web.BaseRequest, options: commands.Options, why: str
) -> web.StreamResponse:
    socket = await upgrade.accept_websocket(request, ch.V5)
    channels = ch.Channels(socket, ch.V5, readable=())
    with suppress(ConnectionError):
        await channels.write(commands.first_writable(options), b"")
        await channels.write(commands.ERROR, orjson.dumps(commands.failed(why)))
        await channels.close()
    return socket
