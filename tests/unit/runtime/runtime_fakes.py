"""An event loop whose time is virtual, and a small API server with one collection."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestServer

from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.transport import ClientSettings
from corral.kube.resources import CONFIGMAPS
from corral.kube.types import Obj
from corral.runtime.informers.reflector import Scope

SCOPE = Scope(CONFIGMAPS, "ns")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the clock to it."""

    now = 1000.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(1.0 if timeout is None else timeout)
        # What is under way on loopback arrives before time goes on.
        ready = super().select(0.001)
        if not ready:
            self.now += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def virtual(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in virtual time."""

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def until(condition: Callable[[], Any], limit: float = 600.0) -> None:
    """Let time pass until the condition holds."""
    step = 0.001
    async with asyncio.timeout(limit):
        while not condition():
            await asyncio.sleep(step)
            step = min(step * 1.2, 1.0)


class Clock:
    """A clock that stands still."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def obj(name: str, *, uid: str = "", namespace: str = "ns", **fields: Any) -> Obj:
    metadata = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    metadata |= fields.pop("metadata", {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def status(code: int, reason: str, **details: Any) -> Obj:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no", "status": "Failure"}
    return {**body, "details": details} if details else body


def refusal(code: int, reason: str, **details: Any) -> web.Response:
    return web.json_response(status(code, reason, **details), status=code)


Answer = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


class FakeCluster:
    """Collections by path, each object with a version, lists, watches and writes."""

    def __init__(self) -> None:
        self.version = 10
        self.objects: dict[str, Obj] = {}
        """By path of the object."""
        self.log: list[tuple[int, str, Obj]] = []
        self.oldest = 0
        """Watches from before this version get 410."""
        self.watchers: dict[asyncio.Queue[bytes | None], str] = {}
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.intercept: Answer | None = None
        """May answer instead."""
        self.silent_watches = False

    # --- what the test does ---------------------------------------------------------------------

    def put(self, value: Obj, *, collection: str = "/api/v1/namespaces/ns/configmaps") -> Obj:
        path = f"{collection}/{value['metadata']['name']}"
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.version += 1
        metadata = {**value["metadata"], "resourceVersion": str(self.version)}
        metadata.setdefault("uid", f"uid-{self.version}")
        value = self.objects[path] = {**value, "metadata": metadata}
        self._tell(kind, path, value)
        return value

    def remove(self, name: str, *, collection: str = "/api/v1/namespaces/ns/configmaps") -> None:
        self._remove(f"{collection}/{name}")

    def _remove(self, path: str) -> Obj:
        value = self.objects.pop(path)
        self.version += 1
        metadata = {**value["metadata"], "resourceVersion": str(self.version)}
        value = {**value, "metadata": metadata}
        self._tell("DELETED", path, value)
        return value

    def bookmark(self) -> None:
        self.version += 1
        value = {"metadata": {"resourceVersion": str(self.version)}}
        for queue in self.watchers:
            queue.put_nowait(_line("BOOKMARK", value))

    def fail_watches(self, error: Obj) -> None:
        for queue in self.watchers:
            queue.put_nowait(_line("ERROR", error))
            queue.put_nowait(None)

    def drop_watches(self) -> None:
        for queue in self.watchers:
            queue.put_nowait(None)

    def forget_history(self) -> None:
        self.version += 1
        self.oldest = self.version

    def queries(self, *, watch: bool) -> list[dict[str, str]]:
        return [q for m, _, q in self.requests if m == "GET" and ("watch" in q) == watch]

    # --- what the server does -------------------------------------------------------------------

    async def serve(self, request: web.Request) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append((request.method, request.path, query))
        if self.intercept is not None:
            answer = await self.intercept(request)
            if answer is not None:
                return answer
        if request.method == "GET" and "watch" in query:
            return await self._watch(request)
        return await self._single(request)

    async def _single(self, request: web.Request) -> web.Response:
        path, method = request.path.removesuffix("/status"), request.method
        known = self.objects.get(path)
        if method == "POST":
            value = await request.json()
            if f"{path}/{value['metadata']['name']}" in self.objects:
                return refusal(409, "AlreadyExists")
            return web.json_response(self.put(value, collection=path), status=201)
        if method == "GET" and path.endswith("s") and known is None:
            items = [o for p, o in self.objects.items() if p.rpartition("/")[0] == path]
            body = {"kind": "List", "metadata": {"resourceVersion": str(self.version)}}
            return web.json_response({**body, "items": items})
        if known is None:
            return refusal(404, "NotFound")
        if method == "GET":
            return web.json_response(known)
        if method == "DELETE":
            self._remove(path)
            return web.json_response({"kind": "Status", "status": "Success"})
        change = await request.json()
        version = change.get("metadata", {}).get("resourceVersion")
        if version and version != known["metadata"]["resourceVersion"]:
            return refusal(409, "Conflict")
        value = change if method == "PUT" else _merge(known, change)
        value["metadata"]["uid"] = known["metadata"]["uid"]
        return web.json_response(self.put(value, collection=path.rpartition("/")[0]))

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        since = int(query.get("resourceVersion") or 0)
        response = web.StreamResponse()
        await response.prepare(request)
        initial = query.get("sendInitialEvents") == "true"
        if since and since < self.oldest and not initial:
            await response.write(_line("ERROR", status(410, "Expired")))
            return response
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.watchers[queue] = request.path
        try:
            for line in self._begin(request.path, since, initial=initial):
                await response.write(line)
            while (line := await queue.get()) is not None:
                if not self.silent_watches:
                    await response.write(line)
        except ConnectionResetError:
            return response
        finally:
            del self.watchers[queue]
        return response

    def _begin(self, path: str, since: int, *, initial: bool) -> list[bytes]:
        if initial:
            mine = [o for p, o in self.objects.items() if p.rpartition("/")[0] == path]
            notes = {"k8s.io/initial-events-end": "true"}
            metadata = {"resourceVersion": str(self.version), "annotations": notes}
            end = _line("BOOKMARK", {"metadata": metadata})
            return [*(_line("ADDED", o) for o in mine), end]
        return [
            line
            for version, where, line in ((v, p, _line(*pair)) for v, p, pair in self._history())
            if version > since and where == path
        ]

    def _history(self) -> list[tuple[int, str, tuple[str, Obj]]]:
        found = []
        for version, kind_and_path, value in self.log:
            kind, _, path = kind_and_path.partition(" ")
            found.append((version, path.rpartition("/")[0], (kind, value)))
        return found

    def _tell(self, kind: str, path: str, value: Obj) -> None:
        self.log.append((self.version, f"{kind} {path}", value))
        for queue, watched in self.watchers.items():
            if watched == path.rpartition("/")[0]:
                queue.put_nowait(_line(kind, value))


def _line(kind: str, value: Obj) -> bytes:
    return orjson.dumps({"type": kind, "object": value}) + b"\n"


def _merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    merged = {key: value for key, value in old.items() if patch.get(key, 0) is not None}
    for key, value in patch.items():
        if value is not None:
            merged[key] = _merge(old.get(key), value)
    return merged


@asynccontextmanager
async def fake_cluster() -> AsyncIterator[tuple[FakeCluster, KubeClient]]:
    cluster = FakeCluster()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.serve)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=0.1)
    url = str(server.make_url("/")).rstrip("/")
    settings = ClientSettings(max_retries=0)
    async with KubeClient(ClusterConfig(server=url), settings=settings) as client:
        try:
            yield cluster, client
        finally:
            await client.close()
            cluster.drop_watches()
            await server.close()
