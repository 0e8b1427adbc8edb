"""Proplets that really run clients, a registry and an operator: whole federated jobs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from corral.families.federated import learning, wiring
from corral.families.federated.settings import FederatedSettings
from corral.oci import Artifacts, Layer, Manifest, Reference, endpoints
from corral.runtime import Manager
from tests.cluster.federated_clients.digits import accuracy
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread
from tests.registries import RunningRegistry

Obj = dict[str, Any]
API = "propeller.absmach.io/v1alpha1"
ELSEWHERE = "registry.example.com"
"""The registry in the seed's manifests; here it is the test's own."""
CLIENT = f"oci://{ELSEWHERE}/fl-client:v1.0.0"
MIXED = f"oci://{ELSEWHERE}/fl-client:mixed"
"""The same, but one proplet has a Python program of that name."""
MODULE = "application/vnd.wasm.content.layer.v1+wasm"
LIMIT = 1 << 30


class Operator(OperatorThread):
    """All controllers of the family; pods are on the machine's own network."""

    def __init__(self, kubeconfig: str, registry: RunningRegistry) -> None:
        pairs = registry.pairs(ELSEWHERE)
        tasks = FederatedSettings(
            registry=registry.base, registry_map=pairs, waiting_retry=0.5, poll=1.0
        )
        rounds = learning.LearningSettings(registry=registry.base, registries=endpoints(pairs))

        def add(manager: Manager) -> None:
            wiring.register(manager, tasks)
            learning.register(manager, rounds)

        super().__init__(kubeconfig, add)


class Store:
    """The registry, as anybody may use it."""

    def __init__(self, registry: RunningRegistry) -> None:
        self._registries = registry.registries(ELSEWHERE)

    def push(self, where: str, content: bytes | Path, *, kind: str) -> str:
        async def work(artifacts: Artifacts) -> str:
            layers = [Layer(kind, content)]
            made = await artifacts.push(Reference.parse(where), layers, artifact_type=kind)
            return str(made.reference)

        return str(self._do(work))

    def pull(self, where: str) -> bytes:
        """The first layer of an artifact."""

        async def work(artifacts: Artifacts) -> bytes:
            reference = Reference.parse(where)
            manifest = await artifacts.manifest(reference)
            return await artifacts.read(reference, manifest.layers[0], limit=LIMIT)

        found: bytes = self._do(work)
        return found

    def manifest(self, where: str) -> Manifest:
        async def work(artifacts: Artifacts) -> Manifest:
            return await artifacts.manifest(Reference.parse(where))

        found: Manifest = self._do(work)
        return found

    def _do(self, work: Callable[[Artifacts], Any]) -> Any:
        async def main() -> Any:
            async with Artifacts(self._registries) as artifacts:
                return await work(artifacts)

        return asyncio.run(main())


def seed_job(name: str, *participants: str, rounds: int = 10, **spec: Any) -> Obj:
    """The seed's FederatedJob, with what a case changes."""
    return {
        "apiVersion": API,
        "kind": "FederatedJob",
        "metadata": {"name": name},
        "spec": {
            "experimentId": "exp-001",
            "modelRef": f"oci://{ELSEWHERE}/models/initial:v1",
            "taskWasmImage": CLIENT,
            "participants": [{"propletId": each} for each in participants],
            "kOfN": len(participants),
            "timeoutSeconds": 600,
            "rounds": {"total": rounds},
            "aggregator": {"algorithm": "fedavg"},
            **spec,
        },
    }


def data_of(folder: Path) -> Obj:
    """How tasks find the data of their proplet: a folder of the machine, by the proplet's id."""
    return {
        "volumes": [{"name": "data", "hostPath": {"path": str(folder)}}],
        "volumeMounts": [
            {
                "name": "data",
                "mountPath": "/data",
                "subPathExpr": "$(PROPLET_ID)",
                "readOnly": True,
            }
        ],
    }


class Federation:
    """Jobs of one namespace."""

    def __init__(self, objects: Objects, store: Store, data: Path) -> None:
        self.objects, self.store, self.data = objects, store, data

    def run(self, job: Obj, *, data: Path | None = None) -> str:
        """Create a job whose tasks find their data; its name."""
        where = data_of(data or self.data)
        job["spec"]["template"] = {**where, **(job["spec"].get("template") or {})}
        self.objects.create("federatedjobs", job)
        return str(job["metadata"]["name"])

    def status(self, plural: str, name: str) -> Obj:
        found = self.objects.find(API, plural, name) or {}
        return dict(found.get("status") or {})

    def ended(self, name: str, *, seconds: float = 120) -> Obj:
        """The status of a job that is over."""
        try:
            eventually(
                lambda: self.status("federatedjobs", name).get("phase") in ("Completed", "Failed"),
                seconds=seconds,
            )
        except AssertionError:
            raise AssertionError(self.everything()) from None
        return self.status("federatedjobs", name)

    def completed(self, name: str, *, seconds: float = 120) -> Obj:
        status = self.ended(name, seconds=seconds)
        assert status["phase"] == "Completed", (status, self.everything())
        return status

    def task(self, name: str) -> Obj:
        return self.status("wasmtasks", name)

    def update(self, task: str) -> tuple[Obj, bytes]:
        """The envelope of a task, and its payload."""
        found = self.task(task)["results"]
        envelope: Obj = found.get("update_envelope") or found
        if "update_b64" in envelope:
            return envelope, base64.b64decode(envelope["update_b64"])
        return envelope, self.store.pull(envelope["update_ref"])

    def sent(self, task: str) -> tuple[int, bytes]:
        """The samples and the payload of a task's update."""
        envelope, payload = self.update(task)
        return envelope["num_samples"], payload

    def proplet(self, id: str, node: str) -> None:
        """A pod that is a proplet on a node."""
        container = {"name": "proplet", "image": "busybox", "command": ["sleep", "3600"]}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": id, "labels": {"proplet-id": id}},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        }
        self.objects.create("pods", pod)

    def pods(self, selector: str) -> list[Obj]:
        query = urlencode({"labelSelector": selector})
        path = f"{self.objects.path('v1', 'pods')}?{query}"
        reply = self.objects.backend.request("GET", path)
        assert reply.code == 200, reply.body
        return list(reply.json()["items"])

    def gone(self, task: str) -> None:
        """Wait until a task was taken back, and its pods have really ended."""
        selector = f"batch.kubernetes.io/job-name={task}-job"
        eventually(
            lambda: not self.task(task) and not self.pods(selector),
            seconds=60,
        )

    def accuracy(self, reference: str, **how: Any) -> float:
        """Of the model behind a reference, pulled and judged by itself."""
        return float(accuracy(self.data / "test.bin", self.store.pull(reference), **how))

    def events(self, name: str) -> list[tuple[str, str]]:
        path = f"{self.objects.path('v1', 'events')}?fieldSelector=involvedObject.name%3D{name}"
        reply = self.objects.backend.request("GET", path)
        return [(item["reason"], item["message"]) for item in reply.json()["items"]]

    def everything(self) -> str:
        """What there is, for the words of a failure."""
        found: list[Any] = []
        for plural in ("federatedjobs", "trainingrounds", "wasmtasks"):
            reply = self.objects.backend.request("GET", self.objects.path(API, plural))
            found += [(i["metadata"]["name"], i.get("status")) for i in reply.json()["items"]]
        reply = self.objects.backend.request("GET", self.objects.path("v1", "pods"))
        for pod in reply.json()["items"]:
            status = pod.get("status") or {}
            states = [
                (c["name"], c["state"])
                for kind in ("initContainerStatuses", "containerStatuses")
                for c in status.get(kind) or ()
            ]
            found.append((pod["metadata"]["name"], status.get("phase"), states))
        return "\n".join(json.dumps(each)[:1500] for each in found)


def image_map(folder: Path, python: str, script: Path) -> Path:
    """What a node runs for an image of which it has no module: the client in Python."""
    entry: Mapping[str, Any] = {
        "pattern": MIXED.removeprefix("oci://"),
        "python": python,
        "entrypoint": [python, str(script)],
    }
    entries: Sequence[Mapping[str, Any]] = [entry]
    path = folder / "images.json"
    path.write_text(json.dumps(entries))
    return path
