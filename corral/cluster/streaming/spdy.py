"""SPDY/3.1 connections: many streams over one wire, client and server role.

Kubernetes' own SPDY peers keep no windows: they never send WINDOW_UPDATE and ignore it. So windows
are kept only towards a peer that announces one in SETTINGS (ours does); towards any other the wire
itself is the brake: a stream whose reader lags stops the reading of the whole connection.

``open`` waits for the peer's SYN_REPLY because such peers drop data that comes before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType

from corral.cluster.streaming import frames
from corral.cluster.streaming.buffers import ByteQueue
from corral.cluster.streaming.frames import (
    Data,
    Decoder,
    Encoder,
    Frame,
    FrameError,
    GoAway,
    HeadersFrame,
    Ping,
    RstStream,
    Settings,
    SynReply,
    SynStream,
    WindowUpdate,
)
from corral.cluster.streaming.wires import CLOSE_WAIT, Wire

log = logging.getLogger(__name__)

PIECE = 32 * 1024
WINDOW = 256 * 1024
OUTGOING = 256 * 1024
"""Bytes that may wait for the wire before writers have to."""
MAX_OUTGOING = 16 * OUTGOING
"""A peer that makes us answer this much without reading any of it is no longer served."""
CREATE_TIMEOUT = 30.0
"""Seconds a peer has to accept a new stream."""
MAX_STREAMS = 10_000


class StreamClosed(ConnectionError):
    """The stream, or the connection under it, has ended; nothing can be written any more."""


class Stream:
    """One stream. ``read`` returns empty when the peer has finished, reset it or gone away."""

    def __init__(self, connection: Connection, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        """Names in lower case."""
        self.was_reset = False
        self._connection = connection
        self._queue = ByteQueue(WINDOW)
        self._replied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._finished = False
        """Nothing more is sent from here."""
        self._sent = 0
        """Bytes sent that the peer has not given back with WINDOW_UPDATE."""
        self._consumed = 0
        """Bytes read here that were not yet given back to the peer."""
        self._window_open = asyncio.Event()
        self._window_open.set()

    @property
    def finished(self) -> bool:
        return self._finished

    async def read(self) -> bytes:
        data = await self._queue.get()
        self._consumed += len(data)
        if self._consumed >= WINDOW // 2:
            self._connection._give_back(self.number, self._consumed)
            self._consumed = 0
        return data

    async def read_all(self, limit: int) -> bytes:
        """Everything up to the end; what exceeds ``limit`` is dropped."""
        pieces: list[bytes] = []
        size = 0
        while data := await self.read():
            if size < limit:
                pieces.append(data)
            size += len(data)
        return b"".join(pieces)[:limit]

    def discard(self) -> None:
        """Take no interest in what the peer sends."""
        self._queue.discard()

    async def write(self, data: bytes) -> None:
        """Send bytes, at the pace of the peer. Raises StreamClosed."""
        at = 0
        while at < len(data):
            if self._finished or self._connection.closed:
                raise StreamClosed(f"stream {self.number} is closed")
            room = min(self._room(), PIECE)
            if room <= 0:
                self._window_open.clear()
                await self._window_open.wait()
                continue
            piece = data[at : at + room]
            at += len(piece)
            self._sent += len(piece)
            await self._connection._send_paced(Data(self.number, piece))

    def _room(self) -> int:
        """Never exceed it: a peer that gets more than it announced stops reading altogether."""
        window = self._connection.peer_window
        return PIECE if window is None else window - self._sent

    async def close(self) -> None:
        """Say that nothing more comes from here; the peer may go on sending."""
        if self._finished or self._connection.closed:
            return
        self._finished = True
        self._connection._send(Data(self.number, b"", fin=True))
        self._connection._forget_if_done(self)

    async def reset(self, status: int = frames.CANCEL) -> None:
        """End the stream at once, both ways."""
        if not self._finished or not self._queue.ended:
            self._connection._send(RstStream(self.number, status))
        self._abandon()

    def _abandon(self) -> None:
        self._finished = True
        self._queue.end()
        self._window_open.set()
        if not self._replied.done():
            self._replied.set_exception(StreamClosed(f"stream {self.number} was refused"))
        self._connection._streams.pop(self.number, None)


class Connection:
    """One connection; use it as an async context manager.

    Constraints: leaving the context resets what is still open and closes the wire.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        server: bool,
        idle: float | None = None,
        ping_every: float | None = None,
    ) -> None:
        self.closed = False
        self.peer_window: int | None = None
        """What the peer takes unread on each stream; None if it keeps no windows."""
        self._wire = wire
        self._server = server
        self._idle = idle
        self._ping_every = ping_every
        self._encoder = Encoder()
        self._streams: dict[int, Stream] = {}
        self._next = 2 if server else 1
        self._last_received = 0
        self._going_away = False
        self._incoming: asyncio.Queue[Stream | None] = asyncio.Queue()
        self._outgoing = ByteQueue(OUTGOING)
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._timers: list[asyncio.Task[None]] = []
        self._active = 0.0
        self._gone = asyncio.Event()

    async def __aenter__(self) -> Connection:
        self._touch()
        self._send(Settings({frames.INITIAL_WINDOW_SIZE: WINDOW}))
        self._reader = asyncio.create_task(self._read_frames())
        self._writer = asyncio.create_task(self._write_frames())
        if self._idle is not None:
            self._timers.append(asyncio.create_task(self._watch_idle(self._idle)))
        if self._ping_every is not None:
            self._timers.append(asyncio.create_task(self._ping(self._ping_every)))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- using it --------------------------------------------------------------------------

    async def open(self, headers: Mapping[str, str]) -> Stream:
        """A new stream, once the peer has accepted it. Raises StreamClosed, TimeoutError."""
        if self.closed or self._going_away:
            raise StreamClosed("the connection is closed")
        number, self._next = self._next, self._next + 2
        stream = Stream(self, number, {name.lower(): value for name, value in headers.items()})
        self._streams[number] = stream
        self._send(SynStream(number, headers))
        try:
            async with asyncio.timeout(CREATE_TIMEOUT):
                await stream._replied
        except (TimeoutError, asyncio.CancelledError):
            await stream.reset()
            raise
        return stream

    async def accept(self) -> Stream | None:
        """The next stream the peer opens, already answered; None when no more can come."""
        return await self._incoming.get()

    async def wait_gone(self) -> None:
        """Return when the peer has left or the wire has broken."""
        await self._gone.wait()

    async def close(self) -> None:
        """Reset what is open, say goodbye, close the wire. Harmless when done twice."""
        if not self.closed:
            for stream in list(self._streams.values()):
                await stream.reset()
            self._send(GoAway(self._last_received))
        self._end()
        assert self._reader is not None and self._writer is not None, "the connection was entered"
        for task in (self._reader, *self._timers):
            task.cancel()
        await asyncio.wait([self._writer], timeout=CLOSE_WAIT)
        self._writer.cancel()
        await asyncio.gather(self._reader, self._writer, *self._timers, return_exceptions=True)
        await self._wire.close()

    # -- sending ---------------------------------------------------------------------------

    def _send(self, frame: Frame) -> None:
        """Queue a frame; encoded here, so that header blocks leave in the order they were made."""
        if self.closed:
            return
        self._outgoing.put_nowait(self._encoder.encode(frame))
        if self._outgoing.size > MAX_OUTGOING:
            self._end()

    async def _send_paced(self, frame: Data) -> None:
        self._touch()
        await self._outgoing.put(self._encoder.encode(frame))
        if self.closed:
            raise StreamClosed("the connection is closed")

    async def _write_frames(self) -> None:
        try:
            while data := await self._outgoing.get():
                await self._wire.write(data)
        except ConnectionError:
            self._end()

    def _give_back(self, number: int, count: int) -> None:
        if self.peer_window is not None:
            self._send(WindowUpdate(number, count))

    # -- receiving -------------------------------------------------------------------------

    async def _read_frames(self) -> None:
        decoder = Decoder()
        try:
            while data := await self._wire.read():
                for frame in decoder.feed(data):
                    await self._take(frame)
        except FrameError as err:
            log.warning("SPDY: %s", err)
            self._send(GoAway(self._last_received, frames.PROTOCOL_ERROR))
        except ConnectionError as err:
            log.debug("SPDY: %s", err)
        finally:
            self._end()

    async def _take(self, frame: Frame) -> None:
        match frame:
            case Data(number, data, fin):
                stream = self._streams.get(number)
                if stream is not None:
                    self._touch()
                    if stream._queue.discarding:
                        self._give_back(number, len(data))
                    await stream._queue.put(data)
                    self._finish(stream, fin=fin)
            case SynStream():
                self._accept(frame)
            case SynReply(number, _, fin):
                stream = self._streams.get(number)
                if stream is not None and not stream._replied.done():
                    stream._replied.set_result(None)
                    self._finish(stream, fin=fin)
            case RstStream(number, _):
                stream = self._streams.get(number)
                if stream is not None:
                    stream.was_reset = True
                    stream._abandon()
            case HeadersFrame(number, _, fin):
                stream = self._streams.get(number)
                if stream is not None:
                    self._finish(stream, fin=fin)
            case Ping(number):
                if number % 2 == self._server:
                    self._send(frame)
            case Settings(values):
                self._settle(values)
            case WindowUpdate(number, delta):
                stream = self._streams.get(number)
                if stream is not None:
                    stream._sent -= delta
                    stream._window_open.set()
            case GoAway():
                self._going_away = True
                self._incoming.put_nowait(None)
                self._gone.set()

    def _accept(self, frame: SynStream) -> None:
        number = frame.stream
        if number % 2 != self._server or number <= self._last_received:
            self._send(RstStream(number, frames.PROTOCOL_ERROR))
            return
        if len(self._streams) >= MAX_STREAMS or self._going_away or self.closed:
            self._send(RstStream(number, frames.REFUSED_STREAM))
            return
        self._last_received = number
        stream = Stream(self, number, frame.headers)
        stream._replied.set_result(None)
        stream._finished = frame.unidirectional
        self._streams[number] = stream
        self._send(SynReply(number, {}))
        self._finish(stream, fin=frame.fin)
        self._incoming.put_nowait(stream)

    def _finish(self, stream: Stream, *, fin: bool) -> None:
        if fin:
            stream._queue.end()
            self._forget_if_done(stream)

    def _forget_if_done(self, stream: Stream) -> None:
        if stream._finished and stream._queue.ended:
            self._streams.pop(stream.number, None)

    def _settle(self, values: Mapping[int, int]) -> None:
        window = values.get(frames.INITIAL_WINDOW_SIZE)
        if window is not None:
            self.peer_window = window
            for stream in self._streams.values():
                stream._window_open.set()

    def _end(self) -> None:
        """The wire is of no more use."""
        self.closed = True
        self._going_away = True
        for stream in list(self._streams.values()):
            stream._abandon()
        self._outgoing.end()
        self._incoming.put_nowait(None)
        self._gone.set()

    # -- time ------------------------------------------------------------------------------

    def _touch(self) -> None:
        self._active = asyncio.get_running_loop().time()

    async def _watch_idle(self, idle: float) -> None:
        clock = asyncio.get_running_loop().time
        while not self.closed:
            left = self._active + idle - clock()
            if left <= 0:
                self._end()
                return
            await asyncio.sleep(left)

    async def _ping(self, period: float) -> None:
        number = 2 if self._server else 1
        while not self.closed:
            await asyncio.sleep(period)
            if not self._outgoing.full:
                self._send(Ping(number))
            number = (number + 2) & 0x7FFFFFFF
