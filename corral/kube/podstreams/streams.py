"""Run commands in containers and attach to them, over WebSocket channels.

Speaks ``v5.channel.k8s.io`` and falls back to ``v4.channel.k8s.io``, which differs in one thing: it
cannot say that standard input has ended.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import aiohttp
import orjson

from corral.kube.connection.transport import KubeConnectionError, Transport
from corral.kube.errors import error_from_status
from corral.kube.resources import PODS

__all__ = ["STDERR", "STDIN", "STDOUT", "ExecResult", "Output", "RemoteProcess", "StreamRequest"]

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
CLOSE = 255
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
HEARTBEAT_SECONDS = 30.0


class Output(NamedTuple):
    """A piece of output; ``channel`` is `STDOUT` or `STDERR`."""

    channel: int
    data: bytes


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended and everything it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """Which container, and which of its streams. Without a command it attaches."""

    pod: str
    namespace: str
    command: tuple[str, ...] = ()
    container: str = ""
    stdin: bool = False
    stdout: bool = True
    stderr: bool = True
    tty: bool = False
    """A terminal has one output: ``stderr`` is then not asked for."""

    @property
    def subresource(self) -> str:
        return "exec" if self.command else "attach"

    def query(self) -> list[tuple[str, str]]:
        query = [("command", word) for word in self.command]
        if self.container:
            query.append(("container", self.container))
        flags = {
            "stdin": self.stdin,
            "stdout": self.stdout,
            "stderr": self.stderr and not self.tty,
            "tty": self.tty,
        }
        return query + [(name, "true") for name, wanted in flags.items() if wanted]


class RemoteProcess:
    """A command running in a container, or the process attached to.

    Use as an async context manager; iterate for output; `exit_code` is known after the iteration
    has ended.
    """

    def __init__(self, transport: Transport, request: StreamRequest) -> None:
        self._transport = transport
        self._request = request
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._status: dict[str, Any] | None = None

    async def __aenter__(self) -> RemoteProcess:
        request = self._request
        self._socket = await self._transport.open_websocket(
            PODS.path(request.namespace, name=request.pod, subresource=request.subresource),
            query=request.query(),
            protocols=(V5, V4),
            heartbeat=HEARTBEAT_SECONDS,
        )
        if self._socket.protocol not in (V5, V4):
            await self._socket.close()
            raise KubeConnectionError(
                f"the server speaks neither {V5} nor {V4} for {request.subresource}"
            )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._open.close()

    @property
    def protocol(self) -> str:
        """The subprotocol that was agreed on with the server."""
        return self._open.protocol or ""

    @property
    def can_close_stdin(self) -> bool:
        """Whether the server can be told that standard input has ended."""
        return self._open.protocol == V5

    async def write(self, data: bytes) -> None:
        """Send bytes to the standard input of the process."""
        await self._send(STDIN, data)

    async def close_stdin(self) -> None:
        """Say that standard input has ended.

        Raises:
            KubeConnectionError: the protocol agreed on cannot say so.
        """
        if not self.can_close_stdin:
            raise KubeConnectionError(
                f"{V4} cannot end standard input: end the command another way"
            )
        await self._send(CLOSE, bytes([STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Tell the terminal its new size."""
        await self._send(RESIZE, orjson.dumps({"Width": columns, "Height": rows}))

    async def __aiter__(self) -> AsyncGenerator[Output, None]:
        socket = self._open
        async for message in socket:
            if message.type is aiohttp.WSMsgType.ERROR:
                break
            data = message.data.encode() if isinstance(message.data, str) else message.data
            if not data:
                continue
            channel = data[0]
            if channel in (STDOUT, STDERR):
                # Servers open each channel with an empty frame.
                if len(data) > 1:
                    yield Output(channel, data[1:])
            elif channel == STATUS and len(data) > 1:
                self._status = orjson.loads(data[1:])
        if self._status is None:
            reason = socket.exception() or f"WebSocket closed with code {socket.close_code}"
            raise KubeConnectionError(f"the command's outcome is not known: {reason}")

    @property
    def exit_code(self) -> int:
        """The exit code.

        Raises:
            ApiError: the command could not be run.
            KubeConnectionError: it has not ended, or how is not known.
        """
        if self._status is None:
            raise KubeConnectionError("the command has not ended")
        return exit_code(self._status)

    @property
    def _open(self) -> aiohttp.ClientWebSocketResponse:
        if self._socket is None:
            raise KubeConnectionError("not connected: use `async with`")
        return self._socket

    async def _send(self, channel: int, data: bytes) -> None:
        try:
            await self._open.send_bytes(bytes([channel]) + data)
        except (aiohttp.ClientError, OSError) as e:
            raise self._transport.failure(e) from e


def exit_code(status: dict[str, Any]) -> int:
    """The exit code in the ``Status`` of the status channel.

    Raises:
        ApiError: it tells of something else than the end of the command.
    """
    if status.get("status") == "Success":
        return 0
    if status.get("reason") == "NonZeroExitCode":
        for cause in (status.get("details") or {}).get("causes") or ():
            if cause.get("reason") == "ExitCode":
                return int(cause["message"])
    raise error_from_status(status)


async def run_command(
    transport: Transport, request: StreamRequest, *, stdin: bytes | None = None
) -> ExecResult:
    """Run a command to its end; small inputs and outputs only, all of it is held in memory."""
    out: dict[int, list[bytes]] = {STDOUT: [], STDERR: []}
    async with RemoteProcess(transport, request) as process:
        if stdin is not None:
            for piece in _pieces(stdin):
                await process.write(piece)
            await process.close_stdin()
        async for channel, data in process:
            out[channel].append(data)
        code = process.exit_code
    return ExecResult(code, b"".join(out[STDOUT]), b"".join(out[STDERR]))


def _pieces(data: bytes, size: int = 32 * 1024) -> Sequence[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]
