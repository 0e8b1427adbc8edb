"""TrainingJobs of one namespace: making them, waiting for them, and what must be true then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from corral.families.trainingjob.names import ATTEMPT_LABEL, JOB_LABEL, REPLICA_LABEL
from tests.cluster.objects import Objects, eventually
from tests.faults.audit import Audit

__all__ = ["REPLICAS", "Jobs", "check_pod_creations"]

Obj = dict[str, Any]
API = "training.corral.dev/v1alpha1"
PLURAL = "trainingjobs"
REPLICAS = 2
DONE = ("Succeeded", "Failed")


class Jobs:
    """Of one namespace."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects

    @property
    def namespace(self) -> str:
        return self.objects.namespace

    def path(self, name: str = "") -> str:
        return self.objects.path(API, PLURAL, name)

    def create(self, name: str, script: str = "exit 0", **spec: Any) -> Obj:
        """Two replicas that run a script as real processes."""
        body = {
            "apiVersion": API,
            "kind": "TrainingJob",
            "metadata": {"name": name},
            "spec": {
                "framework": "pytorch",
                "replicas": REPLICAS,
                "image": "busybox",
                "command": ["sh", "-c", script],
                "runPolicy": {"cleanPodPolicy": "None"},
                **spec,
            },
        }
        return self.objects.create(PLURAL, body)

    def phases(self) -> dict[str, str]:
        reply = self.objects.backend.request("GET", self.path())
        assert reply.code == 200, reply.body
        return {
            item["metadata"]["name"]: (item.get("status") or {}).get("phase") or ""
            for item in reply.json()["items"]
        }

    def get(self, name: str) -> Obj:
        return self.objects.get(API, PLURAL, name)

    def wait_done(self, names: Iterable[str], *, seconds: float) -> dict[str, str]:
        """The last phases; those that are not done in time are among them."""
        wanted = set(names)

        def done() -> bool:
            phases = self.phases()
            return all(phases.get(name) in DONE for name in wanted)

        try:
            eventually(done, seconds=seconds)
        except AssertionError:
            pass  # the caller compares, and says which
        return self.phases()

    def check(self, names: Iterable[str]) -> None:
        """Every job succeeded without a restart, and its objects are there once."""
        for name in names:
            job = self.get(name)
            status = job["status"]
            assert status["phase"] == "Succeeded", (name, status)
            assert (status["replicas"].get("restarts") or 0) == 0, (name, status)
            assert status["replicas"]["succeeded"] == REPLICAS, (name, status)
        pods = self.objects.names("v1", "pods")
        assert {f"{name}-{i}" for name in names for i in range(REPLICAS)} <= pods
        services = self.objects.names("v1", "services")
        assert {each for name in names for each in (name, f"{name}-master")} <= services
        assert set(names) <= self.objects.names("v1", "serviceaccounts")


def check_pod_creations(audit: Audit, namespace: str, names: Iterable[str]) -> None:
    """The server made every replica, and none twice in the same attempt.

    Attempts are not all 1: where an operator cannot know whether an attempt had this pod already,
    because another one began it and died, or was not answered, it begins the next attempt.
    """
    made: Counter[tuple[str, str, str]] = Counter()
    for entry in audit.creations("pods", namespace):
        labels = entry.object["metadata"]["labels"]
        made[labels[JOB_LABEL], labels[REPLICA_LABEL], labels[ATTEMPT_LABEL]] += 1
    assert set(made.values()) == {1}, made
    replicas = {(job, replica) for job, replica, _ in made}
    assert replicas == {(name, str(i)) for name in names for i in range(REPLICAS)}, made
