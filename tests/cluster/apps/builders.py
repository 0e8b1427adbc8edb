"""Objects of the apps group, and what cases ask about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cluster.apps.player import Player
from tests.cluster.objects import Obj, Objects, eventually

APPS = "apps/v1"


def container(version: str) -> Obj:
    """Its arguments have characters in them that JSON may be written with in several ways."""
    image = f"example.test/app:{version}"
    return {"name": "main", "image": image, "args": ["a && b", "<c>", "\u2028"]}


def template(app: str, version: str = "1", **spec: Any) -> Obj:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {
            "containers": [container(version)],
            "terminationGracePeriodSeconds": 5,
            **spec,
        },
    }


def workload(kind: str, name: str, pod: Obj | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": APPS,
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": pod or template(name),
            **spec,
        },
    }


def deployment(name: str = "web", *, replicas: int = 3, **spec: Any) -> Obj:
    return workload("Deployment", name, replicas=replicas, **spec)


def image(version: str) -> Obj:
    """A merge patch that changes the template."""
    return {"spec": {"template": {"spec": {"containers": [container(version)]}}}}


@dataclass
class Apps:
    """One namespace with a player, and shorthands for its objects."""

    objects: Objects
    player: Player

    def create(self, obj: Obj) -> Obj:
        return self.objects.create(obj["kind"].lower() + "s", obj)

    def get(self, plural: str, name: str) -> Obj:
        return self.objects.get("v1" if plural == "pods" else APPS, plural, name)

    def patch(self, plural: str, name: str, patch: Obj, **options: Any) -> Obj:
        return self.objects.patch(
            "v1" if plural in ("pods", "persistentvolumeclaims") else APPS,
            plural, name, patch, **options,
        )  # fmt: skip

    def items(self, plural: str, query: str = "", *, api_version: str = "") -> list[Obj]:
        version = api_version or ("v1" if plural in CORE else APPS)
        reply = self.objects.backend.request("GET", self.objects.path(version, plural) + query)
        assert reply.code == 200, reply.body
        found: list[Obj] = reply.json()["items"]
        return found

    def pods(self, query: str = "") -> list[Obj]:
        return sorted(self.items("pods", query), key=lambda pod: pod["metadata"]["name"])

    def live_pods(self) -> list[Obj]:
        return [pod for pod in self.pods() if not pod["metadata"].get("deletionTimestamp")]

    def sets(self) -> list[Obj]:
        """Replica sets, by revision."""
        return sorted(self.items("replicasets"), key=revision)

    def sizes(self) -> list[int]:
        return [one["spec"]["replicas"] for one in self.sets()]

    def until(
        self, plural: str, name: str, check: Callable[[Obj], Any], *, seconds: float = 30
    ) -> Obj:
        """The object as soon as it is as wanted."""
        last: list[Obj] = []

        def look() -> Obj | None:
            last[:] = [self.get(plural, name)]
            return last[0] if check(last[0]) else None

        try:
            found = eventually(look, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"not in time: {last}") from None
        assert found is not None
        return found

    def status(self, plural: str, name: str, *, seconds: float = 30, **counts: int) -> Obj:
        """Wait until the status is of this generation and has these counts."""

        def check(obj: Obj) -> bool:
            status = obj.get("status") or {}
            seen = status.get("observedGeneration", 0) >= obj["metadata"].get("generation", 0)
            return seen and all(status.get(k, 0) == v for k, v in counts.items())

        return self.until(plural, name, check, seconds=seconds)

    def complete(self, name: str, replicas: int, *, seconds: float = 30) -> Obj:
        """Wait for the end of a deployment's rollout."""
        return self.status(
            "deployments", name, replicas=replicas, updatedReplicas=replicas,
            availableReplicas=replicas, unavailableReplicas=0, seconds=seconds,
        )  # fmt: skip

    def events(self, kind: str, name: str) -> list[tuple[str, str, str]]:
        """(type, reason, message) about an object, by time."""
        selector = f"?fieldSelector=involvedObject.kind={kind},involvedObject.name={name}"
        found = self.items("events", selector)
        found.sort(key=lambda event: int(event["metadata"]["name"].rpartition(".")[2], 16))
        return [(event["type"], event["reason"], event["message"]) for event in found]


CORE = frozenset({"pods", "persistentvolumeclaims", "events"})


def revision(obj: Obj) -> int:
    annotations = obj["metadata"].get("annotations") or {}
    return int(annotations.get("deployment.kubernetes.io/revision", 0))


def condition(obj: Obj, kind: str) -> tuple[str, str]:
    """(status, reason) of a condition."""
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one["type"] == kind:
            return one["status"], one["reason"]
    return "", ""


def names(objs: list[Obj]) -> list[str]:
    return [obj["metadata"]["name"] for obj in objs]
