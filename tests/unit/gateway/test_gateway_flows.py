"""Bodies that go on: what becomes of a failure once the answer has begun."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from corral.gateway.rest.answers import Flow, Open


async def failing() -> AsyncGenerator[bytes, None]:
    yield b"one "
    raise LookupError("gone")


async def body_of(failure: Callable[[Exception], bytes] | None) -> tuple[bytes, bool]:
    """What is sent of a flow whose headers went out before its source failed; whether it ended."""
    sent: list[dict[str, Any]] = []
    stays = asyncio.Event()

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        await stays.wait()

    flow = Flow(failing(), media_type="text/plain", seconds=30, flows=Open(), failure=failure)
    try:
        await flow({"type": "http"}, receive, send)
    except LookupError:
        assert failure is None
    parts = [message for message in sent if message["type"] == "http.response.body"]
    return b"".join(part["body"] for part in parts), not parts[-1]["more_body"]


async def test_a_failure_is_told_where_there_are_words_for_it() -> None:
    assert await body_of(lambda error: f"{error}".encode()) == (b"one gone", True)


async def test_elsewhere_the_body_does_not_end() -> None:
    assert await body_of(None) == (b"one ", False)


async def test_a_refusal_before_anything_is_sent_is_raised() -> None:
    async def refused() -> AsyncGenerator[bytes, None]:
        raise LookupError("nobody")
        yield b""

    flow = Flow(refused(), media_type="text/plain", seconds=30, flows=Open(), failure=lambda e: b"")
    with pytest.raises(LookupError):
        await flow.begin()
