"""A family at work on a real server, one look at a time; its process may die after any write."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from corral.api.kind import Kind
from corral.kube import KubeClient
from corral.kube.errors import Conflict
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime import Manager, NotYetConsistent, join_key
from corral.runtime.events.recorder import EventRecorder
from corral.runtime.family.declaration import Family
from corral.runtime.family.reconciler import FamilyReconciler
from corral.runtime.owners import is_controlled_by

Write = tuple[str, str, str]
LOOKS = 20
AT_ONCE = 0.5
"""Seconds: who wants to look again so soon has not come to rest."""


class Crash(Exception):
    """The process has died; what it wrote last was written."""


class Client(KubeClient):
    """Notes what is written, and dies after so many writes."""

    writes: list[Write]
    budget: int | None = None

    async def _noted(self, write: Write, work: Awaitable[Obj]) -> Obj:
        if self.budget is not None and len(self.writes) >= self.budget:
            raise Crash
        answer = await work
        self.writes.append(write)
        if self.budget is not None and len(self.writes) >= self.budget:
            raise Crash
        return answer

    async def create(self, resource: Resource, obj: Obj, **more: Any) -> Obj:
        name = obj["metadata"]["name"]
        work = super().create(resource, obj, **more)
        return await self._noted(("create", resource.kind, name), work)

    async def patch(self, resource: Resource, name: str, **more: Any) -> Obj:
        verb = more.get("subresource") or more.get("kind") or "patch"
        return await self._noted((verb, resource.kind, name), super().patch(resource, name, **more))

    async def delete(self, resource: Resource, name: str, **more: Any) -> Obj:
        work = super().delete(resource, name, **more)
        return await self._noted(("delete", resource.kind, name), work)


class _Recorder(EventRecorder):
    """Keeps events instead of writing them."""

    events: list[tuple[str, str]]

    def record(self, obj: Obj, type: Any, *, reason: str, message: str, **more: Any) -> None:
        self.events.append((type, reason))


class _Manager(Manager):
    def recorder(self, component: str, *, host: str = "") -> EventRecorder:
        recorder = _Recorder(self.client, component)
        recorder.events = []
        return recorder


class Process:
    """One operator process with one family."""

    def __init__(self, client: Client, story: Story) -> None:
        self.client = client
        self._manager = _Manager(client)
        self.reconciler = FamilyReconciler(self._manager, story.make(self._manager))

    @property
    def family(self) -> Family[Any, Any]:
        return self.reconciler.family

    @property
    def events(self) -> list[tuple[str, str]]:
        recorder = self.reconciler._recorder
        assert isinstance(recorder, _Recorder)
        return recorder.events

    async def sync(self, namespace: str) -> None:
        """Let every cache see what there is."""
        for informer in list(self._manager._informers.values()):
            scope = informer.scope
            found = await self.client.list_all(
                scope.resource, namespace, label_selector=scope.label_selector
            )
            informer.replaced(found["items"], found["metadata"]["resourceVersion"])

    async def look(self, namespace: str, name: str, *, fresh: bool = True) -> float | None:
        """One look; after how many seconds it wants another."""
        if fresh:
            await self.sync(namespace)
        result = await self.reconciler.reconcile(join_key(namespace, name))
        return result.requeue_after if result is not None else None

    async def settle(self, namespace: str, name: str) -> list[Write]:
        """Look until nothing is written any more; what was."""
        first = len(self.client.writes)
        for _ in range(LOOKS):
            before = len(self.client.writes)
            try:
                again = await self.look(namespace, name)
            except (NotYetConsistent, Conflict):
                continue
            if len(self.client.writes) == before and (again is None or again > AT_ONCE):
                return self.client.writes[first:]
        raise AssertionError(f"does not come to rest: {self.client.writes[first:]}")


Make = Callable[[Manager], Family[Any, Any]]
Step = Callable[["Scene"], Awaitable[None]]


@dataclass(frozen=True)
class Story:
    """A family, an object of it, and what others do meanwhile."""

    name: str
    kind: type[Kind]
    make: Make
    obj: str
    """The name of the object."""
    steps: tuple[Step, ...]
    children: tuple[Resource, ...] = ()
    """Kinds of which the family makes objects."""

    def __str__(self) -> str:
        return self.name


@dataclass
class Scene:
    """A story in a namespace."""

    story: Story
    client: KubeClient
    namespace: str
    made: list[Resource] = field(default_factory=list)

    @property
    def resource(self) -> Resource:
        return self.story.kind.resource()

    async def create(self, resource: Resource, name: str, spec: Obj, **more: Any) -> Obj:
        """An object, with the status that others give it."""
        status = more.pop("status", None)
        metadata = {"name": name, "namespace": self.namespace, **more.pop("metadata", {})}
        made = await self.client.create(resource, {"metadata": metadata, "spec": spec, **more})
        return await self.report(resource, name, status) if status is not None else made

    async def report(self, resource: Resource, name: str, status: Obj) -> Obj:
        """Somebody else writes a status."""
        return await self.client.patch(
            resource,
            name,
            namespace=self.namespace,
            patch={"status": status},
            subresource="status",
        )

    async def own(self) -> Obj:
        obj = await self.client.get(self.resource, self.story.obj, namespace=self.namespace)
        return self.resource.stamp(obj)

    async def children(self) -> list[tuple[str, str]]:
        """What the object controls: kinds and names."""
        owner, out = await self.own(), []
        for resource in self.story.children:
            found = await self.client.list_all(resource, self.namespace)
            out += [
                (resource.kind, child["metadata"]["name"])
                for child in found["items"]
                if is_controlled_by(child, owner)
            ]
        return sorted(out)

    async def outcome(self) -> Any:
        """What the story has come to, wherever and whenever it was played."""
        return self._plain((await self.own()).get("status")), await self.children()

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if not k.endswith("Time") and k != "uid"}
            return {key: self._plain(item) for key, item in kept.items()}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        return value.replace(self.namespace, "HERE") if isinstance(value, str) else value


def now() -> float:
    return float(int(time.time()))
