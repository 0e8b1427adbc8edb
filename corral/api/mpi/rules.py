"""What every MPIJob must be like beyond its schema: Kubeflow's rules, in their order and words.

Each function is about one part and says everything that is wrong with it. Replicas are named in
brackets (``spec.mpiReplicaSpecs[Worker].replicas``). The object is one that has its defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corral.api.mpi.spec import (
    IMPLEMENTATIONS,
    LAUNCHER,
    WORKER,
    MPIJobSpec,
    ReplicaSpec,
    RunPolicy,
)
from corral.kube.problems import FieldError, invalid_value, not_supported, required

__all__ = [
    "CLEAN_POD_POLICIES",
    "IMMUTABLE",
    "MANAGERS",
    "NEGATIVE",
    "RESTART_POLICIES",
    "SPECS",
    "dotted",
    "implementation_problems",
    "managed_by_problems",
    "name_problems",
    "problems",
    "replica_path",
    "replica_problems",
    "run_policy_problems",
    "slots_problems",
]

Found = Iterator[FieldError]
SPECS: Final = "spec.mpiReplicaSpecs"
OWN_MANAGER: Final = "kubeflow.org/mpi-operator"
MANAGERS: Final = (OWN_MANAGER, "kueue.x-k8s.io/multikueue")
CLEAN_POD_POLICIES: Final = ("All", "None", "Running")
RESTART_POLICIES: Final = ("Never", "OnFailure")
NEGATIVE: Final = "must be greater than or equal to 0"
IMMUTABLE: Final = "field is immutable"

_LABEL = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_WRONG = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_LONG = "must be no more than 63 bytes"


def replica_path(role: str) -> str:
    """``Worker`` → ``spec.mpiReplicaSpecs[Worker]``."""
    return f"{SPECS}[{role}]"


def dotted(path: str) -> str:
    """A path as the schema's validator writes it: ``spec.mpiReplicaSpecs.Worker.replicas``."""
    return path.replace(f"[{LAUNCHER}]", f".{LAUNCHER}").replace(f"[{WORKER}]", f".{WORKER}")


def problems(name: str, spec: MPIJobSpec) -> Found:
    """All rules that one object alone is judged by."""
    yield from name_problems(name, spec.workers)
    yield from replica_problems(spec)
    yield from slots_problems(spec)
    yield from run_policy_problems(spec.run_policy)
    yield from implementation_problems(spec)


def name_problems(name: str, workers: int) -> Found:
    """The last worker's host name is the longest one; a name yet to be generated is not judged."""
    if not name:
        return
    longest = f"{name}-worker-{max(workers, 1) - 1}"
    wrong = [] if len(longest) <= 63 else [_LABEL_LONG]
    if not _LABEL.fullmatch(longest):
        wrong.append(_LABEL_WRONG)
    if wrong:
        why = f'will not able to create pod and service with invalid DNS label "{longest}": '
        yield invalid_value("metadata.name", name, why + ", ".join(wrong))


def replica_problems(spec: MPIJobSpec) -> Found:
    if spec.mpi_replica_specs is None:
        yield required(SPECS, "must have replica specs")
        return
    if spec.launcher is None:
        yield required(replica_path(LAUNCHER), f"must have {LAUNCHER} replica spec")
    for role, replica in spec.replica_specs():
        yield from _one_replica(role, replica)


def _one_replica(role: str, replica: ReplicaSpec) -> Found:
    path, count = replica_path(role), replica.replicas
    if count is None:
        yield required(f"{path}.replicas", "must define number of replicas")
    if replica.restart_policy not in RESTART_POLICIES:
        policy = replica.restart_policy or ""
        yield not_supported(f"{path}.restartPolicy", policy, RESTART_POLICIES)
    if not replica.template.containers:
        yield required(f"{path}.template.spec.containers", "must define at least one container")
    if count is None:
        return
    if role == LAUNCHER and count != 1:
        yield invalid_value(f"{path}.replicas", count, "must be 1")
    if role == WORKER and count <= 0:
        yield invalid_value(f"{path}.replicas", count, "must be greater than or equal to 1")


def slots_problems(spec: MPIJobSpec) -> Found:
    path, slots = "spec.slotsPerWorker", spec.slots_per_worker
    if slots is None:
        yield required(path, "must have number of slots per worker")
    elif slots < 0:
        yield invalid_value(path, slots, NEGATIVE)


def run_policy_problems(policy: RunPolicy) -> Found:
    path, clean = "spec.runPolicy", policy.clean_pod_policy
    if clean is None:
        yield required(f"{path}.cleanPodPolicy", "must have clean Pod policy")
    elif clean not in CLEAN_POD_POLICIES:
        yield not_supported(f"{path}.cleanPodPolicy", clean, CLEAN_POD_POLICIES)
    for name, value in (
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("backoffLimit", policy.backoff_limit),
    ):
        if value is not None and value < 0:
            yield invalid_value(f"{path}.{name}", value, NEGATIVE)
    if policy.managed_by is not None and policy.managed_by not in MANAGERS:
        yield not_supported(f"{path}.managedBy", policy.managed_by, MANAGERS)


def implementation_problems(spec: MPIJobSpec) -> Found:
    if not spec.ssh_auth_mount_path:
        yield required("spec.sshAuthMountPath", "must have a mount path for SSH credentials")
    if spec.mpi_implementation not in IMPLEMENTATIONS:
        known = sorted(IMPLEMENTATIONS)
        yield not_supported("spec.mpiImplementation", spec.mpi_implementation, known)


def managed_by_problems(policy: RunPolicy, old: RunPolicy) -> Found:
    """Two controllers must never have one job in turn; absent means ours."""
    if (policy.managed_by or OWN_MANAGER) != (old.managed_by or OWN_MANAGER):
        yield invalid_value("spec.runPolicy.managedBy", policy.managed_by, IMMUTABLE)
