"""With a gateway and an API server behind it: who cancels a call ends the requests behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from aiohttp import web

from corral.gateway.audit import Audit
from corral.gateway.clients import Upstream
from corral.gateway.grpc import GrpcSettings, Shared, serve_grpc
from corral.gateway.service import Gateway
from corral.kube import ClusterConfig
from corral.v1 import jobs_pb2 as pb
from corral.v1.jobs_pb2_grpc import JobServiceStub

BEARER = (("authorization", "Bearer somebody"),)
WATCH = pb.WatchStatusRequest(kind="mpijobs", namespace="n")


@dataclass
class Silent:
    """An API server that lists nothing, and answers nothing else until the caller goes."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    tokens: set[str] = field(default_factory=set)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.tokens.add(request.headers.get("Authorization", ""))
        if request.path.endswith("/selfsubjectreviews"):
            return web.json_response({"status": {"userInfo": {"username": "somebody"}}})
        if request.path.endswith("/mpijobs") and "watch" not in request.query:
            listed: dict[str, Any] = {"metadata": {"resourceVersion": "1"}, "items": []}
            return web.json_response({"kind": "MPIJobList", **listed})
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()
        raise AssertionError("never reached")


@asynccontextmanager
async def serving(api: Silent) -> AsyncGenerator[JobServiceStub, None]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.answer)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    access = Upstream.of(ClusterConfig(server=f"http://{host}:{port}"))
    audit = Audit(lambda line: None)
    gateway = Gateway(access)
    shared = Shared.of(gateway, access, audit=audit)
    server = await serve_grpc(gateway, GrpcSettings(grace_seconds=1), shared=shared)
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            yield JobServiceStub(channel)
    finally:
        await server.stop()
        await shared.reach.close()
        await gateway.close()
        await runner.cleanup()


@pytest.mark.parametrize("method", ["Get", "WatchStatus"])
async def test_cancelling_ends_the_request_to_the_api_server(method: str) -> None:
    api = Silent()
    async with serving(api) as stub, asyncio.timeout(60):
        if method == "Get":
            request: Any = pb.GetRequest(kind="mpijobs", namespace="n", name="pi")
        else:
            request = WATCH
        call = getattr(stub, method)(request, metadata=BEARER)
        reading = asyncio.ensure_future(call.read() if method != "Get" else call)
        await api.asked.wait()
        call.cancel()
        await api.left.wait()
        await asyncio.gather(reading, return_exceptions=True)
        assert api.tokens == {"Bearer somebody"}


async def test_a_deadline_ends_the_request_to_the_api_server() -> None:
    api = Silent()
    async with serving(api) as stub, asyncio.timeout(60):
        await stub.List(pb.ListRequest(kind="mpijobs"), metadata=BEARER)  # all are connected
        request = pb.GetRequest(kind="mpijobs", namespace="n", name="pi")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Get(request, metadata=BEARER, timeout=2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await api.left.wait()
