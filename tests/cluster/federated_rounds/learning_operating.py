"""Controllers of federated learning inside the test's process, jobs to give them, and proplets
that are played: a case says what becomes of a task by its status.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

from corral.families.federated.learning import LearningSettings, register
from corral.oci import ClientSettings, Endpoint
from tests.cluster.federated_rounds.registry_box import RegistryBox
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread

Obj = dict[str, Any]
API = "propeller.absmach.io/v1alpha1"
REGISTRY = "registry.corral.local"
IMPATIENT = ClientSettings(tries=1, connect_timeout=2.0, first_wait=0.01)


def settings(url: str, **more: Any) -> LearningSettings:
    facts: Obj = {
        "registry": f"oci://{REGISTRY}",
        "registries": {REGISTRY: Endpoint(url)},
        "client": IMPATIENT,
        "retry": 0.1,
        "retry_cap": 0.5,
        "grace": 2.0,
    }
    return LearningSettings(**{**facts, **more})


class Operator(OperatorThread):
    """The controllers of jobs, rounds and checkpoints; not of tasks."""

    def __init__(self, kubeconfig: str, url: str, **more: Any) -> None:
        super().__init__(kubeconfig, lambda manager: register(manager, settings(url, **more)))


def job(name: str, *participants: str, rounds: int = 1, **spec: Any) -> Obj:
    total = {"total": rounds, **spec.pop("policy", {})}
    return {
        "apiVersion": API,
        "kind": "FederatedJob",
        "metadata": {"name": name},
        "spec": {
            "experimentId": "exp-001",
            "modelRef": "oci://registry.example.com/models/initial:v1",
            "taskWasmImage": "oci://registry.example.com/fl-client:v1.0.0",
            "participants": [{"propletId": each} for each in participants],
            "kOfN": len(participants),
            "timeoutSeconds": 120,
            "rounds": total,
            "aggregator": {"algorithm": "fedavg"},
            **spec,
        },
    }


def training_round(name: str, *participants: str, **spec: Any) -> Obj:
    return {
        "apiVersion": API,
        "kind": "TrainingRound",
        "metadata": {"name": name},
        "spec": {
            "roundId": "round-1",
            "federatedJobRef": {},
            "modelRef": "oci://registry.example.com/models/initial:v1",
            "taskWasmImage": "oci://registry.example.com/fl-client:v1.0.0",
            "participants": list(participants),
            "kOfN": len(participants),
            "timeoutSeconds": 120,
            **spec,
        },
    }


def payload(values: Sequence[float]) -> str:
    return base64.b64encode(json.dumps(list(values)).encode()).decode()


class Learning:
    """Jobs, rounds and tasks of one namespace, and the registry."""

    def __init__(self, objects: Objects, registry: RegistryBox) -> None:
        self.objects = objects
        self.registry = registry

    # --- objects ---------------------------------------------------------------------------------

    def create(self, obj: Obj) -> Obj:
        return self.objects.create(f"{obj['kind'].lower()}s", obj)

    def get(self, plural: str, name: str) -> Obj:
        return self.objects.get(API, plural, name)

    def find(self, plural: str, name: str) -> Obj | None:
        return self.objects.find(API, plural, name)

    def status(self, plural: str, name: str) -> Obj:
        found = self.find(plural, name) or {}
        return found.get("status") or {}

    def wait(
        self, plural: str, name: str, check: Callable[[Obj], Any], *, seconds: float = 60
    ) -> Obj:
        """The status, once the check holds for it."""
        last: list[Obj] = [{}]

        def good() -> bool:
            last[0] = self.status(plural, name)
            return bool(last[0] and check(last[0]))

        try:
            eventually(good, seconds=seconds)
        except AssertionError:
            raise AssertionError((last[0], self.events(name))) from None
        return last[0]

    def until(self, plural: str, name: str, phase: str, *, seconds: float = 60) -> Obj:
        return self.wait(plural, name, lambda s: s.get("phase") == phase, seconds=seconds)

    def ended(self, plural: str, name: str) -> Obj:
        return self.wait(plural, name, lambda s: s.get("phase") in ("Completed", "Failed"))

    def events(self, name: str) -> list[tuple[str, str]]:
        path = f"{self.objects.path('v1', 'events')}?fieldSelector=involvedObject.name%3D{name}"
        reply = self.objects.backend.request("GET", path)
        return [(item["reason"], item["message"]) for item in reply.json()["items"]]

    def told(self, name: str, reason: str) -> str:
        """The message of an event, once it is there."""

        def found() -> list[str]:
            return [message for known, message in self.events(name) if known == reason]

        return eventually(found)[0]

    # --- proplets --------------------------------------------------------------------------------

    def task(self, name: str) -> Obj:
        try:
            return eventually(lambda: self.find("wasmtasks", name), seconds=60)
        except AssertionError:
            raise AssertionError((name, self._everything())) from None

    def _everything(self) -> list[Obj]:
        found: list[Obj] = []
        for plural in ("federatedjobs", "trainingrounds"):
            reply = self.objects.backend.request("GET", self.objects.path(API, plural))
            found += [item.get("status") or {} for item in reply.json()["items"]]
        return found

    def become(self, name: str, phase: str, **status: Any) -> None:
        """Say what has become of a task."""
        self.task(name)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        told = {"phase": phase, "startTime": now, "finishTime": now, **status}
        self.objects.patch(API, "wasmtasks", name, {"status": told}, subresource="status")

    def send(self, name: str, values: Sequence[float], *, samples: int = 1, **more: Any) -> None:
        """A task ends with an update."""
        task = self.task(name)
        env = task["spec"]["env"]
        envelope = {
            "job_id": env.get("FL_JOB_ID", ""),
            "round_id": env["ROUND_ID"],
            "proplet_id": env["PROPLET_ID"],
            "num_samples": samples,
            "format": "json-f64",
            "update_b64": payload(values),
            **more,
        }
        self.become(name, "Completed", results={"update_envelope": envelope})

    # --- models ----------------------------------------------------------------------------------

    def model(self, reference: str) -> list[float]:
        """The model behind a reference, as anybody can pull it."""
        found: list[float] = json.loads(self.registry.layer(reference))
        return found


def condition(status: Obj, type: str) -> Obj:
    found = [c for c in status.get("conditions") or () if c["type"] == type]
    return dict(found[0]) if found else {}


def ready(status: Obj) -> tuple[str, str, str]:
    """Status, reason and message of the condition Ready."""
    found = condition(status, "Ready")
    return found.get("status", ""), found.get("reason", ""), found.get("message", "")
