"""Server-Sent Events from the bytes of an answer, as they arrive."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Final

from corral.client.errors import ServerError

__all__ = ["ServerEvent", "server_events"]

_LONGEST: Final = 16 << 20
"""Bytes of one event; objects have a few."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event."""

    name: str
    data: str
    id: str = ""


async def server_events(parts: AsyncIterator[bytes]) -> AsyncGenerator[ServerEvent, None]:
    """Every whole event; one that the end of the stream cuts off is left out.

    Raises:
        ServerError: an event has no end.
    """
    held = bytearray()
    async for part in parts:
        looked = max(0, len(held) - 1)
        held += part
        while (end := held.find(b"\n\n", looked)) >= 0:
            event = _event(held[:end].decode(errors="replace"))
            del held[: end + 2]
            looked = 0
            if event is not None:
                yield event
        if len(held) > _LONGEST:
            raise ServerError("an event of the gateway has no end")


def _event(text: str) -> ServerEvent | None:
    fields: dict[str, list[str]] = {}
    for line in text.split("\n"):
        name, _, value = line.partition(":")
        if name:  # a line that begins with a colon is a comment
            fields.setdefault(name, []).append(value.removeprefix(" "))
    if "data" not in fields:
        return None
    return ServerEvent(
        name=fields.get("event", ["message"])[-1],
        data="\n".join(fields["data"]),
        id=fields.get("id", [""])[-1],
    )
