"""Join a client's exec or attach session to a command in a container."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import orjson

from corral.cluster.node.container.processes import ContainerError, Streams
from corral.cluster.streaming import commands
from corral.cluster.streaming.commands import RESIZE, STDIN, STDOUT, Session


async def join(session: Session, streams: Streams, *, tty: bool = False) -> None:
    """Carry both ways until the command ends or the client leaves, and say how it ended.

    A command that was started for the client is killed when the client leaves first.
    """

    async def run() -> None:
        await session.finish(await _outward(session, streams, tty=tty))

    tasks = [asyncio.ensure_future(run()), asyncio.ensure_future(session.wait_gone())]
    feeding = [
        asyncio.ensure_future(_feed(session, streams)),
        asyncio.ensure_future(_resize(session, streams)),
    ]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            with suppress(ConnectionError):
                task.result()
    finally:
        for task in (*tasks, *feeding):
            task.cancel()
        try:
            await asyncio.gather(*tasks, *feeding, return_exceptions=True)
        finally:
            # also when a second cancellation comes: the command must not stay
            await streams.close()


async def _outward(session: Session, streams: Streams, *, tty: bool) -> dict[str, object]:
    try:
        while (piece := await streams.read()) is not None:
            await session.write(STDOUT if tty else piece[0], piece[1])
    except ContainerError as err:
        return commands.failed(f"error executing command in container: {err}")
    if streams.exit_code is None:
        return commands.failed("the container went away")
    return commands.exited(streams.exit_code)


async def _feed(session: Session, streams: Streams) -> None:
    with suppress(ConnectionError):
        while data := await session.read(STDIN):
            await streams.write(data)
        await streams.close_stdin()


async def _resize(session: Session, streams: Streams) -> None:
    """Sizes come as JSON documents, one after the other."""
    while data := await session.read(RESIZE):
        for line in data.splitlines():
            try:
                size = orjson.loads(line)
                streams.resize(int(size["Width"]), int(size["Height"]))
            except (ValueError, KeyError, TypeError):
                continue  # a client that speaks nonsense gets no new size
