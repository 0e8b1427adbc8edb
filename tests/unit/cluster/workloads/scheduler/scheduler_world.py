"""A scheduler without a server: what it writes is noted, what it sees is fed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from corral.cluster.scheduler.feed import Feed
from corral.cluster.scheduler.loop import Scheduler, SchedulerSettings
from corral.kube.types import Obj
from corral.runtime import Change

HOST = "kubernetes.io/hostname"


class Recorder:
    """Events as (name, reason, message)."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        self.events.append((obj["metadata"]["name"], reason, message))

    warning = normal

    def said(self, name: str, reason: str) -> list[str]:
        return [text for who, why, text in self.events if (who, why) == (name, reason)]


class Client:
    """Answers every request with what ``answer`` makes of it; notes them all."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Obj]] = []
        """Verb, name, body."""
        self.fail: dict[tuple[str, str], Exception] = {}
        """By verb and name; once each."""
        self.gate: asyncio.Event | None = None
        """While it is there and not set, requests hang."""
        self.after: Callable[[str, str, Obj], Any] = lambda verb, name, body: None

    async def _call(self, verb: str, name: str, body: Obj) -> Any:
        self.calls.append((verb, name, body))
        if self.gate is not None:
            await self.gate.wait()
        error = self.fail.pop((verb, name), None)
        if error is not None:
            raise error
        return self.after(verb, name, body) or {"metadata": {"resourceVersion": "9"}}

    async def create_subresource(self, resource: Any, name: str, **more: Any) -> Any:
        return await self._call("bind", name, more["body"])

    async def patch(self, resource: Any, name: str, **more: Any) -> Any:
        return await self._call("patch", name, more["patch"])

    async def delete(self, resource: Any, name: str, **more: Any) -> Any:
        return await self._call("delete", name, {"uid": more["uid"]})

    async def get(self, resource: Any, name: str, **more: Any) -> Any:
        return await self._call("get", name, {})

    def of(self, verb: str) -> list[tuple[str, Obj]]:
        return [(name, body) for kind, name, body in self.calls if kind == verb]

    def bound(self) -> dict[str, str]:
        return {name: body["target"]["name"] for name, body in self.of("bind")}


class World:
    """The scheduler, fed."""

    def __init__(self, **settings: Any) -> None:
        self.now = 1000.0
        self.client = Client()
        self.recorder = Recorder()
        self.changed_groups: list[tuple[str, str, str]] = []
        client: Any = self.client
        recorder: Any = self.recorder
        self.scheduler = Scheduler(
            client,
            recorder,
            settings=SchedulerSettings(**settings),
            group_changed=self.changed_groups.append,
            clock=lambda: self.now,
            wall=lambda: 1_800_000_000.0,
            rng=Random(0),
        )
        self.feed = Feed(
            self.scheduler.state,
            self.scheduler.queue,
            self.scheduler.gangs,
            scheduler_name=self.scheduler.settings.name,
            wake=self.scheduler.wake,
            leaving=self.scheduler.evictions.leaving,
            gone=self.scheduler.statuses.forget,
            claim_changed=self.scheduler.claims.changed,
        )
        self.objects: dict[str, Obj] = {}
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> World:
        self._task = asyncio.create_task(self.scheduler.run())
        await self.turns()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def turns(self, count: int = 30) -> None:
        """Let what can happen without time happen."""
        for _ in range(count):
            await asyncio.sleep(0)

    def see(self, handler: Callable[[Change], None], obj: Obj, *, gone: bool = False) -> None:
        """A watch event."""
        key = f"{handler.__name__} {obj['metadata'].get('uid', obj['metadata']['name'])}"
        old = self.objects.get(key)
        if gone:
            self.objects.pop(key, None)
            handler(Change("deleted", obj, None))
        else:
            self.objects[key] = obj
            handler(Change("added" if old is None else "updated", old, obj))

    def node(self, name: str, cpu: str = "4", **more: Any) -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        made = {"metadata": {"name": name, "labels": {HOST: name}}, "spec": more}
        self.see(self.feed.node, made | {"status": {"allocatable": amounts}})

    def pod(self, name: str, cpu: str = "1", **more: Any) -> Obj:
        made = make_pod(name, cpu, **more)
        self.see(self.feed.pod, made)
        return made

    def bind(self, pod: Obj, node: str) -> Obj:
        """The watch shows a binding."""
        made = {**pod, "spec": {**pod["spec"], "nodeName": node}}
        self.see(self.feed.pod, made)
        return made


def make_pod(
    name: str,
    cpu: str = "1",
    *,
    on: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    status: Obj | None = None,
    meta: Obj | None = None,
    **spec: Any,
) -> Obj:
    body = {
        "schedulerName": "default-scheduler",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        **spec,
    }
    if on:
        body["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generation": 1,
            "labels": labels or {},
            "annotations": annotations or {},
            **(meta or {}),
        },
        "spec": body,
        "status": status or {},
    }
