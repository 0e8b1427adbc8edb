"""WebSocket channels, byte queues, upgrades: the parts without a server."""

from __future__ import annotations

import asyncio

import pytest

from corral.cluster.streaming import commands, forwarding, upgrade
from corral.cluster.streaming.buffers import ByteQueue
from corral.cluster.streaming.wires import relay


async def test_queue_waits_for_its_reader() -> None:
    queue = ByteQueue(4)
    await queue.put(b"abcd")
    putting = asyncio.create_task(queue.put(b"ef"))
    await asyncio.sleep(0)
    assert not putting.done()
    assert await queue.get() == b"abcd"
    await putting
    queue.end()
    await queue.put(b"too late")
    assert await queue.get() == b"ef"
    assert await queue.get() == b""


async def test_queue_that_nobody_reads_takes_everything() -> None:
    queue = ByteQueue(1)
    await queue.put(b"x")
    putting = asyncio.create_task(queue.put(b"y"))
    await asyncio.sleep(0)
    queue.discard()
    await putting
    await queue.put(b"z" * 100)
    assert queue.size == 0


class Ends:
    """A wire that says a few things, then ends or stays silent."""

    def __init__(self, *said: bytes, silent: bool = False) -> None:
        self.said = list(said)
        self.heard = b""
        self.closed = False
        self._silent = silent

    async def read(self) -> bytes:
        if not self.said and self._silent:
            await asyncio.Event().wait()
        return self.said.pop(0) if self.said else b""

    async def write(self, data: bytes) -> None:
        self.heard += data

    async def close(self) -> None:
        self.closed = True


async def test_relay_ends_with_either_side() -> None:
    near, far = Ends(b"a", b"b"), Ends(silent=True)
    await relay(near, far)
    assert far.heard == b"ab"
    assert near.closed and far.closed


async def test_relay_ends_when_idle() -> None:
    near, far = Ends(silent=True), Ends(silent=True)
    await relay(near, far, idle=0.01)
    assert near.closed and far.closed


def test_choose() -> None:
    assert upgrade.choose(["v5", "v4"], ["v4", "v5"]) == "v5"
    assert upgrade.choose([], ["v4", ""]) == ""
    with pytest.raises(upgrade.NoProtocol, match=r"client supports \[v9\], server accepts \[v4\]"):
        upgrade.choose(["v9"], ["v4"])


@pytest.mark.parametrize(
    ("values", "ports"), [(["80"], [80]), (["80,443", "1"], [80, 443, 1]), ([], [])]
)
def test_ports(values: list[str], ports: list[int]) -> None:
    assert forwarding.parse_ports(values) == ports


@pytest.mark.parametrize("value", ["", "x", "0", "65536", "-1", "80,"])
def test_ports_that_are_none(value: str) -> None:
    with pytest.raises(ValueError, match="port"):
        forwarding.parse_ports([value])


def test_statuses() -> None:
    assert commands.exited(0) == {"metadata": {}, "status": "Success"}
    failure = commands.exited(137)
    assert commands.encode_status(failure, "v3.channel.k8s.io") == (
        b"command terminated with non-zero exit code: exit status 137"
    )
    assert commands.encode_status(commands.success(), "channel.k8s.io") == b""
    assert b'"NonZeroExitCode"' in commands.encode_status(failure, "v4.channel.k8s.io")


def test_stream_order() -> None:
    options = commands.Options(stdin=True, stdout=True, tty=True)
    assert options.numbers(resize=True) == [
        commands.ERROR,
        commands.STDIN,
        commands.STDOUT,
        commands.RESIZE,
    ]
    assert commands.RESIZE not in options.numbers(resize=False)
