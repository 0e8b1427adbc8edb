"""An API server on loopback that a case scripts answer by answer, and pods and jobs to give it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.transport import ClientSettings

Obj = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[KubeClient]:
    """A client of a server that answers with the handler."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    server = TestServer(app)
    await server.start_server()
    try:
        config = ClusterConfig(str(server.make_url("/")))
        settings = ClientSettings(reset_backoff=0.0, max_retries=1)
        async with KubeClient(config, settings=settings) as client:
            yield client
    finally:
        await server.close()


def answer(value: Obj, status: int = 200) -> web.Response:
    return web.json_response(value, status=status)


def refuse(code: int, reason: str, message: str = "no", **details: Any) -> web.Response:
    status = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
        "message": message, "code": code, "details": details,
    }  # fmt: skip
    return answer(status, code)


async def events(request: web.Request, *lines: tuple[str, Obj]) -> web.StreamResponse:
    """A watch that ends after these."""
    response = web.StreamResponse()
    await response.prepare(request)
    for kind, obj in lines:
        await response.write(orjson.dumps({"type": kind, "object": obj}) + b"\n")
    await response.write_eof()
    return response


def listed(version: str, *items: Obj) -> Obj:
    return {"kind": "List", "metadata": {"resourceVersion": version}, "items": list(items)}


def mpijob(name: str, version: str = "1", *conditions: Obj, **metadata: Any) -> Obj:
    """An MPIJob with these conditions."""
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {
            "name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z", **metadata,
        },
        "spec": {"mpiReplicaSpecs": {"Launcher": {}, "Worker": {"replicas": 2}}},
        "status": {"conditions": list(conditions)} if conditions else {},
    }  # fmt: skip


def condition(type: str, status: str = "True", **more: str) -> Obj:
    return {"type": type, "status": status, **more}


def pod(name: str, phase: str = "Running", *, container: Obj | None = None, **more: Any) -> Obj:
    """A worker or launcher pod; ``container`` is the state of its container."""
    role = "worker" if "worker" in name else "launcher"
    status: Obj = {"phase": phase, **more}
    if container is not None:
        status["containerStatuses"] = [{"name": "main", **container}]
    return {
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "ns", "uid": f"uid-{name}",
            "labels": {"training.kubeflow.org/job-role": role},
        },
        "spec": {"nodeName": "n1"},
        "status": status,
    }  # fmt: skip
