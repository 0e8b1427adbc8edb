"""The streams of a command in a container, or of the container itself, through its shim."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Final

from corral.cluster.node.shim.wire import EXIT, HEADER, RESIZE, SIZE, STDIN, frame

_PAUSE: Final = 0.001
"""Seconds between two pieces of output that nobody wants."""


class ContainerError(Exception):
    """A container, or a command in one, could not be reached or started."""


class Streams:
    """A command in a container, or the container's own streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.exit_code: int | None = None
        """Set when ``read`` has returned None and the command ended by itself."""

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece of output with its number (1, 2); None at the end.

        Raises ContainerError when the command could not be started.
        """
        if self.exit_code is not None:
            return None
        try:
            number, size = HEADER.unpack(await self._reader.readexactly(HEADER.size))
            data = await self._reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        if number != EXIT:
            return number, data
        how = json.loads(data)
        if "error" in how:
            raise ContainerError(how["error"])
        self.exit_code = how["exitCode"]
        return None

    async def write(self, data: bytes) -> None:
        """Give input. Raises ConnectionError when the command is gone."""
        if data:
            self._writer.write(frame(STDIN, data))
            await self._writer.drain()

    async def close_stdin(self) -> None:
        with suppress(ConnectionError):
            self._writer.write(frame(STDIN, b""))
            await self._writer.drain()

    def resize(self, columns: int, rows: int) -> None:
        size = SIZE.pack(min(max(columns, 0), 65535), min(max(rows, 0), 65535))
        self._writer.write(frame(RESIZE, size))

    async def close(self) -> None:
        """Leave; a command that was started for this is killed."""
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def collect(self, limit: int | None = None) -> tuple[int, bytes]:
        """Exit code and everything still written, in order; then it is closed.

        Of more than ``limit`` bytes the rest is forgotten, and read slowly: a command that writes
        without an end costs little. Raises ContainerError.
        """
        output: list[bytes] = []
        left = limit
        try:
            while (piece := await self.read()) is not None:
                if left is None:
                    output.append(piece[1])
                elif left > 0:
                    output.append(piece[1][:left])
                    left -= len(output[-1])
                else:
                    await asyncio.sleep(_PAUSE)
        finally:
            await self.close()
        if self.exit_code is None:
            raise ContainerError("the container went away")
        return self.exit_code, b"".join(output)
