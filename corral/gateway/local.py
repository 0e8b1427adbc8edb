"""The gateway as a part of ``corral up``: there at once, loaded when it is needed.

Its sockets listen before anything is loaded, so that a cluster is up as soon as without it. What it
needs is loaded with the first connection, or when the cluster has had a moment to start; whoever
connects before waits in the queue of the socket. It serves with the certificate of the API server
beside it: whoever trusts that one trusts this.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from corral.gateway.process import ProcessSettings, run_gateway
from corral.runtime.serving.listening import (
    Listen,
    bind,
    bind_or_any,
    first_connection,
    keep_facts,
    kept_ports,
    shown,
)

__all__ = ["PREFERRED", "LocalSettings", "run_part"]

PREFERRED: Final = (8443, 8444)
"""Ports of REST and gRPC where nobody wishes otherwise."""
_QUIET: Final = 3.0
"""Seconds without a connection after which it is loaded all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """Where the cluster is, and where to listen."""

    folder: Path
    """The cluster's data folder."""
    kubeconfig: Path
    """Says where the API server is; its credentials are not used."""
    socket: Path | None = None
    """Where the API server listens for the parts of the cluster, if it does."""
    host: str = "127.0.0.1"
    port: int | None = None
    """Of REST; gRPC has the next where it is free. None: those of the last time, else the
    preferred ones, else any. 0: those of the last time, else any."""
    registries: tuple[str, ...] = ()
    """``NAME=URL`` of registries that models are read from."""

    @property
    def addresses(self) -> Path:
        """Where its addresses are written."""
        return self.folder / "gateway.json"


async def run_part(settings: LocalSettings, ready: Callable[[dict[str, Any]], None]) -> None:
    """Serve until SIGTERM. Raises OSError where a port that was asked for is taken."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    rest, grpc = _sockets(settings)
    with rest, grpc:
        ports = {"rest": rest.getsockname()[1], "grpc": grpc.getsockname()[1]}
        host = shown(settings.host)
        facts = {"url": f"https://{host}:{ports['rest']}", "grpc": f"{host}:{ports['grpc']}"}
        keep_facts(settings.addresses, facts, ports["rest"], ports["grpc"])
        ready(facts)
        await first_connection(rest, grpc, stop=stop, within=_QUIET)
        grpc.close()  # its server opens the port itself
        if not stop.is_set():
            await _serve(settings, ports["grpc"], sock=rest, stop=stop)


async def _serve(
    settings: LocalSettings, grpc_port: int, *, sock: socket.socket, stop: asyncio.Event
) -> None:
    from corral.kube.connection.kubeconfig import load_kubeconfig

    config = load_kubeconfig([settings.kubeconfig]).resolve()
    if settings.socket is not None and settings.socket.exists():
        config = replace(config, socket=str(settings.socket))
    pki = settings.folder / "pki"
    chosen = ProcessSettings(
        rest=Listen(settings.host),
        grpc=Listen(settings.host, grpc_port),
        cert=pki / "apiserver.crt",
        key=pki / "apiserver.key",
        registries=settings.registries,
        audit_file=settings.folder / "logs" / "gateway-audit.log",  # audit.log is the API server's
    )
    await run_gateway(config, chosen, sock=sock, stop=stop)


def _sockets(settings: LocalSettings) -> tuple[socket.socket, socket.socket]:
    """Of REST and gRPC; both listen, so that nobody else gets the second one meanwhile."""
    wish = Listen(settings.host)
    if settings.port:
        rest = bind(replace(wish, port=settings.port))
        return rest, bind_or_any(replace(wish, port=settings.port + 1))
    chosen = (0, 0) if settings.port == 0 else PREFERRED
    first, second = kept_ports(settings.addresses, 2) or chosen
    return bind_or_any(replace(wish, port=first)), bind_or_any(replace(wish, port=second))
