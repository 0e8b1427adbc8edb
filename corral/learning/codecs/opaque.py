"""Opaque bytes: what is joined, not averaged."""

from __future__ import annotations

from collections.abc import Iterable

SEPARATOR = b"\n---PROP-UPDATE---\n"


class Opaque:
    """Payloads end to end with a line between them."""

    name = "concat"

    def join(self, payloads: Iterable[bytes]) -> bytes:
        return SEPARATOR.join(payloads)

    def split(self, data: bytes) -> list[bytes]:
        return data.split(SEPARATOR)
