"""WebSocket channels: every message starts with the number of the channel it belongs to.

``*.base64.channel.k8s.io`` puts an ASCII digit and base64 into text messages, the others a byte
and plain bytes into binary ones. With v5 a message ``255, n`` closes channel n towards the peer.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import TypeAlias

from aiohttp import WSMsgType, web
from aiohttp.client_ws import ClientWebSocketResponse

from corral.cluster.streaming.buffers import ByteQueue
from corral.cluster.streaming.wires import BUFFER

V5 = "v5.channel.k8s.io"
V4 = "v4.channel.k8s.io"
V4_BASE64 = "v4.base64.channel.k8s.io"
V1 = "channel.k8s.io"
V1_BASE64 = "base64.channel.k8s.io"
CLOSE_SIGNAL = 255
COMMAND_PROTOCOLS = (V5, V4, V4_BASE64, V1, V1_BASE64, "")

Socket: TypeAlias = web.WebSocketResponse | ClientWebSocketResponse


class Channels:
    """The channels of one WebSocket. ``run`` must be running while they are read."""

    def __init__(self, socket: Socket, protocol: str, *, readable: Collection[int]) -> None:
        self._socket = socket
        self._base64 = "base64" in protocol
        self.half_close = protocol == V5
        """Whether one channel can end while the others go on."""
        self._queues = {number: ByteQueue(BUFFER) for number in readable}

    async def run(self) -> None:
        """Sort messages into channels until the peer leaves; then every channel is at its end."""
        try:
            while True:
                message = await self._socket.receive()
                if message.type is WSMsgType.BINARY:
                    data = bytes(message.data)
                elif message.type is WSMsgType.TEXT:
                    data = message.data.encode()
                else:
                    return
                if data:
                    await self._take(data)
        finally:
            for queue in self._queues.values():
                queue.end()

    async def _take(self, data: bytes) -> None:
        if self.half_close and data[0] == CLOSE_SIGNAL:
            closed = self._queues.get(data[1]) if len(data) == 2 else None
            if closed is not None:
                closed.end()
            return
        number = data[0] - 48 if self._base64 else data[0]
        queue = self._queues.get(number)
        if queue is None:
            return
        payload = data[1:]
        if self._base64:
            try:
                payload = base64.b64decode(payload, validate=True)
            except binascii.Error:
                return
        await queue.put(payload)

    async def read(self, number: int) -> bytes:
        """Bytes of one channel; empty at its end."""
        return await self._queues[number].get()

    async def write(self, number: int, data: bytes) -> None:
        """Raises ConnectionError when the peer is gone."""
        if self._base64:
            await self._socket.send_str(chr(48 + number) + base64.b64encode(data).decode())
        else:
            await self._socket.send_bytes(bytes((number,)) + data)

    async def close_channel(self, number: int) -> None:
        """End one channel towards the peer, where the protocol can say so."""
        if self.half_close:
            await self._socket.send_bytes(bytes((CLOSE_SIGNAL, number)))

    async def close(self) -> None:
        await self._socket.close()
