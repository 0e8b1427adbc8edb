"""exec, attach and port-forward, over SPDY/3.1 and WebSockets.

Refusals come before the upgrade where they can, in the words of a kubelet; a command is started
only for a client whose streams are open, and ends with it.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from aiohttp import web

from corral.cluster.node.access import AccessError, PodAccess
from corral.cluster.node.container import sessions
from corral.cluster.node.container.streams import ContainerError, Streams
from corral.cluster.streaming import commands, forwarding
from corral.cluster.streaming.commands import Options, Session
from corral.cluster.streaming.wires import SocketWire
from corral.kube.types import Obj

log = logging.getLogger(__name__)

MAX_SESSIONS = 1000
"""Clients at once; a machine has only so many descriptors."""
DIAL_TIMEOUT = 30.0


class Sessions:
    """Runs sessions until their clients leave."""

    def __init__(self, access: PodAccess, *, limit: int = MAX_SESSIONS) -> None:
        self._access = access
        self._limit = limit
        self.running = 0

    # -- exec, attach ----------------------------------------------------------------------------

    async def exec(self, request: web.BaseRequest, *where: str) -> web.StreamResponse:
        """``where``: namespace, pod, perhaps uid, container. Raises AccessError."""
        options = parse_options(request.query)
        place = self._container(where)
        self._require_running(place, f'container not found ("{place[2]}")')
        words = request.query.getall("command", [])

        async def start() -> Streams:
            stdin, tty = options.stdin, options.tty
            return await self._access.exec(*place, command=words, stdin=stdin, tty=tty)

        with self._counted():
            async with commands.serve(request, options) as (session, response):
                if session is not None:
                    await _run(session, start, tty=options.tty)
            return response

    async def attach(self, request: web.BaseRequest, *where: str) -> web.StreamResponse:
        """``where``: namespace, pod, perhaps uid, container. Raises AccessError."""
        options = parse_options(request.query)
        place = self._container(where)
        namespace, pod, container = place
        self._require_running(place, f"container {container} not found in pod {pod}_{namespace}")
        tty = self._access.has_tty(*place)

        async def start() -> Streams:
            return await self._access.attach(*place, stdin=options.stdin)

        with self._counted():
            async with commands.serve(request, options) as (session, response):
                if session is not None:
                    await _run(_Attached(session), start, tty=tty)
            return response

    # -- port-forward ----------------------------------------------------------------------------

    async def forward(self, request: web.BaseRequest, *where: str) -> web.StreamResponse:
        """``where``: namespace, pod, perhaps uid. Raises AccessError."""
        namespace, name, *uid = where
        pod = self._pod(namespace, name)
        if uid and pod["metadata"].get("uid") != uid[0]:
            raise AccessError("pod not found", code=404)
        if (pod.get("status") or {}).get("phase") != "Running":
            raise AccessError(f'pod not found ("{name}_{namespace}")', code=500)

        async def connect(port: int) -> SocketWire:
            try:
                async with asyncio.timeout(DIAL_TIMEOUT):
                    return SocketWire(*await self._access.dial(namespace, name, port))
            except (OSError, TimeoutError, AccessError) as err:
                raise OSError(_unreachable(port, err)) from err

        with self._counted():
            return await forwarding.serve(request, connect, pod=name)

    # -- what is meant ---------------------------------------------------------------------------

    def _container(self, where: tuple[str, ...]) -> tuple[str, str, str]:
        namespace, pod, *uid, container = where
        if uid and self._pod(namespace, pod)["metadata"].get("uid") != uid[0]:
            raise AccessError(f'container not found ("{container}")', code=500)
        return namespace, pod, container

    def _require_running(self, place: tuple[str, str, str], otherwise: str) -> None:
        if not self._access.is_running(*place):
            self._access.has_tty(*place)  # knows better when there is no such pod or container
            raise AccessError(otherwise, code=500)

    def _pod(self, namespace: str, name: str) -> Obj:
        for pod in self._access.pods():
            meta = pod["metadata"]
            if meta["name"] == name and meta.get("namespace") == namespace:
                return pod
        raise AccessError("pod does not exist", code=404)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        if self.running >= self._limit:
            raise AccessError("too many exec, attach and port-forward sessions", code=503)
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


def parse_options(query: Mapping[str, str]) -> Options:
    """Raises AccessError."""
    asked = Options.from_query(query)
    if not (asked.stdin or asked.stdout or asked.stderr):
        raise AccessError("you must specify at least 1 of stdin, stdout, stderr", code=400)
    # a terminal has one output
    stderr = asked.stderr and not asked.tty
    return Options(stdin=asked.stdin, stdout=asked.stdout, stderr=stderr, tty=asked.tty)


async def _run(session: Session, start: Callable[[], Awaitable[Streams]], *, tty: bool) -> None:
    try:
        streams = await start()
    except (AccessError, ContainerError) as err:
        with suppress(ConnectionError):
            await session.finish(commands.failed(str(err)))
        return
    await sessions.join(session, streams, tty=tty)


class _Attached:
    """A session that is told of the container's end as of a success: its status has the rest."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.read = session.read
        self.write = session.write
        self.wait_gone = session.wait_gone

    async def finish(self, status: Mapping[str, Any]) -> None:
        ended = status.get("reason") == "NonZeroExitCode"
        await self._session.finish(commands.success() if ended else status)


_WHY = {
    errno.ECONNREFUSED: "connect: connection refused",
    errno.EHOSTUNREACH: "connect: no route to host",
    errno.ENETUNREACH: "connect: network is unreachable",
    errno.EMFILE: "socket: too many open files",
}


def _unreachable(port: int, err: Exception) -> str:
    if isinstance(err, AccessError):
        return str(err)
    if isinstance(err, TimeoutError):
        why = "i/o timeout"
    else:
        number = err.errno if isinstance(err, OSError) else None
        why = _WHY.get(number or 0, str(err))
    return f"failed to connect to localhost:{port} inside the pod: dial tcp 127.0.0.1:{port}: {why}"
