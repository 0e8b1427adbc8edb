"""An operator of MPIJobs inside the test's process, jobs to give it, and pods that are made up.

There are no nodes: pods wait for ever, and a case says what becomes of them by their status.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from corral.api.mpi.kinds import KINDS
from corral.families.mpijob import MPISettings, ObjectSettings, register
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread, install

Obj = dict[str, Any]
API = "kubeflow.org/v2beta1"
PLURAL = "mpijobs"
NOW = "2026-01-01T00:00:00Z"


class Operator(OperatorThread):
    """The controller of MPIJobs."""

    def __init__(self, kubeconfig: str, **objects: Any) -> None:
        settings = MPISettings(
            objects=ObjectSettings(**objects),
            progress_interval=0.05,
            settle_interval=0.5,
            batch_interval=0.05,
            replace_delay=0.1,
            refusal_delay=0.1,
            refusal_delay_cap=0.5,
        )
        super().__init__(kubeconfig, lambda manager: register(manager, settings))


def replica(name: str, *, replicas: int | None = None, command: Any = ("true",), **pod: Any) -> Obj:
    """A launcher, or workers."""
    container: Obj = {"name": name, "image": "mpi:1"}
    if command is not None:
        container["command"] = list(command)
    spec = {"containers": [container], **pod}
    out: Obj = {"template": {"spec": spec}}
    return out if replicas is None else {**out, "replicas": replicas}


def mpijob(name: str, *, workers: int = 2, **spec: Any) -> Obj:
    """A launcher and workers that bring sshd."""
    specs = {"Launcher": replica("launcher", command=["mpirun", "hello"])}
    if workers:
        specs["Worker"] = replica("worker", replicas=workers, command=None)
    return {
        "apiVersion": API,
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {"mpiReplicaSpecs": specs, **spec},
    }


class Jobs:
    """MPIJobs of one namespace."""

    def __init__(self, objects: Objects, kubeconfig: str) -> None:
        self.objects = objects
        self.kubeconfig = kubeconfig

    # --- jobs ------------------------------------------------------------------------------------

    def create(self, job: Obj) -> Obj:
        return self.objects.create(PLURAL, job)

    def get(self, name: str) -> Obj:
        return self.objects.get(API, PLURAL, name)

    def find(self, name: str) -> Obj | None:
        return self.objects.find(API, PLURAL, name)

    def patch(self, name: str, spec: Obj) -> Obj:
        return self.objects.patch(API, PLURAL, name, {"spec": spec})

    def delete(self, name: str) -> None:
        self.objects.delete(API, PLURAL, name)

    def suspend(self, name: str, *, suspend: bool = True) -> Obj:
        return self.patch(name, {"runPolicy": {"suspend": suspend}})

    def wait(self, name: str, check: Callable[[Obj], Any], *, seconds: float = 60) -> Obj:
        """The status of the job, once the check holds for it."""
        last: list[Obj] = [{}]

        def good() -> bool:
            last[0] = self.get(name).get("status") or {}
            return bool(check(last[0]))

        try:
            eventually(good, seconds=seconds)
        except AssertionError:
            pods = [(p["metadata"]["name"], p["status"]) for p in self.pods(name)]
            raise AssertionError((last[0], pods, self.events(name))) from None
        return last[0]

    def until(self, name: str, type: str, status: str = "True", *, reason: str = "") -> Obj:
        """The status of the job, once a condition has this status (and reason)."""

        def good(found: Obj) -> bool:
            known = condition(found, type)
            return known.get("status") == status and reason in ("", known.get("reason"))

        return self.wait(name, good)

    # --- what belongs to them --------------------------------------------------------------------

    def pods(self, name: str, role: str = "") -> list[Obj]:
        selector = f"training.kubeflow.org/job-name%3D{name}"
        if role:
            selector += f"%2Ctraining.kubeflow.org/job-role%3D{role}"
        path = f"{self.objects.path('v1', 'pods')}?labelSelector={selector}"
        reply = self.objects.backend.request("GET", path)
        assert reply.code == 200, reply.body
        return sorted(reply.json()["items"], key=lambda pod: pod["metadata"]["name"])

    def workers(self, name: str, count: int) -> list[Obj]:
        """All workers, once there are so many."""
        self._until_there(lambda: len(self.pods(name, "worker")) == count, name)
        return self.pods(name, "worker")

    def launcher_pod(self, name: str) -> Obj:
        """The one pod of the launcher that has not ended, once it is there."""

        def alive() -> list[Obj]:
            pods = self.pods(name, "launcher")
            return [p for p in pods if p["status"]["phase"] not in ("Succeeded", "Failed")]

        self._until_there(lambda: len(alive()) == 1, name)
        return alive()[0]

    def launcher(self, name: str) -> Obj:
        """The Job, once it is there."""
        return eventually(lambda: self.objects.find("batch/v1", "jobs", f"{name}-launcher"))

    def config(self, name: str) -> dict[str, str]:
        found = eventually(lambda: self.objects.find("v1", "configmaps", f"{name}-config"))
        data: dict[str, str] = found["data"]
        return data

    def _until_there(self, check: Callable[[], bool], name: str) -> None:
        try:
            eventually(check, seconds=60)
        except AssertionError:
            names = [pod["metadata"]["name"] for pod in self.pods(name)]
            raise AssertionError((names, self.get(name), self.events(name))) from None

    # --- what becomes of pods --------------------------------------------------------------------

    def become(
        self, pods: Iterable[Obj], phase: str, *, ready: bool | None = None, **status: Any
    ) -> None:
        """Say that pods are in a phase."""
        for pod in pods:
            holds = phase == "Running" if ready is None else ready
            known = {"type": "Ready", "status": "True" if holds else "False"}
            new: Obj = {"phase": phase, "conditions": [known], "startTime": NOW, **status}
            name = pod["metadata"]["name"]
            self.objects.patch("v1", "pods", name, {"status": new}, subresource="status")

    def run(self, name: str, workers: int = 2) -> None:
        """Have all pods run."""
        self.become(self.workers(name, workers), "Running")
        self.become([self.launcher_pod(name)], "Running")
        self.until(name, "Running")

    def end(self, name: str, phase: str = "Succeeded", **status: Any) -> None:
        """Have the launcher's pod end."""
        pod = self.launcher_pod(name)
        code = 0 if phase == "Succeeded" else 1
        self.become([pod], phase, containerStatuses=[ended("launcher", code)], **status)

    # --- events ----------------------------------------------------------------------------------

    def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of each."""
        path = self.objects.path("v1", "events")
        query = f"?fieldSelector=involvedObject.name%3D{name}%2CinvolvedObject.kind%3DMPIJob"
        reply = self.objects.backend.request("GET", path + query)
        return [(item["reason"], item["message"]) for item in reply.json()["items"]]

    def said(self, name: str, *reasons: str) -> None:
        """Wait for these events."""
        eventually(lambda: set(reasons) <= {reason for reason, _ in self.events(name)})

    def told(self, name: str, reason: str) -> str:
        """The message of the one event of this reason."""
        self.said(name, reason)
        found = [message for known, message in self.events(name) if known == reason]
        assert len(found) == 1, found
        return found[0]


def ended(container: str, code: int, *, reason: str = "", message: str = "") -> Obj:
    """The status of a container that has ended."""
    how = {"exitCode": code, "reason": reason or ("Error" if code else "Completed")}
    how |= {"startedAt": NOW, "finishedAt": NOW, "message": message}
    return {
        "name": container,
        "image": "mpi:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": how},
    }


def condition(status: Obj, type: str) -> Obj:
    found = [c for c in status.get("conditions") or () if c["type"] == type]
    return dict(found[0]) if found else {}


def types(status: Obj) -> list[tuple[str, str]]:
    """Type and status of the conditions, in order."""
    return [(c["type"], c["status"]) for c in status.get("conditions") or ()]


def install_definitions(cluster: Objects, *more: Obj) -> None:
    install(cluster, [*(kind.crd() for kind in KINDS), *more])


def pod_group_definition(group: str, version: str) -> Obj:
    """PodGroups as a cluster with a gang scheduler has them, as far as jobs need them."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return json.loads(
        json.dumps(
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {
                    "name": f"podgroups.{group}",
                    "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
                },
                "spec": {
                    "group": group,
                    "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"},
                    "scope": "Namespaced",
                    "versions": [
                        {
                            "name": version,
                            "served": True,
                            "storage": True,
                            "schema": {"openAPIV3Schema": schema},
                        }
                    ],
                },
            }
        )
    )
