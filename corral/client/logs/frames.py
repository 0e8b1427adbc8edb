"""Log chunks on a byte stream, so that they arrive with their place: for clients of a gateway.

A frame is one line of JSON (``pod``, ``role``, ``index``, ``container``, ``position``, ``bytes``)
and then exactly that many bytes of log. After any frame, its ``position`` is where to go on. The
last frame of a body that was ended by the server's time, and not by the end of the log, has no
bytes and says ``"more": true``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson

from corral.client.logs.marks import Position
from corral.client.logs.query import LogChunk
from corral.client.roles import Role

__all__ = ["MEDIA_TYPE", "MORE", "BadFrame", "FrameReader", "frame"]

MEDIA_TYPE: Final = "application/vnd.corral.logs"
MORE: Final = b'{"more":true,"bytes":0}\n'
_LONGEST_HEAD: Final = 2 << 20
_LONGEST_BODY: Final = 64 << 20


class BadFrame(ValueError):
    """The bytes are no frames."""


def frame(chunk: LogChunk) -> bytes:
    """The bytes of a frame."""
    head: dict[str, Any] = {"pod": chunk.pod, "role": chunk.role.name}
    if chunk.role.index is not None:
        head["index"] = chunk.role.index
    place = {"container": chunk.container, "position": str(chunk.position)}
    return b"%b\n%b" % (orjson.dumps({**head, **place, "bytes": len(chunk.data)}), chunk.data)


class FrameReader:
    """Frames from bytes as they arrive."""

    def __init__(self) -> None:
        self.more = False
        """The body ended, but the log goes on: ask again from the last position."""
        self._held = bytearray()
        self._head: dict[str, Any] | None = None
        self._looked = 0
        """Bytes of the held ones that are known to have no end of line."""

    @property
    def between(self) -> bool:
        """Whether the bytes so far end with a whole frame."""
        return not self._held and self._head is None

    def feed(self, data: bytes) -> Iterator[LogChunk]:
        """The chunk of every frame that is now whole. Raises BadFrame."""
        self._held += data
        while True:
            if self._head is None and not self._read_head():
                return
            assert self._head is not None
            size = self._head["bytes"]
            if len(self._held) < size:
                return
            body = bytes(memoryview(self._held)[:size])
            del self._held[:size]
            head, self._head = self._head, None
            self.more = bool(head.get("more"))
            yield _chunk(head, body)

    def _read_head(self) -> bool:
        end = self._held.find(b"\n", self._looked)
        if end < 0:
            self._looked = len(self._held)
            if self._looked > _LONGEST_HEAD:
                raise BadFrame("a frame has no end of its first line")
            return False
        try:
            head = orjson.loads(memoryview(self._held)[:end])
        except orjson.JSONDecodeError as error:
            raise BadFrame(f"a frame does not begin with JSON: {error}") from None
        size = head.get("bytes") if isinstance(head, dict) else None
        if not isinstance(size, int) or not 0 <= size <= _LONGEST_BODY:
            raise BadFrame("a frame does not say how many bytes it has")
        del self._held[: end + 1]
        self._head, self._looked = head, 0
        return True


def _chunk(head: dict[str, Any], body: bytes) -> LogChunk:
    index = head.get("index")
    return LogChunk(
        pod=str(head.get("pod") or ""),
        role=Role(str(head.get("role") or ""), index if isinstance(index, int) else None),
        container=str(head.get("container") or ""),
        data=body,
        position=Position.unread(str(head.get("position") or "")),
    )
