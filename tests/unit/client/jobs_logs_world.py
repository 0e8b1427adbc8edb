"""A cluster of one job whose pods write logs, with connections that are cut wherever a case likes.

It serves what a kubelet and an API server serve: lines from a second on, with times to the
nanosecond, of the present attempt of a container and the one before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson
from aiohttp import web
from jobs_fake_api import answer, listed, mpijob, refuse, serving

from corral.client import Jobs, LogChunk, LogQuery
from corral.kube.podstreams.logs import LOG_COMPLETE_HEADER

Obj = dict[str, Any]
Cut = tuple[int, Literal["abort", "end"]]
"""After how many bytes a log breaks off, and how: as a broken body, or as if that were all."""


@dataclass
class Attempt:
    """One run of a container."""

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    ended: bool = False


@dataclass
class World:
    """State, and everybody who waits for it to change."""

    cut: Callable[[str], Cut | None] = lambda uid: None
    """What becomes of an answer with a log of this pod."""
    complete: bool = False
    """Whether the server says that it never ends a log in order that was cut off."""
    pods: dict[str, Obj] = field(default_factory=dict)
    logs: dict[str, dict[str, list[Attempt]]] = field(default_factory=dict)
    """uid → container → attempts."""
    now: int = 0
    """Nanoseconds since the minute."""
    job: Obj = field(default_factory=lambda: mpijob("pi"))
    requests: list[dict[str, str]] = field(default_factory=list)
    """The queries of all requests for logs."""
    lost: dict[str, int] = field(default_factory=dict)
    """Pod → how many requests for its log still fail because its node is away."""
    sent: int = 0
    """Bytes of logs written to sockets."""
    chunk: int = 1 << 16

    def __post_init__(self) -> None:
        self._history: list[tuple[str, str, Obj]] = []
        self._changed = asyncio.Event()

    # -- what happens -----------------------------------------------------------------------------

    def change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def tell(self, plural: str, kind: str, obj: Obj) -> None:
        version = str(len(self._history) + 2)
        copy = orjson.loads(orjson.dumps(obj))
        copy["metadata"]["resourceVersion"] = version
        self._history.append((plural, kind, copy))
        self.change()

    def add_pod(self, name: str, *containers: str, uid: str = "", created: str = "") -> Obj:
        """A pod whose containers run."""
        names = containers or ("main",)
        uid = uid or f"uid-{name}"
        role = "worker" if "worker" in name else "launcher"
        pod: Obj = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "ns", "uid": uid,
                "creationTimestamp": created or "2020-01-01T00:00:00Z",
                "labels": {"training.kubeflow.org/job-role": role},
            },
            "spec": {"restartPolicy": "OnFailure", "containers": [{"name": n} for n in names]},
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {"name": n, "restartCount": 0, "state": {"running": {}}} for n in names
                ],
            },
        }  # fmt: skip
        self.pods[name] = pod
        self.logs[uid] = {n: [Attempt()] for n in names}
        self.tell("pods", "ADDED", pod)
        return pod

    def write(self, pod: str, *texts: str, container: str = "main", step: int = 0) -> None:
        """Lines of the present attempt, each ``step`` nanoseconds after the one before."""
        attempt = self.attempts(pod, container)[-1]
        for text in texts:
            self.now += step
            attempt.lines.append((self.now, text.encode()))
        self.change()

    def attempts(self, pod: str, container: str = "main") -> list[Attempt]:
        return self.logs[self.pods[pod]["metadata"]["uid"]][container]

    def text(self, pod: str, container: str = "main") -> bytes:
        """Everything that was ever written."""
        attempts = self.attempts(pod, container)
        return b"".join(text + b"\n" for one in attempts for _, text in one.lines)

    def restart(self, pod: str, container: str = "main") -> None:
        """The container fails and is started again."""
        self.now += 1
        attempts = self.attempts(pod, container)
        attempts[-1].ended = True
        attempts.append(Attempt())
        status = self._status(pod, container)
        status["restartCount"] += 1
        status["state"], status["lastState"] = {"running": {}}, {"terminated": {"exitCode": 1}}
        self.tell("pods", "MODIFIED", self.pods[pod])

    def end(self, pod: str) -> None:
        """All containers end well."""
        for name in self.logs[self.pods[pod]["metadata"]["uid"]]:
            self.attempts(pod, name)[-1].ended = True
            self._status(pod, name)["state"] = {"terminated": {"exitCode": 0}}
        self.pods[pod]["status"]["phase"] = "Succeeded"
        self.tell("pods", "MODIFIED", self.pods[pod])

    def delete(self, pod: str) -> None:
        for name in self.logs[self.pods[pod]["metadata"]["uid"]]:
            self.attempts(pod, name)[-1].ended = True
        self.tell("pods", "DELETED", self.pods.pop(pod))

    def finish(self) -> None:
        """The job succeeds."""
        self.job["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        self.tell("mpijobs", "MODIFIED", self.job)

    def _status(self, pod: str, container: str) -> Obj:
        every: list[Obj] = self.pods[pod]["status"]["containerStatuses"]
        return next(status for status in every if status["name"] == container)

    # -- what is served ---------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Jobs]:
        async with serving(self._handle) as client:
            yield Jobs(client)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if parts[-1] == "log":
            return await self._log(request, parts[-2])
        plural = "pods" if "pods" in parts else "mpijobs"
        if request.query.get("watch"):
            return await self._watch(request, plural)
        if parts[-1] == plural:
            version = str(len(self._history) + 1)
            items = list(self.pods.values()) if plural == "pods" else [self.job]
            return answer(listed(version, *items))
        found = self.pods.get(parts[-1]) if plural == "pods" else self.job
        if found is None or found["metadata"]["name"] != parts[-1]:
            return refuse(404, "NotFound", name=parts[-1], kind=plural)
        return answer(found)

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        at = int(request.query["resourceVersion"]) - 1
        while True:
            changed = self._changed
            for of, kind, obj in self._history[at:]:
                if of == plural:
                    event = orjson.dumps({"type": kind, "object": obj})
                    await response.write(event + b"\n")
            at = len(self._history)
            await changed.wait()

    async def _log(self, request: web.Request, name: str) -> web.StreamResponse:
        query = dict(request.query)
        self.requests.append(query)
        pod = self.pods.get(name)
        if pod is None:
            return refuse(404, "NotFound", name=name, kind="pods")
        if self.lost.get(name, 0) > 0:
            self.lost[name] -= 1
            return refuse(500, "InternalError", "dial tcp: connection refused")
        attempts = self.attempts(name, query["container"])
        previous = query.get("previous") == "true"
        if previous and len(attempts) < 2:
            return refuse(400, "BadRequest", "previous terminated container not found")
        attempt = attempts[-2 if previous else -1]
        response = web.StreamResponse(
            headers={LOG_COMPLETE_HEADER: "true"} if self.complete else {}
        )
        await response.prepare(request)
        limit = self.cut(pod["metadata"]["uid"])
        left, how = limit or (1 << 60, "end")
        at = 0
        while True:
            changed = self._changed
            ended = attempt.ended or query.get("follow") != "true"
            data = _shown(attempt, query, at)
            at = len(attempt.lines)
            for start in range(0, len(data), self.chunk):
                piece = data[start : start + self.chunk][:left]
                await response.write(piece)
                self.sent += len(piece)
                left -= len(piece)
                if not left:
                    break
            if not left and how == "abort":
                assert request.transport is not None
                request.transport.close()
                return response
            if ended or not left:
                return response
            await changed.wait()


def stamp(nanos: int) -> bytes:
    seconds, rest = divmod(nanos, 10**9)
    return b"2026-01-02T03:%02d:%02d.%09dZ" % (4 + seconds // 60, seconds % 60, rest)


def _shown(attempt: Attempt, query: dict[str, str], at: int) -> bytes:
    rows = attempt.lines[at:]
    if at == 0 and "tailLines" in query:
        count = int(query["tailLines"])
        rows = rows[-count:] if count else []
    since = query.get("sinceTime", "")[:19].encode()
    lines = [b"%b %b\n" % (stamp(when), text) for when, text in rows]
    data = b"".join(line for line in lines if line[:19] >= since)
    return data[: int(query["limitBytes"])] if "limitBytes" in query else data


class Taker:
    """Takes chunks, and lets others wait for what has come."""

    def __init__(self) -> None:
        self.got: list[LogChunk] = []
        self._more = asyncio.Event()

    def take(self, chunk: LogChunk) -> None:
        self.got.append(chunk)
        self._more.set()

    async def follow(self, jobs: Jobs) -> None:
        async for chunk in jobs.logs("mpijobs", "ns", "pi", LogQuery(follow=True)):
            self.take(chunk)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Until it holds; looked at whenever something has come."""
        async with asyncio.timeout(60):
            while not condition():
                self._more.clear()
                await self._more.wait()

    @property
    def texts(self) -> dict[str, bytes]:
        """Everything, by pod."""
        out: dict[str, bytes] = {}
        for chunk in self.got:
            out[chunk.pod] = out.get(chunk.pod, b"") + chunk.data
        return out

    def has(self, text: bytes) -> bool:
        return any(text in chunk.data for chunk in self.got)
