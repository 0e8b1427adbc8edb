"""Kubeflow's examples lived through under one operator, and all objects at three moments.

``created``: everything is made, and no pod runs. ``running``: the pods say they run. ``finished``:
the launcher's pod has succeeded, and the Job controller has said so. There are no nodes; pods run
because the story says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.backends import Backend
from tests.cluster.mpijob_peer.programs import MANIFESTS, manifest
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
Snapshot = dict[str, Obj]
"""What was found in a namespace, by kind and name; launcher's pods without their random ends."""
MOMENTS = ("created", "running", "finished")
API = "kubeflow.org/v2beta1"
KINDS = (
    (API, "mpijobs", "MPIJob"),
    ("v1", "services", "Service"),
    ("v1", "configmaps", "ConfigMap"),
    ("v1", "secrets", "Secret"),
    ("v1", "serviceaccounts", "ServiceAccount"),
    ("batch/v1", "jobs", "Job"),
    ("v1", "pods", "Pod"),
    ("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    ("rbac.authorization.k8s.io/v1", "roles", "Role"),
    ("rbac.authorization.k8s.io/v1", "rolebindings", "RoleBinding"),
)
"""All that an operator could make there."""
FROM_THE_CLUSTER = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
SECONDS = 60.0


class Life:
    """One example in a namespace of its own."""

    def __init__(self, backend: Backend, peer: Path, example: str) -> None:
        self._space = Objects(backend, example)
        self._manifest = manifest(peer, example)
        self._name: str = self._manifest["metadata"]["name"]
        self._workers: int = self._manifest["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]

    def create(self) -> None:
        cluster = Objects(self._space.backend)
        name = {"name": self._space.namespace}
        cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": name})
        eventually(lambda: self._space.find("v1", "serviceaccounts", "default"))
        eventually(lambda: self._space.find("v1", "configmaps", "kube-root-ca.crt"))
        self._space.create("mpijobs", self._manifest)

    def created(self) -> None:
        """Wait until everything is made and the status knows of it."""
        eventually(lambda: len(self._pods()) == self._workers + 1, seconds=SECONDS)
        eventually(lambda: len(self._status().get("replicaStatuses", {})) == 2, seconds=SECONDS)

    def run(self) -> None:
        for name in self._pods():
            ready = {"type": "Ready", "status": "True"}
            self._say(name, {"phase": "Running", "conditions": [ready]})

    def running(self) -> None:
        eventually(lambda: self._is_true("Running"), seconds=SECONDS)
        eventually(self._hosts_are_known, seconds=SECONDS)
        eventually(self._all_are_active, seconds=SECONDS)

    def finish(self) -> None:
        for name in self._pods():
            if not name.startswith(f"{self._name}-worker-"):
                self._say(name, {"phase": "Succeeded"})

    def finished(self) -> None:
        """Wait until it has succeeded and its workers, which would go on, are gone."""
        eventually(lambda: self._is_true("Succeeded"), seconds=SECONDS)
        eventually(lambda: len(self._pods()) == 1, seconds=SECONDS)
        eventually(lambda: not self._worker_count("active"), seconds=SECONDS)

    def snapshot(self) -> Snapshot:
        found: Snapshot = {}
        for api_version, plural, kind in KINDS:
            path = self._space.path(api_version, plural)
            for item in self._space.backend.request("GET", path).json()["items"]:
                name = item["metadata"]["name"]
                if item["metadata"].get("generateName"):
                    name = item["metadata"]["generateName"]
                if (kind, name) not in FROM_THE_CLUSTER:
                    found[f"{kind} {name}"] = item
        return found

    def events(self) -> set[tuple[str, str, str]]:
        """Type, reason and message of what was said about the MPIJob."""
        path = self._space.path("v1", "events")
        items = self._space.backend.request("GET", path).json()["items"]
        about = [item for item in items if item["involvedObject"]["kind"] == "MPIJob"]
        return {(item["type"], item["reason"], item["message"]) for item in about}

    # --- what there is ---------------------------------------------------------------------------

    def _pods(self) -> set[str]:
        return self._space.names("v1", "pods")

    def _say(self, pod: str, status: Obj) -> None:
        self._space.patch("v1", "pods", pod, {"status": status}, subresource="status")

    def _status(self) -> Obj:
        status: Obj = self._space.get(API, "mpijobs", self._name).get("status") or {}
        return status

    def _is_true(self, condition: str) -> bool:
        conditions = self._status().get("conditions", [])
        return any(c["type"] == condition and c["status"] == "True" for c in conditions)

    def _worker_count(self, what: str) -> int:
        count: int = self._status()["replicaStatuses"]["Worker"].get(what, 0)
        return count

    def _hosts_are_known(self) -> bool:
        config = self._space.get("v1", "configmaps", f"{self._name}-config")
        return str(config["data"]["discover_hosts.sh"]).count("echo ") == self._workers

    def _all_are_active(self) -> bool:
        return self._worker_count("active") == self._workers


class Story:
    """All examples under one operator."""

    def __init__(self, backend: Backend, peer: Path) -> None:
        self._lives = {name: Life(backend, peer, name) for name in MANIFESTS}
        self.moments: dict[tuple[str, str], Snapshot] = {}
        """By example and moment."""
        self.events: dict[str, set[tuple[str, str, str]]] = {}

    def tell(self) -> None:
        steps = (
            (Life.create, Life.created),
            (Life.run, Life.running),
            (Life.finish, Life.finished),
        )
        for moment, (act, await_it) in zip(MOMENTS, steps, strict=True):
            for life in self._lives.values():
                act(life)
            for name, life in self._lives.items():
                await_it(life)
                self.moments[name, moment] = life.snapshot()
        for name, life in self._lives.items():
            eventually(lambda life=life: _is_told(life.events()), seconds=SECONDS)  # type: ignore[misc]
            self.events[name] = life.events()


def _is_told(events: set[tuple[str, str, str]]) -> bool:
    return any(reason == "MPIJobSucceeded" for _, reason, _ in events)
