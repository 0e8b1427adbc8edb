"""An operator inside the test's process, and TrainingJobs to give it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from corral.api.training.kinds import KINDS
from corral.families.trainingjob import RunLimits, TrainingSettings, register
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread, install

Obj = dict[str, Any]
API = "training.corral.dev/v1alpha1"
PLURAL = "trainingjobs"
LIMITS = RunLimits(
    restart_delay=0.1,
    unschedulable_after=2.0,
    grow_after=1.0,
    refusal_delay=0.2,
    refusal_delay_cap=1.0,
)


class Operator(OperatorThread):
    """The controllers of TrainingJobs."""

    def __init__(self, kubeconfig: str, limits: RunLimits = LIMITS, **settings: Any) -> None:
        wanted = TrainingSettings(**settings)
        super().__init__(kubeconfig, lambda manager: register(manager, wanted, limits=limits))


def faster(**changes: Any) -> RunLimits:
    return replace(LIMITS, **changes)


class Jobs:
    """TrainingJobs of one namespace."""

    def __init__(self, objects: Objects, kubeconfig: str) -> None:
        self.objects = objects
        self.kubeconfig = kubeconfig

    def create(self, name: str, script: str, *, grace: int = 2, **spec: Any) -> Obj:
        """A job whose replicas run a shell script."""
        job = {
            "apiVersion": API,
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {
                "image": "busybox",
                "command": ["sh", "-c", script],
                "network": {"policy": "None"},
                "template": {"spec": {"terminationGracePeriodSeconds": grace}},
                **spec,
            },
        }
        return self.objects.create(PLURAL, job)

    def get(self, name: str) -> Obj:
        return self.objects.get(API, PLURAL, name)

    def find(self, name: str) -> Obj | None:
        return self.objects.find(API, PLURAL, name)

    def patch(self, name: str, spec: Obj) -> Obj:
        return self.objects.patch(API, PLURAL, name, {"spec": spec})

    def wait(self, name: str, check: Callable[[Obj], Any], *, seconds: float = 60) -> Obj:
        """The status of the job, once the check holds for it."""
        last: list[Obj] = [{}]

        def good() -> bool:
            last[0] = self.get(name).get("status") or {}
            return bool(check(last[0]))

        try:
            eventually(good, seconds=seconds)
        except AssertionError:
            raise AssertionError((last[0], self.pods(name))) from None
        return last[0]

    def phase(self, name: str, phase: str, *, seconds: float = 60) -> Obj:
        return self.wait(name, lambda status: status.get("phase") == phase, seconds=seconds)

    def running(self, name: str, *, attempt: int | None = None, seconds: float = 60) -> Obj:
        """All replicas run."""

        def good(status: Obj) -> bool:
            is_it = attempt is None or status.get("attempt") == attempt
            return is_it and condition(status, "Running").get("status") == "True"

        return self.wait(name, good, seconds=seconds)

    def pods(self, name: str) -> list[Obj]:
        path = self.objects.path("v1", "pods") + f"?labelSelector=trainingjob%3D{name}"
        reply = self.objects.backend.request("GET", path)
        assert reply.code == 200, reply.body
        return sorted(reply.json()["items"], key=lambda pod: pod["metadata"]["name"])

    def no_pods(self, name: str) -> None:
        eventually(lambda: not self.pods(name), seconds=60)

    def events(self, name: str) -> list[str]:
        path = self.objects.path("v1", "events")
        query = f"?fieldSelector=involvedObject.name%3D{name}"
        reply = self.objects.backend.request("GET", path + query)
        return [item["reason"] for item in reply.json()["items"]]

    def said(self, name: str, *reasons: str) -> None:
        """Wait for these events."""
        eventually(lambda: set(reasons) <= set(self.events(name)))


def condition(status: Obj, type: str) -> Obj:
    found = [c for c in status.get("conditions") or () if c["type"] == type]
    return dict(found[0]) if found else {}


def install_definitions(cluster: Objects) -> None:
    install(cluster, [kind.crd() for kind in KINDS])
