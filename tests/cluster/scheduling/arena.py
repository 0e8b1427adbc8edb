"""Hand-made nodes without kubelets, and pods for them."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.backends import Backend
from tests.cluster.objects import Obj, Objects, eventually

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
VOLCANO, COSCHEDULING = "scheduling.volcano.sh", "scheduling.x-k8s.io"
VERSIONS = {VOLCANO: "v1beta1", COSCHEDULING: "v1alpha1"}
OURS = "corral-scheduler"
"""The name under which our scheduler runs beside another."""
IMAGE = "registry.k8s.io/pause:3.10"


class Arena:
    """The nodes, classes and pods of one case."""

    def __init__(self, cluster: Objects, objects: Objects, unique: str) -> None:
        self.cluster = cluster
        self.objects = objects
        self.namespace = objects.namespace
        self.unique = unique
        self.scheduler = "default-scheduler"
        """The name in the pods' specs."""
        self._made: list[tuple[str, str, str]] = []

    # --- making things -------------------------------------------------------------------------

    def node(
        self,
        name: str,
        *,
        cpu: str = "4",
        memory: str = "8Gi",
        pods: int = 110,
        labels: dict[str, str] | None = None,
        taints: list[Obj] | None = None,
        unschedulable: bool = False,
        extended: dict[str, str] | None = None,
    ) -> str:
        """A node that is ready; its name."""
        name = f"{name}-{self.unique}"
        amounts = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extended or {})}
        spec: Obj = {"unschedulable": True} if unschedulable else {}
        made = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {HOST: name, **(labels or {})}},
            # Tainted until it has all it should have: half a node must attract nobody.
            "spec": {**spec, "taints": [{"key": "arena/not-yet", "effect": "NoSchedule"}]},
        }
        self.create("nodes", made)
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "made by hand",
        }
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [ready]}
        self.cluster.patch("v1", "nodes", name, {"status": status}, subresource="status")
        self.cluster.patch("v1", "nodes", name, {"spec": {"taints": taints or None}})
        return name

    def create(self, plural: str, obj: Obj) -> Obj:
        """A cluster-scoped object that goes with the case."""
        created = self.cluster.create(plural, obj)
        self._made.append((obj["apiVersion"], plural, obj["metadata"]["name"]))
        return created

    def priority(self, name: str, value: int, **more: Any) -> str:
        name = f"{name}-{self.unique}"
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        self.create("priorityclasses", {**made, "metadata": {"name": name}, **more})
        return name

    def pod(
        self,
        name: str,
        requests: dict[str, str] | None = None,
        *,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        ports: list[Obj] | None = None,
        **spec: Any,
    ) -> str:
        container: Obj = {"name": "main", "image": IMAGE, "resources": {"requests": requests or {}}}
        if ports:
            container["ports"] = ports
        meta = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
        body = {
            "schedulerName": self.scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [container],
            **spec,
        }
        self.objects.create(
            "pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}
        )
        return name

    def claim(self, name: str, storage_class: str | None, size: str = "1Gi", **spec: Any) -> str:
        body: Obj = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage_class,
            **spec,
        }
        kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        made = {**kind, "metadata": {"name": name}, "spec": body}
        self.objects.create("persistentvolumeclaims", made)
        return name

    def group(self, name: str, family: str, minimum: int, **spec: Any) -> str:
        """A PodGroup of one of the two kinds."""
        version = VERSIONS[family]
        made = {"apiVersion": f"{family}/{version}", "kind": "PodGroup"}
        body = {"minMember": minimum, **spec}
        self.objects.create("podgroups", {**made, "metadata": {"name": name}, "spec": body})
        return name

    def member(
        self, name: str, group: str, family: str, requests: dict[str, str], **spec: Any
    ) -> str:
        """A pod of a group."""
        if family == VOLCANO:
            return self.pod(
                name, requests, annotations={"scheduling.k8s.io/group-name": group}, **spec
            )
        return self.pod(name, requests, labels={"scheduling.x-k8s.io/pod-group": group}, **spec)

    def group_status(self, name: str, family: str) -> Obj:
        made = self.objects.get(f"{family}/{VERSIONS[family]}", "podgroups", name)
        found: Obj = made.get("status") or {}
        return found

    def placed(self, *names: str) -> int:
        """How many of the pods have a node."""
        return sum(bool(self.get(name)["spec"].get("nodeName")) for name in names)

    def end(self) -> None:
        """Delete the pods, which no kubelet will, and what was made for the cluster."""
        for name in self.objects.names("v1", "pods"):
            self.delete(name)
        for api_version, plural, name in reversed(self._made):
            self.cluster.delete(api_version, plural, name)
        nodes = {name for _, plural, name in self._made if plural == "nodes"}
        eventually(lambda: nodes.isdisjoint(self.cluster.names("v1", "nodes")))

    def seen(self, *labels: str) -> None:
        """Wait until the scheduler knows the nodes with these labels: it hears of pods apart.

        What a pod only prefers is decided among the nodes that are known when it comes.
        """
        for label in labels:
            key, _, value = label.partition("=")
            probe = self.pod(f"probe-{value}", nodeSelector={key: value})
            self.where(probe)
            self.delete(probe)

    # --- what became of it ---------------------------------------------------------------------

    def get(self, name: str) -> Obj:
        return self.objects.get("v1", "pods", name)

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        path = self.objects.path("v1", "pods", name)
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        reply = self.objects.backend.request("DELETE", path, options)
        assert reply.code in (200, 202, 404), reply.body

    def where(self, name: str) -> str:
        """The node that a pod was given; waits for it."""
        found: str = eventually(lambda: self.get(name)["spec"].get("nodeName"))
        return found

    def short(self, name: str) -> str:
        """The node of a pod without the case's suffix."""
        return self.where(name).removesuffix(f"-{self.unique}")

    def condition(self, name: str, kind: str = "PodScheduled") -> Obj:
        for condition in self.get(name)["status"].get("conditions") or ():
            if condition["type"] == kind:
                found: Obj = condition
                return found
        return {}

    def told(self, name: str, message: str) -> None:
        """Wait until a pod is told in these words why it has no node, and so are its events."""
        text = message.replace("%", self.unique)
        latest: list[str] = []

        def same() -> bool:
            condition = self.condition(name)
            latest[:] = [condition.get("message", "")]
            return condition.get("message") == text and condition["reason"] == "Unschedulable"

        self._wait(same, lambda: f"{latest} instead of {text!r}")
        self._wait(
            lambda: text in self.events(name, "FailedScheduling"),
            lambda: f"{self.events(name, 'FailedScheduling')} without {text!r}",
        )

    def events(self, name: str, reason: str) -> list[str]:
        """The messages of the events about an object with this reason."""
        path = self.objects.path("v1", "events")
        query = f"?fieldSelector=involvedObject.name={name},reason={reason}"
        reply = self.objects.backend.request("GET", path + query)
        assert reply.code == 200, reply.body
        return [item["message"] for item in reply.json()["items"]]

    def stays(self, name: str, marker: Callable[[], Any]) -> None:
        """A pod has no node although something later, which ``marker`` waits for, has happened."""
        marker()
        assert not self.get(name)["spec"].get("nodeName")

    def _wait(self, check: Callable[[], bool], describe: Callable[[], str]) -> None:
        try:
            eventually(check, seconds=20)
        except AssertionError:
            raise AssertionError(describe()) from None


@contextlib.contextmanager
def scheduler(backend: Backend, name: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Our scheduler as a process."""
    process = start(backend, name, log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def start(backend: Backend, name: str, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.cluster.scheduling.run_scheduler",
                str(backend.kubeconfig),
                name,
            ],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=Path(__file__).parents[3],
        )
