"""An API server in memory for controllers of workloads: objects, refusals, caches that lag."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from corral.kube import errors
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.kube.watch import WatchEvent
from corral.runtime import Informer, Manager, key_of

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
Refusal = Callable[[str, Resource, Obj], Exception | None]


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def going(name: str = "ns") -> errors.Forbidden:
    """What a namespace that is being deleted says to a creation."""
    causes = [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]
    return errors.Forbidden(f"namespace {name} is being terminated", details={"causes": causes})


def merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    found = {**old, **{k: merged(old.get(k), v) for k, v in patch.items()}}
    return {k: v for k, v in found.items() if v is not None}


def as_read(obj: Obj) -> Obj:
    """What comes out at the other end of the wire."""
    found: Obj = orjson.loads(orjson.dumps(obj))
    return found


class FakeClient:
    """The methods of `KubeClient` that the controllers call."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Obj:
        return self._world.find(resource, f"{namespace}/{name}")

    async def create(self, resource: Resource, obj: Obj, *, field_manager: str = "") -> Obj:
        return await self._world.write("create", resource, as_read(obj))

    async def replace(self, resource: Resource, obj: Obj, *, subresource: str = "",
                      field_manager: str = "") -> Obj:  # fmt: skip
        verb = f"replace {subresource}".strip()
        return await self._world.write(verb, resource, as_read(obj))

    async def patch(self, resource: Resource, name: str, *, namespace: str | None = None,
                    patch: Obj, kind: str = "merge", subresource: str = "",
                    field_manager: str = "") -> Obj:  # fmt: skip
        old = self._world.find(resource, f"{namespace}/{name}")
        if patch.get("metadata", {}).get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise errors.Conflict("another uid")
        owners = patch.get("metadata", {}).get("ownerReferences") or ()
        if any("$patch" in one for one in owners):
            patch = merged(patch, {"metadata": {"ownerReferences": None}})
            old = merged(old, {"metadata": {"ownerReferences": None}})
        verb = f"patch {subresource}".strip()
        return await self._world.write(verb, resource, merged(old, patch))

    async def delete(self, resource: Resource, name: str, *, namespace: str | None = None,
                     uid: str = "") -> Obj:  # fmt: skip
        return await self._world.remove(resource, f"{namespace}/{name}", uid)


class FakeRecorder:
    """Keeps what is said."""

    def __init__(self, said: list[tuple[str, str]]) -> None:
        self._said = said

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        self._said.append((reason, message))

    warning = normal


class FakeManager(Manager):
    """A manager that is never run."""

    def __init__(self, world: World) -> None:
        super().__init__(FakeClient(world))  # type: ignore[arg-type]
        self._world = world

    def recorder(self, component: str, *, host: str = "") -> Any:
        return FakeRecorder(self._world.said)


class World:
    """What is stored, what was asked for, and what the caches know of it."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Obj] = {}
        self.calls: list[str] = []
        """Verb, plural and name of every write."""
        self.said: list[tuple[str, str]] = []
        self.refuse: Refusal = lambda verb, resource, obj: None
        self.lagging = False
        """Whether caches hear of nothing."""
        self.most_at_once: list[int] = []
        self._version = 100
        self._running = 0
        self.manager = FakeManager(self)

    def informer(self, resource: Resource) -> Informer:
        return self.manager.informer(resource)

    def put(self, resource: Resource, obj: Obj) -> Obj:
        """Store something, and let the caches know."""
        self._version += 1
        meta = {
            "uid": f"uid-{self._version}",
            "creationTimestamp": ago(100),
            **obj["metadata"],
            "resourceVersion": str(self._version),
        }
        if "name" not in meta:
            meta["name"] = f"{meta['generateName']}{self._version}"
        stored = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        stored["metadata"] = meta
        key = key_of(stored)
        known = (resource.plural, key) in self.objects
        self.objects[resource.plural, key] = stored
        self._tell("MODIFIED" if known else "ADDED", resource, stored)
        return stored

    def _tell(self, kind: Any, resource: Resource, obj: Obj) -> None:
        if not self.lagging:
            self.informer(resource).changed(WatchEvent(kind, copy.deepcopy(obj)))

    def find(self, resource: Resource, key: str) -> Obj:
        found = self.objects.get((resource.plural, key))
        if found is None:
            raise errors.NotFound(f'{resource.qualified} "{key}" not found')
        return found

    def all(self, resource: Resource) -> list[Obj]:
        return [obj for (plural, _), obj in self.objects.items() if plural == resource.plural]

    async def write(self, verb: str, resource: Resource, obj: Obj) -> Obj:
        self._running += 1
        self.most_at_once.append(self._running)
        await asyncio.sleep(0)
        self._running -= 1
        meta = obj["metadata"]
        name = meta.get("name") or meta["generateName"]
        self.calls.append(f"{verb} {resource.plural} {name}")
        failure = self.refuse(verb, resource, obj)
        if failure is not None:
            raise failure
        known = self.objects.get((resource.plural, f"{meta.get('namespace')}/{name}"))
        if verb == "create" and known is not None:
            raise errors.AlreadyExists(f'{resource.qualified} "{name}" already exists')
        if verb.startswith("replace"):
            if known is None:
                raise errors.NotFound(f'{resource.qualified} "{name}" not found')
            if meta.get("resourceVersion") != known["metadata"]["resourceVersion"]:
                raise errors.Conflict("the object has been modified")
        return self.put(resource, obj)

    async def remove(self, resource: Resource, key: str, uid: str) -> Obj:
        found = self.find(resource, key)
        self.calls.append(f"delete {resource.plural} {found['metadata']['name']}")
        failure = self.refuse("delete", resource, found)
        if failure is not None:
            raise failure
        if uid and uid != found["metadata"]["uid"]:
            raise errors.Conflict("another uid")
        self.drop(resource, key)
        return {"kind": "Status"}

    def drop(self, resource: Resource, key: str) -> None:
        """Something is gone."""
        found = self.objects.pop((resource.plural, key))
        self._tell("DELETED", resource, found)


def owned_by(owner: Obj) -> list[Obj]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
    ]


def pod(name: str, *, owner: Obj | None = None, ready: bool = True, **labels: str) -> Obj:
    meta: Obj = {"name": name, "namespace": "ns", "labels": labels or {"app": "web"}}
    if owner is not None:
        meta["ownerReferences"] = owned_by(owner)
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": ago(1)}]
    status = {"phase": "Running", "conditions": conditions if ready else []}
    return {"metadata": meta, "spec": {"nodeName": "n"}, "status": status}


def workload(name: str = "web", **spec: Any) -> Obj:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}}
    return {
        "metadata": {"name": name, "namespace": "ns", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }
