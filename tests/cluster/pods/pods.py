"""Making pods on one node, and waiting for what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from tests.backends import Node
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]


def shell(script: str, **more: Any) -> Obj:
    """A container that runs a script."""
    return {"name": "main", "image": "busybox", "command": ["sh", "-c", script], **more}


def python(code: str, **more: Any) -> Obj:
    """A container that runs Python code."""
    return {"name": "main", "image": "python:3.12", "command": ["python", "-c", code], **more}


class NoStatus(AssertionError):
    """The node has not written about the container yet."""


class Pods:
    """Pods of one namespace on one node."""

    def __init__(self, objects: Objects, node: Node) -> None:
        self.objects = objects
        self.node = node

    @property
    def namespace(self) -> str:
        return self.objects.namespace

    def manifest(
        self, name: str, *containers: Obj, metadata: Obj | None = None, **spec: Any
    ) -> Obj:
        """A pod that goes to the node; restartPolicy Never unless said otherwise."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **(metadata or {})},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "nodeSelector": {"kubernetes.io/hostname": self.node.name},
                "containers": list(containers),
                **spec,
            },
        }

    def run(self, name: str, *containers: Obj, metadata: Obj | None = None, **spec: Any) -> Obj:
        """Create a pod; does not wait."""
        return self.objects.create(
            "pods", self.manifest(name, *containers, metadata=metadata, **spec)
        )

    def get(self, name: str) -> Obj:
        return self.objects.get("v1", "pods", name)

    def wait(self, name: str, check: Callable[[Obj], Any], *, seconds: float = 60) -> Obj:
        """The pod, once the check holds."""
        last: list[Obj | None] = [None]

        def good() -> bool:
            last[0] = self.objects.find("v1", "pods", name)
            try:
                return last[0] is not None and bool(check(last[0]))
            except NoStatus:
                return False

        try:
            eventually(good, seconds=seconds)
        except AssertionError:
            raise AssertionError(f"{name} is {last[0]}\n{self.node.log()}") from None
        assert last[0] is not None
        return last[0]

    def phase(self, name: str, phase: str, *, seconds: float = 60) -> Obj:
        return self.wait(name, lambda pod: pod["status"].get("phase") == phase, seconds=seconds)

    def ready(self, name: str, *, seconds: float = 60) -> Obj:
        return self.wait(name, is_ready, seconds=seconds)

    def gone(self, name: str, *, seconds: float = 60) -> None:
        eventually(lambda: self.objects.find("v1", "pods", name) is None, seconds=seconds)

    def log(self, name: str, container: str = "", **query: Any) -> str:
        if container:
            query["container"] = container
        path = f"{self.objects.path('v1', 'pods', name)}/log"
        reply = self.objects.backend.request("GET", f"{path}?{urlencode(query)}")
        assert reply.code == 200, reply.body
        return reply.body.decode()

    def delete(self, name: str, *, grace: int | None = None) -> None:
        query = "" if grace is None else f"?gracePeriodSeconds={grace}"
        reply = self.objects.backend.request(
            "DELETE", self.objects.path("v1", "pods", name) + query
        )
        assert reply.code in (200, 202), reply.body

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reasons and messages, oldest first."""
        path = self.objects.path("v1", "events")
        reply = self.objects.backend.request(
            "GET", f"{path}?fieldSelector=involvedObject.name%3D{name}"
        )
        return [(item["reason"], item["message"]) for item in reply.json()["items"]]

    def output(self, name: str, *containers: Obj, **spec: Any) -> str:
        """Run a pod to its good end; what it wrote."""
        self.run(name, *containers, **spec)
        pod = self.wait(name, lambda p: p["status"].get("phase") in ("Succeeded", "Failed"))
        if pod["status"]["phase"] == "Succeeded":
            return self.log(name)
        reply = self.objects.backend.request("GET", self.objects.path("v1", "pods", name) + "/log")
        raise AssertionError((reply.body.decode(), pod["status"]))


def is_ready(pod: Obj) -> bool:
    return condition(pod, "Ready") == "True"


def condition(pod: Obj, kind: str) -> str:
    found = [c for c in pod["status"].get("conditions") or () if c["type"] == kind]
    return str(found[0]["status"]) if found else ""


def container(pod: Obj, name: str = "main") -> Obj:
    """The status of a container, init containers included."""
    status = pod["status"]
    for kind in ("containerStatuses", "initContainerStatuses"):
        for found in status.get(kind) or ():
            if found["name"] == name:
                return dict(found)
    raise NoStatus(f"no status of {name} in {status}")


def terminated(pod: Obj, name: str = "main") -> Obj:
    """How a container ended."""
    return dict(container(pod, name)["state"]["terminated"])
