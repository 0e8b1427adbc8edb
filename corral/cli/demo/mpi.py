"""The MPIJob of the demo: a launcher that starts ranks on its workers, as mpirun does.

No MPI need be installed: the launcher is a few lines of Python. It reads the hostfile and starts
every rank by the program that stands in for ssh, both as the operator gives them to any MPI.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextlib import aclosing

from corral.api.mpi.kinds import MPIJOBS
from corral.kube import KubeClient
from corral.kube.resources import PODS
from corral.kube.types import Obj

__all__ = ["launch"]

NAME = "quadrature"
WORKERS, SLOTS = 2, 2
_SECONDS = 120


async def launch(client: KubeClient, namespace: str, say: Callable[[str], None]) -> str:
    """Run it to its end, and say what came of it."""
    job = await client.create(MPIJOBS, _job(namespace))
    watch = client.watch(
        MPIJOBS,
        namespace,
        field_selector=f"metadata.name={NAME}",
        resource_version=job["metadata"]["resourceVersion"],
    )
    async with asyncio.timeout(_SECONDS), aclosing(watch) as events:
        async for event in events:
            status = event.object.get("status") or {}
            kinds = {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}
            workers = (status.get("replicaStatuses") or {}).get("Worker") or {}
            say(f"MPI job: {workers.get('active', 0)} of {WORKERS} workers")
            assert "Failed" not in kinds, status.get("failure")
            if "Succeeded" in kinds:
                break
    return await _told(client, namespace)


async def _told(client: KubeClient, namespace: str) -> str:
    pods = await client.list_all(PODS, namespace, label_selector=f"job-name={NAME}-launcher")
    path = f"/api/v1/namespaces/{namespace}/pods/{pods['items'][0]['metadata']['name']}/log"
    detail = (await client.request("GET", path)).decode().split()
    value, hosts = float(detail[0]), detail[1:]
    assert abs(value - math.pi) < 1e-9, value
    expected = [f"{NAME}-worker-{number}" for number in range(WORKERS) for _ in range(SLOTS)]
    assert hosts == expected, hosts
    return f"{len(hosts)} ranks on {WORKERS} workers, started by the launcher: pi is {value:.9f}"


def _job(namespace: str) -> Obj:
    container = {"name": "mpi", "image": "python:3.12"}
    launcher = {**container, "command": ["python", "-c", _LAUNCHER, _RANK]}
    return {
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "slotsPerWorker": SLOTS,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": 1},
            "mpiReplicaSpecs": {
                "Launcher": {
                    "restartPolicy": "Never",
                    "template": {"spec": {"containers": [launcher]}},
                },
                "Worker": {
                    "replicas": WORKERS,
                    "template": {
                        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}
                    },
                },
            },
        },
    }


_LAUNCHER = """
import os, shlex, subprocess, sys
lines = [line.split() for line in open("/etc/mpi/hostfile") if line.strip()]
slots = [host for host, room in lines for _ in range(int(room.partition("=")[2]))]
agent = shlex.split(os.environ["PRTE_MCA_plm_ssh_agent"])
ranks = [
    subprocess.Popen(
        [*agent, "-o", "ConnectionAttempts=10", host,
         shlex.join(["python", "-c", sys.argv[1], str(rank), str(len(slots))])],
        stdout=subprocess.PIPE, text=True)
    for rank, host in enumerate(slots)
]
said = [rank.communicate(timeout=60)[0].split() for rank in ranks]
if any(rank.returncode for rank in ranks):
    sys.exit("a rank failed")
print(sum(float(share) for share, _ in said), *(host for _, host in said))
"""
_RANK = """
import socket, sys
rank, size, steps = int(sys.argv[1]), int(sys.argv[2]), 400_000
middles = ((step + 0.5) / steps for step in range(rank, steps, size))
print(sum(4 / (1 + x * x) for x in middles) / steps, socket.gethostname().split(".")[0])
"""
