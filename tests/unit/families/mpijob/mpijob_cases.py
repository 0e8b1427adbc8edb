"""MPIJobs to judge and to build, and what is to be said about each.

A case is a change to a job that nothing can be said about. What is expected is written as
``E field: words``, with E for an error, P for a matter of policy, and A for advice.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from corral.families.mpijob.validation import Context

Obj = dict[str, Any]
GPU = "nvidia.com/gpu"
SECURITY: Obj = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str, **more: Any) -> Obj:
    return {
        "name": name,
        "image": "mpi:1",
        "resources": {"limits": {"cpu": 2, "memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        **more,
    }


def template(name: str, **more: Any) -> Obj:
    return {
        "spec": {"securityContext": deepcopy(SECURITY), "containers": [container(name, **more)]}
    }


def job(**spec: Any) -> Obj:
    """A job that nothing can be said about."""
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "foo", "namespace": "bar", "uid": "u-1"},
        "spec": {
            "sshAuthMountPath": "/home/mpi/.ssh",
            "mpiReplicaSpecs": {
                "Launcher": {
                    "template": template("launcher", command=["mpirun"], args=["-n", "2", "a"])
                },
                "Worker": {"replicas": 2, "template": template("worker")},
            },
            **spec,
        },
    }


_SHORT = {
    "L": ("spec", "mpiReplicaSpecs", "Launcher"),
    "LP": ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec"),
    "LC": ("spec", "mpiReplicaSpecs", "Launcher", "template", "spec", "containers", 0),
    "W": ("spec", "mpiReplicaSpecs", "Worker"),
    "WP": ("spec", "mpiReplicaSpecs", "Worker", "template", "spec"),
    "WC": ("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers", 0),
    "run": ("spec", "runPolicy"),
    "sched": ("spec", "runPolicy", "schedulingPolicy"),
}
_LONG = {
    "L": "spec.mpiReplicaSpecs[Launcher]",
    "LP": "spec.mpiReplicaSpecs[Launcher].template.spec",
    "LC": "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0]",
    "W": "spec.mpiReplicaSpecs[Worker]",
    "WP": "spec.mpiReplicaSpecs[Worker].template.spec",
    "WC": "spec.mpiReplicaSpecs[Worker].template.spec.containers[0]",
    "run": "spec.runPolicy",
    "sched": "spec.runPolicy.schedulingPolicy",
}
"""What the first word of a path is short for."""


def edited(obj: Obj, edits: dict[str, Any]) -> Obj:
    """A copy with values put at paths; None takes a value out."""
    copy = deepcopy(obj)
    for path, value in edits.items():
        head, *rest = path.split("|")
        steps: list[Any] = [*_SHORT.get(head, (head,)), *(_step(word) for word in rest)]
        target: Any = copy
        for step in steps[:-1]:
            target = target[step] if isinstance(step, int) else target.setdefault(step, {})
        if value is None:
            target.pop(steps[-1])
        else:
            target[steps[-1]] = deepcopy(value)
    return copy


def _step(word: str) -> int | str:
    return int(word) if word.isdigit() else word


def spelled(expected: str) -> tuple[str, str, str]:
    """``E WC.image: Required`` → (severity, whole path, words)."""
    severity, _, rest = expected.partition(" ")
    path, _, words = rest.partition(": ")
    head, dot, tail = path.partition(".")
    return severity, _LONG.get(head, head) + dot + tail, words


@dataclass(frozen=True)
class Case:
    area: str
    name: str
    edits: dict[str, Any]
    expected: tuple[str, ...] = ()
    context: Context = field(default_factory=Context)
    old: dict[str, Any] | None = None
    """Edits of the job before the change."""

    @property
    def id(self) -> str:
        return f"{self.area}: {self.name}"

    @property
    def obj(self) -> Obj:
        return edited(job(), self.edits)


def resources(limits: Obj | None = None, requests: Obj | None = None, **more: Any) -> Obj:
    base = {"cpu": 2, "memory": "1Gi"}
    out: Obj = {"limits": {**base, **(limits or {})}, **more}
    return {**out, "requests": requests} if requests else out


def at(area: str, table: dict[str, tuple[Any, ...]]) -> list[Case]:
    return [Case(area, name, *row) for name, row in table.items()]
