"""exec and attach: five streams (stdin, stdout, stderr, error, resize) and a final Status.

``serve`` is the end that runs the command, ``Remote`` the end that asks for it over SPDY; clients
that come with a WebSocket are ``Channels`` with the numbers below.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from aiohttp import web

from corral.cluster.streaming import upgrade
from corral.cluster.streaming.channels import COMMAND_PROTOCOLS, V1, V1_BASE64, V4, Channels
from corral.cluster.streaming.spdy import CREATE_TIMEOUT, Connection, Stream
from corral.cluster.streaming.wires import first_of

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
STREAM_TYPE = "streamType"
NAMES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
SPDY_PROTOCOLS = (V4, "v3.channel.k8s.io", "v2.channel.k8s.io", V1)
IDLE = 4 * 3600.0
"""Seconds without a byte after which a kubelet ends a session; so do we."""


@dataclass(frozen=True, slots=True)
class Options:
    """Which streams were asked for."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Options:
        """As a kubelet is asked: input, output, error, tty = 1."""
        return cls(*(query.get(name) == "1" for name in ("input", "output", "error", "tty")))

    def numbers(self, *, resize: bool) -> list[int]:
        """The streams, in the order in which clients open them."""
        wanted = [(ERROR, True), (STDIN, self.stdin), (STDOUT, self.stdout)]
        wanted += [(STDERR, self.stderr), (RESIZE, self.tty and resize)]
        return [number for number, open_ in wanted if open_]


# -- how it ended --------------------------------------------------------------------------


def success() -> dict[str, Any]:
    return {"metadata": {}, "status": "Success"}


def exited(code: int) -> dict[str, Any]:
    """The status of a command that ended with ``code``."""
    if code == 0:
        return success()
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failed(why: str) -> dict[str, Any]:
    """The status of a command that could not be run."""
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"Internal error occurred: {why}",
        "reason": "InternalError",
        "details": {"causes": [{"message": why}]},
        "code": 500,
    }


def encode_status(status: Mapping[str, Any], protocol: str) -> bytes:
    """For the error stream: JSON since v4, before that the message of a failure and no more."""
    if protocol in ("", V1, V1_BASE64, "v2.channel.k8s.io", "v3.channel.k8s.io"):
        text = "" if status.get("status") == "Success" else str(status.get("message", ""))
        return text.encode()
    return orjson.dumps(status)


# -- the end that runs the command ------------------------------------------------------------


class Session(Protocol):
    """What a command is run with; reading a stream that was not asked for gives its end."""

    async def read(self, number: int) -> bytes: ...

    async def write(self, number: int, data: bytes) -> None: ...

    async def finish(self, status: Mapping[str, Any]) -> None:
        """Tell how it ended; nothing is written after that."""
        ...

    async def wait_gone(self) -> None:
        """Return when the client has left."""
        ...


class _SocketSession:
    def __init__(self, channels: Channels, protocol: str, options: Options) -> None:
        self._channels = channels
        self._protocol = protocol
        self._open = set(options.numbers(resize=True))
        self.gone = asyncio.Event()

    async def run(self) -> None:
        try:
            await self._channels.run()
        finally:
            self.gone.set()

    async def read(self, number: int) -> bytes:
        return await self._channels.read(number) if number in self._open else b""

    async def write(self, number: int, data: bytes) -> None:
        if number in self._open:
            await self._channels.write(number, data)

    async def finish(self, status: Mapping[str, Any]) -> None:
        text = encode_status(status, self._protocol)
        if text:
            await self._channels.write(ERROR, text)

    async def wait_gone(self) -> None:
        await self.gone.wait()


class _SpdySession:
    def __init__(self, connection: Connection, protocol: str) -> None:
        self._connection = connection
        self._protocol = protocol
        self._streams: dict[int, Stream] = {}

    async def collect(self, options: Options) -> bool:
        """Wait for the streams; False when the client does not open them all in time."""
        resizes = self._protocol in (V4, "v3.channel.k8s.io")
        wanted = set(options.numbers(resize=resizes))
        try:
            async with asyncio.timeout(CREATE_TIMEOUT):
                while not wanted <= self._streams.keys():
                    stream = await self._connection.accept()
                    if stream is None:
                        return False
                    number = NAMES.get(stream.headers.get(STREAM_TYPE.lower(), ""))
                    if number is None:
                        await stream.reset()
                    else:
                        self._streams[number] = stream
        except TimeoutError:
            return False
        return True

    async def read(self, number: int) -> bytes:
        stream = self._streams.get(number)
        return await stream.read() if stream else b""

    async def write(self, number: int, data: bytes) -> None:
        if stream := self._streams.get(number):
            await stream.write(data)

    async def finish(self, status: Mapping[str, Any]) -> None:
        await self.write(ERROR, encode_status(status, self._protocol))
        for stream in self._streams.values():
            await stream.close()

    async def wait_gone(self) -> None:
        await self._connection.wait_gone()


@asynccontextmanager
async def serve(
    request: web.BaseRequest, options: Options
) -> AsyncIterator[tuple[Session | None, web.StreamResponse]]:
    """Take an exec or attach request, WebSocket or SPDY.

    Yields the session and the response to return. The session is None when there is none to run:
    the response then says why, or the client left before it had opened its streams.
    """
    if upgrade.is_websocket(request):
        try:
            wanted = upgrade.offered(request, upgrade.SOCKET_PROTOCOL_HEADER)
            protocol = upgrade.choose(wanted, COMMAND_PROTOCOLS)
        except upgrade.NoProtocol as err:
            yield None, web.Response(status=403, text=str(err))
            return
        socket = await upgrade.accept_websocket(request, protocol)
        channels = Channels(socket, protocol, readable=(STDIN, RESIZE))
        session = _SocketSession(channels, protocol, options)
        reading = asyncio.create_task(session.run())
        try:
            await channels.write(first_writable(options), b"")
            yield session, socket
        finally:
            # the closing handshake reads the socket too, so nobody else may
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await channels.close()
        return
    if not upgrade.is_spdy(request):
        yield None, web.Response(status=400, text="unable to upgrade: missing upgrade headers")
        return
    try:
        wanted = upgrade.offered(request, upgrade.PROTOCOL_HEADER)
        protocol = upgrade.choose(wanted, SPDY_PROTOCOLS)
    except upgrade.NoProtocol as err:
        accepted = {upgrade.ACCEPTED_HEADER: ", ".join(SPDY_PROTOCOLS)}
        yield None, web.Response(status=403, text=str(err), headers=accepted)
        return
    response, wire = await upgrade.accept_spdy(request, protocol)
    async with Connection(wire, server=True, idle=IDLE) as connection:
        spdy = _SpdySession(connection, protocol)
        yield (spdy if await spdy.collect(options) else None), response


def first_writable(options: Options) -> int:
    """The channel on which an empty message tells a WebSocket client that all is set up."""
    return STDOUT if options.stdout else STDERR if options.stderr else ERROR


# -- the end that asks for it -----------------------------------------------------------------


class Remote:
    """A command on the far side of a SPDY connection."""

    def __init__(self, streams: Mapping[int, Stream]) -> None:
        self.streams = streams

    @classmethod
    async def open(cls, connection: Connection, protocol: str, options: Options) -> Remote:
        """Open the streams. Raises StreamClosed, TimeoutError."""
        resizes = protocol in (V4, "v3.channel.k8s.io")
        names = {number: name for name, number in NAMES.items()}
        streams: dict[int, Stream] = {}
        for number in options.numbers(resize=resizes):
            streams[number] = await connection.open({STREAM_TYPE: names[number]})
        return cls(streams)


async def bridge(channels: Channels, remote: Remote) -> bytes | None:
    """Join a WebSocket client and a command until one of them ends.

    Returns what the error stream said, or None when the client left first.
    """
    answer: list[bytes] = []

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            for number in (STDOUT, STDERR):
                if stream := remote.streams.get(number):
                    group.create_task(_outward(stream, channels, number))
            answer.append(await remote.streams[ERROR].read_all(1 << 20))

    async def feed(number: int) -> None:
        stream = remote.streams.get(number)
        try:
            while data := await channels.read(number):
                if stream is not None and not stream.finished:
                    await stream.write(data)
            if stream is not None and (number == RESIZE or channels.half_close):
                await stream.close()
        except ConnectionError:
            return  # the command no longer reads; how it ended is still to come

    async with asyncio.TaskGroup() as group:
        inward = [group.create_task(feed(number)) for number in (STDIN, RESIZE)]
        try:
            await first_of(channels.run(), run())
        finally:
            for task in inward:
                task.cancel()
    return answer[0] if answer else None


async def _outward(stream: Stream, channels: Channels, number: int) -> None:
    try:
        while data := await stream.read():
            await channels.write(number, data)
    except ConnectionError:
        return  # the client is gone; whoever reads its socket notices
