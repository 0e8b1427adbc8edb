"""Port-forward: pairs of streams (data, error), one pair for each connection to a port.

Three forms of one protocol: SPDY; SPDY in the binary messages of a WebSocket; and the older form
of two WebSocket channels a port, where the first message on each is the port in two bytes.
``serve`` is the end beside the pod, ``bridge`` joins a client of the older form to SPDY.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from aiohttp import web

from corral.cluster.streaming import upgrade
from corral.cluster.streaming.channels import V4, V4_BASE64, Channels
from corral.cluster.streaming.commands import IDLE, STREAM_TYPE
from corral.cluster.streaming.spdy import CREATE_TIMEOUT, Connection, Stream
from corral.cluster.streaming.wires import SocketWire, WebSocketWire, Wire, first_of

PROTOCOL = "portforward.k8s.io"
TUNNEL = f"{upgrade.SPDY}+{PROTOCOL}"
CHANNEL_PROTOCOLS = (V4, V4_BASE64, PROTOCOL, "")
PORT, REQUEST_ID = "port", "requestID"

Connect = Callable[[int], Awaitable[SocketWire]]
"""Opens a connection to a port of the pod. Raises OSError, TimeoutError."""


def parse_ports(values: Sequence[str]) -> list[int]:
    """Ports from query values, which may hold several. Raises ValueError with the text to show."""
    ports: list[int] = []
    for value in values:
        for text in value.split(","):
            if not text.isascii() or not text.isdigit() or int(text) > 65535:
                raise ValueError(
                    f'unable to parse "{value}" as a port: strconv.ParseUint: '
                    f'parsing "{text}": invalid syntax'
                )
            if int(text) < 1:
                raise ValueError(f'port "{value}" must be > 0')
            ports.append(int(text))
    return ports


# -- beside the pod ---------------------------------------------------------------------------


async def serve(request: web.BaseRequest, connect: Connect, *, pod: str) -> web.StreamResponse:
    """Answer a port-forward request in whichever form it comes, to its end."""
    if upgrade.is_websocket(request):
        wanted = upgrade.offered(request, upgrade.SOCKET_PROTOCOL_HEADER)
        try:
            protocol = upgrade.choose(wanted, (TUNNEL, *CHANNEL_PROTOCOLS))
        except upgrade.NoProtocol as err:
            return web.Response(status=403, text=str(err))
        if protocol == TUNNEL:
            socket = await upgrade.accept_websocket(request, protocol)
            await serve_spdy(WebSocketWire(socket), connect, pod=pod)
            return socket
        try:
            ports = parse_ports(request.query.getall(PORT, []))
        except ValueError as err:
            return web.Response(status=400, text=str(err))
        if not ports:
            return web.Response(status=400, text='query parameter "port" is required')
        socket = await upgrade.accept_websocket(request, protocol)
        await _serve_channels(Channels(socket, protocol, readable=data_of(ports)), ports, connect)
        return socket
    if not upgrade.is_spdy(request):
        return web.Response(status=400, text="unable to upgrade: missing upgrade headers")
    try:
        protocol = upgrade.choose(upgrade.offered(request, upgrade.PROTOCOL_HEADER), (PROTOCOL,))
    except upgrade.NoProtocol as err:
        accepted = {upgrade.ACCEPTED_HEADER: PROTOCOL}
        return web.Response(status=403, text=str(err), headers=accepted)
    response, wire = await upgrade.accept_spdy(request, protocol)
    await serve_spdy(wire, connect, pod=pod)
    return response


async def serve_spdy(wire: Wire, connect: Connect, *, pod: str) -> None:
    """Pair the streams a client opens and join each pair to a connection."""
    waiting: dict[str, tuple[Stream, asyncio.TimerHandle]] = {}
    clock = asyncio.get_running_loop()
    async with Connection(wire, server=True, idle=IDLE) as connection, asyncio.TaskGroup() as group:
        pairs: list[asyncio.Task[None]] = []
        while (stream := await connection.accept()) is not None:
            problem = _refusal(stream.headers)
            if problem:
                await stream.reset()
                continue
            key = _request_id(stream)
            if key not in waiting:
                # a half pair must not wait for ever
                timer = clock.call_later(CREATE_TIMEOUT, waiting.pop, key, None)
                waiting[key] = (stream, timer)
                continue
            other, timer = waiting.pop(key)
            timer.cancel()
            data, error = (stream, other) if _kind(stream) == "data" else (other, stream)
            pairs = [p for p in pairs if not p.done()]
            pairs.append(group.create_task(_forward(data, error, connect, pod=pod)))
        for _, timer in waiting.values():
            timer.cancel()
        for pair in pairs:
            pair.cancel()


def _refusal(headers: Mapping[str, str]) -> str:
    try:
        ports = parse_ports([headers.get(PORT, "")])
    except ValueError as err:
        return str(err)
    if len(ports) != 1 or headers.get(STREAM_TYPE.lower()) not in ("data", "error"):
        return "invalid stream type"
    return ""


def _kind(stream: Stream) -> str:
    return stream.headers[STREAM_TYPE.lower()]


def _request_id(stream: Stream) -> str:
    """Old clients send none; they open the error stream and then at once the data stream."""
    named = stream.headers.get(REQUEST_ID.lower())
    return named or str(stream.number if _kind(stream) == "error" else stream.number - 2)


async def _forward(data: Stream, error: Stream, connect: Connect, *, pod: str) -> None:
    port = int(data.headers[PORT])
    error.discard()
    try:
        wire = await connect(port)
    except (OSError, TimeoutError) as err:
        why = f"error forwarding port {port} to pod {pod}, uid : {err}"
        with suppress(ConnectionError):
            await error.write(why.encode())
            await error.close()
            await data.reset()
        return
    try:
        await _join(data, wire)
    except ConnectionError:
        await data.reset()
    finally:
        await wire.close()
        await data.close()
        await error.close()


async def _join(data: Stream, wire: SocketWire) -> None:
    """Carry bytes until the pod's side ends, or the client gives the pair up."""

    async def inward() -> None:
        while piece := await data.read():
            await wire.write(piece)
        if not data.was_reset:
            wire.write_eof()
            await asyncio.get_running_loop().create_future()  # until the other direction ends

    async def outward() -> None:
        while piece := await wire.read():
            await data.write(piece)

    await first_of(inward(), outward())


def data_of(ports: Sequence[int]) -> range:
    """The numbers of the data channels."""
    return range(0, 2 * len(ports), 2)


async def _serve_channels(channels: Channels, ports: Sequence[int], connect: Connect) -> None:
    async def one(number: int, port: int) -> None:
        try:
            wire = await connect(port)
        except (OSError, TimeoutError) as err:
            await channels.write(number + 1, f"error forwarding port {port}: {err}".encode())
            return

        async def inward() -> None:
            while data := await channels.read(number):
                await wire.write(data)

        async def outward() -> None:
            while data := await wire.read():
                await channels.write(number, data)

        try:
            await first_of(inward(), outward())
        finally:
            await wire.close()

    await run_channels(channels, ports, one)


async def run_channels(
    channels: Channels, ports: Sequence[int], one: Callable[[int, int], Awaitable[None]]
) -> None:
    """Announce the ports, then run ``one(channel, port)`` for each until all end or it leaves."""

    async def guarded(number: int, port: int) -> None:
        with suppress(ConnectionError, TimeoutError):
            await one(number, port)

    async def every() -> None:
        for number, port in zip(data_of(ports), ports, strict=True):
            await channels.write(number, struct.pack("<H", port))
            await channels.write(number + 1, struct.pack("<H", port))
        await asyncio.gather(*(guarded(n, p) for n, p in zip(data_of(ports), ports, strict=True)))

    with suppress(ConnectionError):
        await first_of(channels.run(), every())
    await channels.close()


# -- between an old client and a SPDY server --------------------------------------------------


async def bridge(channels: Channels, ports: Sequence[int], connection: Connection) -> None:
    """Give each port of a WebSocket client a pair of SPDY streams."""

    async def one(number: int, port: int) -> None:
        headers = {PORT: str(port), REQUEST_ID: str(number // 2)}
        error = await connection.open({STREAM_TYPE: "error", **headers})
        data = await connection.open({STREAM_TYPE: "data", **headers})
        await error.close()

        async def inward() -> None:
            while piece := await channels.read(number):
                await data.write(piece)

        async def outward() -> None:
            while piece := await data.read():
                await channels.write(number, piece)

        async def complaints() -> None:
            while piece := await error.read():
                await channels.write(number + 1, piece)

        telling = asyncio.create_task(complaints())
        try:
            await first_of(inward(), outward())
            await asyncio.wait([telling], timeout=1.0)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
            await data.reset()

    await run_channels(channels, ports, one)
