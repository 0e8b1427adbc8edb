"""A gateway as a process: serves on a socket that listens already, until it is asked to stop.

When it stops, it takes no new connections, ends watches and logs with a word that they can be gone
on with, lets ordinary requests finish within the grace, and closes its clients.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corral.gateway.limits import LimitSettings
from corral.runtime.serving.listening import Listen

if TYPE_CHECKING:
    from corral.gateway.service import Gateway
    from corral.gateway.shared import Shared
    from corral.gateway.tls import ServerTls
    from corral.kube.connection.config import ClusterConfig

__all__ = ["ProcessSettings", "run_gateway", "serve"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """How a gateway process serves."""

    rest: Listen = field(default_factory=Listen)
    grpc: Listen | None = field(default_factory=Listen)
    """None: no gRPC."""
    cert: Path | None = None
    key: Path | None = None
    """The certificate to serve with, and its key; without them one of our own is made."""
    cert_dir: Path | None = None
    """Where one of our own is kept."""
    hosts: tuple[str, ...] = ()
    """Names of ours in it, beyond the address it listens at."""
    tls: bool = True
    """Off only behind something that does TLS: tokens would travel in the clear."""
    limits: LimitSettings = field(default_factory=LimitSettings)
    registries: tuple[str, ...] = ()
    """``NAME=URL`` of registries that models are read from."""
    audit_file: Path | None = None
    """None: standard error."""
    grace: float = 10.0
    """Seconds that ordinary requests may take to finish when it stops."""


async def run_gateway(
    config: ClusterConfig,
    settings: ProcessSettings,
    *,
    sock: socket.socket,
    stop: asyncio.Event,
    ready: Callable[[dict[str, Any]], None] = lambda _: None,
) -> None:
    """Serve on a socket that listens, until ``stop``.

    Raises:
        ConfigError: the certificate or the address of gRPC cannot be used.
    """
    from corral.files.temporary import sweep
    from corral.gateway.audit import audit_to
    from corral.gateway.clients import Upstream
    from corral.gateway.models import Models
    from corral.gateway.service import Gateway
    from corral.gateway.shared import Shared

    audit = audit_to(settings.audit_file)
    access = Upstream.of(config)
    gateway = Gateway(access, models=Models(settings.registries))
    shared = Shared.of(gateway, access, audit=audit, limits=settings.limits)
    async with AsyncExitStack() as stack:
        stack.callback(audit.close)
        stack.push_async_callback(gateway.close)
        stack.push_async_callback(shared.reach.close)
        await asyncio.to_thread(sweep)
        tls = await asyncio.to_thread(_tls, settings)
        if tls is not None:
            await stack.enter_async_context(_alongside(tls.run()))
        facts: dict[str, Any] = {}
        if settings.grpc is not None:
            facts["grpc"] = await stack.enter_async_context(
                _grpc(gateway, settings, shared=shared, tls=tls)
            )
        async with serve(gateway, shared, sock, tls=tls, grace=settings.grace) as port:
            ready({"rest": port, **facts})
            await stop.wait()


@asynccontextmanager
async def serve(
    gateway: Gateway,
    shared: Shared,
    sock: socket.socket,
    *,
    tls: ServerTls | None = None,
    grace: float = 10.0,
) -> AsyncIterator[int]:
    """REST on a socket that listens; gives its port, and ends it in order."""
    from corral.gateway.rest.app import RestApp
    from corral.gateway.rest.server import RestServer

    app = RestApp(gateway, shared)
    server = RestServer(app, context=tls.context if tls else None, grace=grace)
    port: int = sock.getsockname()[1]
    async with server.running(sock):
        try:
            yield port
        finally:
            server.refuse_new()
            await app.close()


@asynccontextmanager
async def _grpc(
    gateway: Gateway, settings: ProcessSettings, *, shared: Shared, tls: ServerTls | None
) -> AsyncIterator[int]:
    from corral.gateway.grpc import GrpcSettings, serve_grpc
    from corral.kube.connection.config import ConfigError

    listen = settings.grpc or Listen()
    chosen = GrpcSettings(
        host=listen.host,
        port=listen.port,
        certificate=tls.files.cert if tls else None,
        key=tls.files.key if tls else None,
        grace_seconds=settings.grace,
    )
    try:
        server = await serve_grpc(gateway, chosen, shared=shared)
    except OSError as error:
        raise ConfigError(f"gRPC: {error}") from error
    try:
        yield server.port
    finally:
        await server.stop()


def _tls(settings: ProcessSettings) -> ServerTls | None:
    from corral.gateway.tls import CertificateFiles, ServerTls, listening_hosts, own_certificate
    from corral.kube.connection.config import ConfigError

    if not settings.tls:
        return None
    if settings.cert is not None and settings.key is not None:
        return ServerTls(CertificateFiles(settings.cert, settings.key))
    if settings.cert_dir is None:
        raise ConfigError("a certificate needs a place: give --cert and --key, or --cert-dir")
    hosts = listening_hosts(settings.rest.host, settings.hosts)
    renew = partial(own_certificate, settings.cert_dir, hosts)
    return ServerTls(renew(), renew=renew)


@asynccontextmanager
async def _alongside(work: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
