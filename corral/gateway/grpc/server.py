"""The gRPC server of a gateway: every service, health, reflection, TLS.

`serve_grpc` starts it on the running event loop; `GrpcServer.stop` ends it: health says so first,
streams are told to come back, ordinary calls may finish. Health and reflection need no token.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Final

import grpc
from google.protobuf.descriptor import ServiceDescriptor  # type: ignore[import-untyped]
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
from grpc_reflection.v1alpha import reflection, reflection_pb2  # type: ignore[import-untyped]

import corral.v1
from corral.client import kind_of
from corral.gateway.grpc.calls import Calls, Method, Shared
from corral.gateway.grpc.objects import Face
from corral.gateway.service import Gateway

__all__ = ["GrpcServer", "GrpcSettings", "faces", "generic_name", "serve_grpc"]

_REFLECTION: Final = ("grpc.reflection.v1.ServerReflection", reflection.SERVICE_NAME)
_OVERHEAD: Final = 64 * 1024
"""What a message may have beside the object in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """Where the server listens, and what it takes."""

    host: str = "127.0.0.1"
    port: int = 0
    """0: any that is free."""
    certificate: Path | None = None
    """PEM, the chain of the server; read again when it changes. None: without TLS."""
    key: Path | None = None
    """PEM."""
    keepalive_seconds: float = 30.0
    """A caller who is silent for that long is asked whether it is still there."""
    grace_seconds: float = 10.0
    """How long ordinary calls may take to finish when the server stops."""


class GrpcServer:
    """A server that runs; made by `serve_grpc`."""

    def __init__(
        self, server: grpc.aio.Server, calls: Calls, *, state: Any, port: int, grace: float
    ) -> None:
        self.port = port
        self._server, self._calls, self._health, self._grace = server, calls, state, grace

    async def stop(self) -> None:
        """End everything: no new calls, streams at once, the rest within the grace."""
        await self._health.enter_graceful_shutdown()
        self._calls.flows.end_all()
        await self._server.stop(self._grace)
        await self._calls.finished()


async def serve_grpc(gateway: Gateway, settings: GrpcSettings, *, shared: Shared) -> GrpcServer:
    """Start a server that answers for the gateway; it serves when this returns.

    Raises:
        OSError: the address cannot be had.
    """
    calls = Calls(gateway, shared)
    server = grpc.aio.server(options=_options(settings, shared.limits.body_bytes))
    shown = faces()
    for face in shown:
        name = face.service.full_name
        handlers = {
            method.name: calls.handler(Method(face, method, generic_name(face, method.name)))
            for method in face.service.methods
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, handlers),))
    names = [face.service.full_name for face in shown]
    state = await _add_health(server, names)
    _add_reflection(server, [*names, health.SERVICE_NAME, *_REFLECTION])
    port = _bind(server, settings)
    await server.start()
    return GrpcServer(server, calls, state=state, port=port, grace=settings.grace_seconds)


def faces() -> list[Face]:
    """Every service that there are stubs for, JobService first."""
    found: list[ServiceDescriptor] = []
    for module in iter_modules(corral.v1.__path__):
        if module.name.endswith("_pb2"):
            file = import_module(f"corral.v1.{module.name}").DESCRIPTOR
            found += file.services_by_name.values()
    found.sort(key=lambda service: (service.name != "JobService", service.name))
    return [
        Face(service, kind_of(service.name.removesuffix("Service")) if at else None)
        for at, service in enumerate(found)
    ]


def generic_name(face: Face, method: str) -> str:
    """The name in JobService: ``CreateMPIJob`` → ``Create``, ``ListMPIJobs`` → ``List``."""
    if face.kind is None:
        return method
    name = method.replace(face.kind.kind, "", 1)
    return "List" if name in ("Lists", "Listes") else name


async def _add_health(server: grpc.aio.Server, names: list[str]) -> Any:
    state = health.aio.HealthServicer()
    for name in ("", *names):
        await state.set(name, health_pb2.HealthCheckResponse.SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(state, server)
    return state


def _add_reflection(server: grpc.aio.Server, names: list[str]) -> None:
    """Under both names that clients ask for; the messages are the same."""
    servicer = reflection.aio.ReflectionServicer(names)
    handler = grpc.stream_stream_rpc_method_handler(
        servicer.ServerReflectionInfo,
        request_deserializer=reflection_pb2.ServerReflectionRequest.FromString,
        response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    for name in _REFLECTION:
        methods = {"ServerReflectionInfo": handler}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))


def _options(settings: GrpcSettings, body_bytes: int) -> list[tuple[str, Any]]:
    keepalive = int(settings.keepalive_seconds * 1000)
    return [
        ("grpc.max_receive_message_length", body_bytes + _OVERHEAD),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", 1024),
        ("grpc.keepalive_time_ms", keepalive),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.so_reuseport", 0),
    ]


def _bind(server: grpc.aio.Server, settings: GrpcSettings) -> int:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.port}"
    try:
        if settings.certificate is None or settings.key is None:
            return server.add_insecure_port(address)
        return server.add_secure_port(address, _credentials(settings.certificate, settings.key))
    except RuntimeError as error:
        raise OSError(f"cannot listen on {address}: {error}") from error


def _credentials(certificate: Path, key: Path) -> grpc.ServerCredentials:
    """The certificate of the files, also after they were renewed."""
    seen = _stamp(certificate, key)

    def read() -> Any:
        pair = (key.read_bytes(), certificate.read_bytes())
        return grpc.ssl_server_certificate_configuration([pair])

    def renewed() -> Any:
        nonlocal seen
        now = _stamp(certificate, key)
        if now == seen:
            return None
        seen = now
        return read()

    return grpc.dynamic_ssl_server_credentials(read(), renewed)


def _stamp(*paths: Path) -> tuple[tuple[int, int], ...]:
    return tuple((found.st_mtime_ns, found.st_ino) for found in map(Path.stat, paths))
