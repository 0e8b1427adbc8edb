"""What replicas are told in their environment, so that they find each other. No I/O.

One function per framework; `RENDEZVOUS` says which. Replica 0 is where the others meet, under its
name in the job's headless Service. The port follows from the job and the attempt: pods may share
the network of their machine (``hostNetwork``, embedded clusters), where two jobs, or what is left
of an earlier attempt, must not meet on the same port. A variable of the template with a plain value
and a container port called ``rendezvous`` both choose another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import orjson

from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.names import pod_host
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = [
    "RENDEZVOUS",
    "RENDEZVOUS_PORT_NAME",
    "Replica",
    "default_port",
    "gpus_of",
    "procs_of",
    "rendezvous_env",
]

RENDEZVOUS_PORT_NAME: Final = "rendezvous"
_FIRST_PORT: Final = 20_000
_PORTS: Final = 10_000
"""Below those of Services (from 30000) and those that Linux gives to clients (from 32768)."""
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi")
_GPU_FAMILIES: Final = ("nvidia.com/mig-", "gpu.intel.com/")


@dataclass(frozen=True, slots=True)
class Replica:
    """Which replica of which job, and among how many."""

    job: str
    namespace: str
    uid: str
    """The job's."""
    index: int
    generation: Generation
    procs: int = 1
    """Processes in each pod."""
    elastic: bool = False

    @property
    def processes(self) -> int:
        """Of all replicas together."""
        return self.generation.world * self.procs

    @property
    def rank(self) -> int:
        """Of the first process of this replica."""
        return self.index * self.procs

    def host(self, index: int = 0) -> str:
        """The name of a replica; of the master without an index."""
        return pod_host(self.job, self.namespace, index)


Env = dict[str, str]
Given = Mapping[str, str]
"""What the template sets to plain values."""


def rendezvous_env(framework: str, replica: Replica, *, pod: Obj) -> Env:
    """The variables of a framework for a replica; ``pod`` is the spec of its template."""
    given = _plain_values(pod)
    chosen = _declared_port(pod)
    return RENDEZVOUS[framework](replica, given, chosen)


def default_port(replica: Replica, shift: int = 0) -> int:
    """The port where the replicas of an attempt meet."""
    seed = f"{replica.uid}/{replica.generation.shared_attempt}".encode()
    number = int.from_bytes(hashlib.sha256(seed).digest()[:4], "big")
    return _FIRST_PORT + (number + shift) % _PORTS


def _pytorch(replica: Replica, given: Given, declared: int | None) -> Env:
    """For ``init_process_group("env://")`` and for torchrun, which reads its options from PET_*."""
    host = given.get("MASTER_ADDR", replica.host())
    port = given.get("MASTER_PORT", str(declared or default_port(replica)))
    env = {
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "RANK": str(replica.rank),
        "WORLD_SIZE": str(replica.processes),
        "PET_NNODES": str(replica.generation.world),
        "PET_NPROC_PER_NODE": str(replica.procs),
        "PET_NODE_RANK": str(replica.index),
        "PET_MASTER_ADDR": host,
        "PET_MASTER_PORT": port,
    }
    if replica.procs == 1:
        env["LOCAL_RANK"] = "0"
    if replica.elastic:
        env |= _torch_elastic(replica, f"{host}:{port}")
    return env


def _torch_elastic(replica: Replica, endpoint: str) -> Env:
    """A dynamic rendezvous, with the number of this attempt: a change of it is a new attempt.

    Who hosts the store is said outright: torch would guess it from names and addresses.
    """
    return {
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_RDZV_ID": f"{replica.uid or replica.job}-{replica.generation.shared_attempt}",
        "PET_RDZV_CONF": f"is_host={'true' if replica.index == 0 else 'false'}",
    }


def _tensorflow(replica: Replica, given: Given, declared: int | None) -> Env:
    """Every replica serves; with ports of their own they can share a machine's network."""

    def address(index: int) -> str:
        return f"{replica.host(index)}:{declared or default_port(replica, index)}"

    cluster = {"chief": [address(0)]}
    workers = [address(index) for index in range(1, replica.generation.world)]
    if workers:
        cluster["worker"] = workers
    chief = replica.index == 0
    task: Obj = {
        "type": "chief" if chief else "worker",
        "index": 0 if chief else replica.index - 1,
    }
    return {"TF_CONFIG": orjson.dumps({"cluster": cluster, "task": task}).decode()}


def _jax(replica: Replica, given: Given, declared: int | None) -> Env:
    address = f"{replica.host()}:{declared or default_port(replica)}"
    return {
        "JAX_COORDINATOR_ADDRESS": given.get("JAX_COORDINATOR_ADDRESS", address),
        "JAX_NUM_PROCESSES": str(replica.processes),
        "JAX_PROCESS_ID": str(replica.rank),
    }


def _xgboost(replica: Replica, given: Given, declared: int | None) -> Env:
    """The tracker runs beside the worker of replica 0; every replica is a worker."""
    return {
        "DMLC_TRACKER_URI": replica.host(),
        "DMLC_TRACKER_PORT": str(declared or default_port(replica)),
        "DMLC_ROLE": "worker",
        "DMLC_TASK_ID": str(replica.rank),
        "DMLC_NUM_WORKER": str(replica.processes),
        "DMLC_NUM_SERVER": "0",
    }


def _custom(replica: Replica, given: Given, declared: int | None) -> Env:
    return {}


RENDEZVOUS: Final[dict[str, Callable[[Replica, Given, int | None], Env]]] = {
    "pytorch": _pytorch,
    "tensorflow": _tensorflow,
    "jax": _jax,
    "xgboost": _xgboost,
    "custom": _custom,
}


# --- what the template says ---------------------------------------------------------------------


def procs_of(spec: Obj, pod: Obj) -> int:
    """Processes in each pod; ``auto``: as many as it has GPUs, but one at least."""
    wanted = spec.get("procsPerReplica", 1)
    if wanted == "auto":
        return max(gpus_of(pod), 1)
    return int(wanted)


def gpus_of(pod: Obj) -> int:
    """The GPUs, and parts of GPUs, that the containers of a pod are limited to."""
    total = 0
    for container in pod.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        for name, amount in limits.items():
            if name in _GPUS or name.startswith(_GPU_FAMILIES):
                total += Quantity.parse(str(amount)).to_int()
    return total


def _plain_values(pod: Obj) -> Env:
    first = (pod.get("containers") or [{}])[0]
    return {
        variable["name"]: variable["value"]
        for variable in first.get("env") or ()
        if variable.get("value")
    }


def _declared_port(pod: Obj) -> int | None:
    for container in pod.get("containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == RENDEZVOUS_PORT_NAME and port.get("containerPort"):
                return int(port["containerPort"])
    return None
