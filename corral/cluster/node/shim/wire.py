"""What goes over a shim's socket: one JSON line that asks, then frames both ways."""

from __future__ import annotations

import struct
from typing import Final

STDIN: Final = 0
STDOUT: Final = 1
STDERR: Final = 2
EXIT: Final = 3
"""JSON: {"exitCode"} or {"error"}; nothing follows."""
RESIZE: Final = 4
"""Two unsigned shorts: columns, rows."""

HEADER: Final = struct.Struct(">BI")
SIZE: Final = struct.Struct(">HH")
CHUNK: Final = 1 << 16
LIMIT: Final = 1 << 20
"""Bytes kept for somebody who reads slowly, before the writer has to wait."""


def frame(number: int, data: bytes) -> bytes:
    return HEADER.pack(number, len(data)) + data


def take_frames(buffer: bytearray) -> list[tuple[int, bytes]]:
    """The whole frames at the start of ``buffer``, which loses them."""
    found: list[tuple[int, bytes]] = []
    start = 0
    while len(buffer) - start >= HEADER.size:
        number, size = HEADER.unpack_from(buffer, start)
        end = start + HEADER.size + size
        if len(buffer) < end:
            break
        found.append((number, bytes(buffer[start + HEADER.size : end])))
        start = end
    del buffer[:start]
    return found
