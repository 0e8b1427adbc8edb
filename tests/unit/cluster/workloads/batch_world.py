"""A server in memory for the batch controllers, with caches that lag and writes that are cut off.

Changes reach the caches only through `deliver`. `before` is asked before every write and may raise
what a server or a dying process would.
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from corral.kube import errors
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.kube.watch import WatchEvent
from corral.runtime import Controller, Informer, Manager, Scope, key_of, version_of

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


def stamp(seconds: float = 0) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class LaggingInformer(Informer):
    """Its version is that of the last change it was told of."""

    seen = "1"

    @property
    def version(self) -> str:
        return self.seen


class WorldManager(Manager):
    """A manager that is never run: the tests call reconcilers themselves."""

    def __init__(self, world: World) -> None:
        super().__init__(world)  # type: ignore[arg-type]
        self._world = world
        self.informers: dict[str, LaggingInformer] = {}
        self.made: dict[str, Controller] = {}

    def informer(self, resource: Resource, *args: Any, **kwargs: Any) -> LaggingInformer:
        known = self.informers.get(resource.plural)
        if known is None:
            known = LaggingInformer(self.client, Scope(resource))
            known.replaced(self._world.stored(resource), "")
            known.seen = str(self._world.version)
            self.informers[resource.plural] = known
        return known

    def add(self, controller: Controller) -> None:
        self.made[controller.name] = controller

    def recorder(self, component: str, *, host: str = "") -> Any:
        return self._world


class World:
    """The server, its client and its recorder in one."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Obj] = {}
        self.version = 100
        self.said: list[str] = []
        self.writes: list[str] = []
        self.before: Callable[[str, Obj], None] = lambda what, obj: None
        self.after: Callable[[str, Obj], None] = lambda what, obj: None
        self.reads: list[str] = []
        self._backlog: deque[tuple[str, WatchEvent]] = deque()
        self.manager = WorldManager(self)

    # --- caches --------------------------------------------------------------------------------

    def restart(self) -> None:
        """A new process: caches are listed anew and memories are gone."""
        self._backlog.clear()
        self.manager = WorldManager(self)

    def deliver(self, plural: str = "") -> None:
        """Let the caches (or one of them) hear of everything."""
        kept: deque[tuple[str, WatchEvent]] = deque()
        while self._backlog:
            name, event = self._backlog.popleft()
            informer = self.manager.informers.get(name)
            if plural not in ("", name):
                kept.append((name, event))
            elif informer is not None:
                informer.changed(event)
                informer.seen = version_of(event.object)
        self._backlog = kept

    def stored(self, resource: Resource) -> list[Obj]:
        return [copy.deepcopy(o) for (p, _), o in self.objects.items() if p == resource.plural]

    # --- recorder ------------------------------------------------------------------------------

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        self.said.append(f"{reason}: {message}")

    warning = normal

    # --- storage -------------------------------------------------------------------------------

    def put(self, resource: Resource, obj: Obj) -> Obj:
        self.version += 1
        meta = {"uid": f"u{self.version}", "namespace": "ns", **copy.deepcopy(obj["metadata"])}
        meta.setdefault("creationTimestamp", stamp())
        meta.setdefault("name", f"{meta.get('generateName')}{self.version}")
        meta["resourceVersion"] = str(self.version)
        stored = {"apiVersion": resource.api_version, "kind": resource.kind}
        stored |= {**copy.deepcopy(obj), "metadata": meta}
        place = (resource.plural, key_of(stored))
        kind: Any = "MODIFIED" if place in self.objects else "ADDED"
        self.objects[place] = stored
        if meta.get("deletionTimestamp") and not meta.get("finalizers"):
            kind = "DELETED"
            del self.objects[place]
        self._backlog.append((resource.plural, WatchEvent(kind, copy.deepcopy(stored))))
        return copy.deepcopy(stored)

    def find(self, resource: Resource, name: str) -> Obj:
        found = self.objects.get((resource.plural, f"ns/{name}"))
        if found is None:
            raise errors.NotFound(f'{resource.qualified} "{name}" not found')
        return copy.deepcopy(found)

    async def _write(self, what: str, resource: Resource, obj: Obj) -> Obj:
        await asyncio.sleep(0)
        self.before(what, obj)
        self.writes.append(what)
        stored = self.put(resource, obj)
        self.after(what, stored)
        return stored

    # --- client --------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, *, namespace: str) -> Obj:
        self.reads.append(f"{resource.plural}/{name}")
        return self.find(resource, name)

    async def list_all(
        self, resource: Resource, namespace: str, *, label_selector: str = ""
    ) -> Obj:
        self.reads.append(resource.plural)
        return {"items": self.stored(resource)}

    async def create(self, resource: Resource, obj: Obj, *, field_manager: str = "") -> Obj:
        name = obj["metadata"].get("name")
        if name and (resource.plural, f"ns/{name}") in self.objects:
            raise errors.AlreadyExists(f'{resource.qualified} "{name}" already exists')
        body = {"status": {"phase": "Pending"}, **obj} if resource.kind == "Pod" else obj
        return await self._write(f"create {resource.plural}", resource, body)

    async def replace(
        self, resource: Resource, obj: Obj, *, subresource: str = "", field_manager: str = ""
    ) -> Obj:
        old = self.find(resource, obj["metadata"]["name"])
        if version_of(old) != version_of(obj):
            raise errors.Conflict("the object has been modified")
        what = f"replace {resource.plural} {subresource}".strip()
        return await self._write(what, resource, {**old, "status": obj["status"]})

    async def patch(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str,
        patch: Obj,
        kind: str = "merge",
        subresource: str = "",
        field_manager: str = "",
    ) -> Obj:
        old = self.find(resource, name)
        meta, change = old["metadata"], patch.get("metadata", {})
        if change.get("uid", meta["uid"]) != meta["uid"]:
            raise errors.Conflict("another uid")
        gone = change.get("$deleteFromPrimitiveList/finalizers", [])
        finalizers = [*meta.get("finalizers", []), *change.get("finalizers", [])]
        meta["finalizers"] = [f for f in finalizers if f not in gone]
        owners = change.get("ownerReferences")
        if owners is not None:
            meta["ownerReferences"] = [o for o in owners if "$patch" not in o]
        return await self._write(f"patch {resource.plural}", resource, old)

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str,
        uid: str = "",
        propagation: str | None = None,
    ) -> Obj:
        old = self.find(resource, name)
        if uid and uid != old["metadata"]["uid"]:
            raise errors.Conflict("another uid")
        old["metadata"]["deletionTimestamp"] = stamp()
        how = f" {propagation}" if propagation else ""
        return await self._write(f"delete {resource.plural}{how}", resource, old)
