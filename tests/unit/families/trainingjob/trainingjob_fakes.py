"""An API server of dicts, for what the controllers ask of a client, and a job."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.objects.resources import ResourceController
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.discovery import ApiResource, Discovery
from corral.kube.resources import PODS, Resource
from corral.kube.types import Obj
from corral.runtime import EventRecorder, Manager

Key = tuple[str, str]


def make_job(name: str = "mnist", *, uid: str = "u-1", **spec: Any) -> Obj:
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "team-a", "uid": uid},
        "spec": {"replicas": 4, "image": "train", **spec},
    }


class FakeApi:
    """Keeps objects, and what was asked of it."""

    def __init__(self) -> None:
        self.objects: dict[Resource, dict[Key, Obj]] = {}
        self.requests: list[tuple[str, str, str]] = []
        """Verb, kind and name."""
        self.served: list[ApiResource] = []
        self.refuse: Callable[[str, Resource, Obj], errors.ApiError | None] = lambda *_: None
        self._version = itertools.count(1)

    def put(self, resource: Resource, obj: Obj) -> Obj:
        stored = deepcopy(obj)
        metadata = stored["metadata"]
        metadata["resourceVersion"] = str(next(self._version))
        metadata.setdefault("uid", f"uid-{metadata['resourceVersion']}")
        self.objects.setdefault(resource, {})[metadata["namespace"], metadata["name"]] = stored
        return deepcopy(stored)

    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.requests]

    def _begin(self, verb: str, resource: Resource, name: str, body: Obj | None = None) -> None:
        self.requests.append((verb, resource.kind, name))
        error = self.refuse(verb, resource, body or {})
        if error is not None:
            raise error

    async def discover(self, *, refresh: bool = False) -> Discovery:
        self.requests.append(("discover", "", ""))
        return Discovery(self.served)

    async def get(self, resource: Resource, name: str, *, namespace: str) -> Obj:
        self._begin("get", resource, name)
        found = self.objects.get(resource, {}).get((namespace, name))
        if found is None:
            raise errors.NotFound(name)
        return deepcopy(found)

    async def create(self, resource: Resource, obj: Obj, *, field_manager: str) -> Obj:
        metadata = obj["metadata"]
        self._begin("create", resource, metadata["name"], obj)
        if (metadata["namespace"], metadata["name"]) in self.objects.get(resource, {}):
            raise errors.AlreadyExists(metadata["name"])
        entry = {"manager": field_manager, "operation": "Update"}
        return self.put(resource, {**obj, "metadata": {**metadata, "managedFields": [entry]}})

    async def apply(self, resource: Resource, obj: Obj, *, field_manager: str, force: bool) -> Obj:
        metadata = obj["metadata"]
        self._begin("apply", resource, metadata["name"], obj)
        before = self.objects[resource][metadata["namespace"], metadata["name"]]
        kept = {key: before["metadata"][key] for key in ("uid", "managedFields")}
        return self.put(resource, {**obj, "metadata": {**metadata, **kept}})

    async def patch(self, resource: Resource, name: str, *, patch: Obj, **more: Any) -> Obj:
        self._begin("patch", resource, name, patch)
        obj = deepcopy(self.objects[resource][more["namespace"], name])
        if patch["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            raise errors.Conflict(name)
        obj["metadata"] |= patch["metadata"]
        return self.put(resource, obj)

    async def delete(self, resource: Resource, name: str, **more: Any) -> Obj:
        self._begin("delete", resource, name)
        found = self.objects.get(resource, {}).get((more["namespace"], name))
        if found is None:
            raise errors.NotFound(name)
        if found["metadata"]["uid"] != more["uid"]:
            raise errors.Conflict(name)
        if resource == PODS and more["grace_seconds"] != 0:
            found["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": 30}
            return self.put(resource, found)
        del self.objects[resource][more["namespace"], name]
        return {"kind": "Status"}


class FakeRecorder:
    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        self.events.append((reason, message))

    warning = normal


class Rig:
    """A ResourceController, and informers that see what the API has when told to."""

    def __init__(self, settings: TrainingSettings | None = None) -> None:
        self.api = FakeApi()
        self.recorder = FakeRecorder()
        self.manager = Manager(cast(KubeClient, self.api))
        self.caches = Caches(self.manager)
        self.controller = ResourceController(
            self.manager,
            settings or TrainingSettings(),
            recorder=cast(EventRecorder, self.recorder),
            caches=self.caches,
        )

    def sync(self) -> None:
        """Let the caches see everything, and forget the requests."""
        informers = {PODS: self.caches.pods, **self.caches.children}
        for resource, informer in informers.items():
            informer.replaced(deepcopy(list(self.api.objects.get(resource, {}).values())), "1")
        self.api.requests.clear()
