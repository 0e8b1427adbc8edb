"""A gRPC server in front of a gateway that does what a case tells it, and clients of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import orjson

from corral.client import Change, LogChunk, Page
from corral.client.explain.explanation import Explanation
from corral.gateway.audit import Audit, Names
from corral.gateway.auth import Caller
from corral.gateway.grpc import GrpcServer, GrpcSettings, Shared, serve_grpc
from corral.gateway.limits import LimitSettings, Places, RateLimiter, StreamPlaces
from corral.gateway.metrics import GatewayMetrics
from corral.gateway.service import Created
from corral.v1 import errors_pb2 as pb

TOKEN = "a-token-of-somebody"
BEARER = (("authorization", f"Bearer {TOKEN}"),)
OBJECT: dict[str, Any] = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "metadata": {"name": "pi", "namespace": "n", "uid": "u", "resourceVersion": "7"},
    "spec": {"slotsPerWorker": 2, "tomorrow": {"a": None}},
}
Answer = Callable[..., Awaitable[Any]]


@dataclass
class FakeGateway:
    """Remembers what it was asked; answers what a case sets, else an object."""

    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    callers: list[Caller] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    """By method: a value, an exception, or a function."""

    async def _do(self, method: str, caller: Caller, kind: Any, **asked: Any) -> Any:
        self.callers.append(caller)
        self.asked.append((method, {"kind": kind.plural, **asked}))
        answer = self.answers.get(method, OBJECT)
        if isinstance(answer, Exception):
            raise answer
        return await answer(**asked) if callable(answer) else answer

    async def who(self, caller: Caller) -> str:
        return "another" if caller.token == "another" else "somebody"

    async def create(self, caller: Caller, kind: Any, **asked: Any) -> Created:
        made = await self._do("create", caller, kind, **asked)
        return made if isinstance(made, Created) else Created(made)

    async def list(self, caller: Caller, kind: Any, **asked: Any) -> Page:
        found = await self._do("list", caller, kind, **asked)
        return found if isinstance(found, Page) else Page([found], "next", 2)

    async def explain(self, caller: Caller, kind: Any, **asked: Any) -> Any:
        said = await self._do("explain", caller, kind, **asked)
        return said if isinstance(said, Explanation) else Explanation("Pending", "waits", ("a",))

    def __getattr__(self, method: str) -> Any:
        if method not in ("get", "replace", "delete", "status", "restart", "suspend", "resume",
                          "scale", "events", "metrics"):  # fmt: skip
            raise AttributeError(method)

        async def asked(caller: Caller, kind: Any, **asked: Any) -> Any:
            return await self._do(method, caller, kind, **asked)

        return asked

    async def watch(self, caller: Caller, kind: Any, **asked: Any) -> AsyncGenerator[Change, None]:
        async for change in await self._stream("watch", caller, kind, asked):
            yield change

    async def logs(self, caller: Caller, kind: Any, **asked: Any) -> AsyncGenerator[LogChunk, None]:
        source = await self._stream("logs", caller, kind, asked)
        try:
            async for chunk in source:
                yield chunk
        finally:
            await source.aclose()

    async def _stream(self, method: str, caller: Caller, kind: Any, asked: Any) -> Any:
        self.callers.append(caller)
        self.asked.append((method, {"kind": kind.plural, **asked}))
        answer = self.answers[method]
        if isinstance(answer, Exception):
            raise answer
        return answer()


@dataclass
class Stage:
    """A server that runs, and what can be seen of it."""

    gateway: FakeGateway
    shared: Shared
    server: GrpcServer
    channel: grpc.aio.Channel
    lines: list[dict[str, Any]]
    """Of the audit log."""
    written: asyncio.Event

    async def audited(self, count: int) -> list[dict[str, Any]]:
        """That many lines, when they are there."""
        async with asyncio.timeout(30):
            while len(self.lines) < count:
                await self.written.wait()
                self.written.clear()
        return self.lines


@asynccontextmanager
async def stage(
    *, settings: GrpcSettings | None = None, limits: LimitSettings | None = None
) -> AsyncGenerator[Stage, None]:
    limits = limits or LimitSettings()
    lines: list[dict[str, Any]] = []
    written = asyncio.Event()

    def write(line: bytes) -> None:
        lines.append(orjson.loads(line))
        written.set()

    gateway = FakeGateway()
    shared = Shared(
        limits=limits,
        rates=RateLimiter(limits.rate, limits.burst),
        places=Places(limits.requests, limits.waiting),
        streams=StreamPlaces(limits.streams, limits.streams_each),
        audit=Audit(write),
        names=Names(gateway.who),
        reach=None,  # type: ignore[arg-type]  # only REST asks for it
        metrics=GatewayMetrics(),
    )
    server = await serve_grpc(gateway, settings or GrpcSettings(), shared=shared)  # type: ignore[arg-type]
    async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        yield Stage(gateway, shared, server, channel, lines, written)
        await server.stop()


def details(error: grpc.aio.AioRpcError | grpc.RpcError) -> dict[str, Any]:
    """The details of a failed call by the name they travel under, and the status itself."""
    trailer = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    status = pb.RpcStatus.FromString(trailer)
    assert status.code == error.code().value[0]
    assert status.message == error.details()
    types = {
        "corral.v1.Problem": pb.Problem,
        "google.rpc.ErrorInfo": pb.ErrorInfo,
        "google.rpc.RetryInfo": pb.RetryInfo,
        "google.rpc.BadRequest": pb.BadRequest,
    }
    return {
        name: types[name].FromString(detail.value)
        for detail in status.details
        for name in [detail.type_url.removeprefix("type.googleapis.com/")]
    }
