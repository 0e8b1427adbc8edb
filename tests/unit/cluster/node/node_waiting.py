"""What the tests of containers wait with, and where they look for what containers left."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


def exists(*paths: str) -> bool:
    return any(os.path.exists(path) for path in paths)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that other processes do and nobody announces."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (there is no event to wait for)
            await asyncio.sleep(0.005)
