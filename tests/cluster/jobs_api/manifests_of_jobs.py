"""Jobs to work with, and their events."""

from __future__ import annotations

import asyncio
from typing import Any

from corral.client import Jobs

Obj = dict[str, Any]


def training(name: str, script: str = "true", **spec: Any) -> Obj:
    """A TrainingJob whose replicas run a shell script."""
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "labels": {"case": "jobs"}, "annotations": {"note": name}},
        "spec": {
            "image": "busybox",
            "command": ["sh", "-c", script],
            "network": {"policy": "None"},
            "template": {"spec": {"terminationGracePeriodSeconds": 2}},
            **spec,
        },
    }


def mpi(name: str, *, workers: int = 1, script: str = "true", **labels: str) -> Obj:
    """An MPIJob whose launcher and workers run a shell script."""
    container = {"name": "mpi", "image": "busybox", "command": ["sh", "-c", script]}
    template = {"spec": {"containers": [container], "terminationGracePeriodSeconds": 2}}
    specs = {
        "Launcher": {"template": template},
        "Worker": {"replicas": workers, "template": template},
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "labels": labels},
        "spec": {"mpiReplicaSpecs": specs},
    }


def said(type: str, status: str = "True", **more: str) -> Obj:
    """A condition."""
    return {"type": type, "status": status, "reason": f"MPIJob{type}", "message": type, **more}


async def all_told(jobs: Jobs, kind: str, namespace: str, name: str, *, last: str) -> list[Obj]:
    """The events, once this one is among them: they are written after the status."""
    async with asyncio.timeout(60):
        while True:
            told = await jobs.events(kind, namespace, name)
            if any(event["reason"] == last for event in told):
                return told
            await asyncio.sleep(0.05)
