"""Names, labels and other constants of MPIJobs and of what is made for them.

What Kubeflow's manifests, images and clients rely on is theirs letter for letter; what is ours is
under ``corral.dev``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "APP_LABEL",
    "CONFIG_MOUNT_PATH",
    "CONFIG_VOLUME",
    "DISCOVER_HOSTS",
    "FINALIZER",
    "HOSTFILE",
    "HOSTFILE_PATH",
    "JOB_NAME_LABEL",
    "JOB_ROLE_LABEL",
    "NETWORK_POLICY_ANNOTATION",
    "OPERATOR_NAME",
    "OPERATOR_NAME_LABEL",
    "PLUGINS_GROUP_LABEL",
    "POLICY_LABEL",
    "REPLICA_INDEX_LABEL",
    "REQUIRED_LABELS_ANNOTATION",
    "ROLE_LAUNCHER",
    "ROLE_WORKER",
    "ROOT_SSH_PATH",
    "SSH_PRIVATE_KEY",
    "SSH_PUBLIC_KEY",
    "SSH_VOLUME",
    "VOLCANO_GROUP_ANNOTATION",
    "VOLCANO_QUEUE_ANNOTATION",
    "config_map_name",
    "launcher_name",
    "pod_labels",
    "secret_name",
    "selector_labels",
    "worker_index",
    "worker_name",
]

OPERATOR_NAME: Final = "mpi-operator"
OPERATOR_NAME_LABEL: Final = "training.kubeflow.org/operator-name"
JOB_NAME_LABEL: Final = "training.kubeflow.org/job-name"
JOB_ROLE_LABEL: Final = "training.kubeflow.org/job-role"
REPLICA_INDEX_LABEL: Final = "training.kubeflow.org/replica-index"
APP_LABEL: Final = "app"
"""On everything but pods: the name of the job."""
ROLE_LAUNCHER: Final = "launcher"
ROLE_WORKER: Final = "worker"

CONFIG_VOLUME: Final = "mpi-job-config"
CONFIG_MOUNT_PATH: Final = "/etc/mpi"
HOSTFILE: Final = "hostfile"
HOSTFILE_PATH: Final = f"{CONFIG_MOUNT_PATH}/{HOSTFILE}"
DISCOVER_HOSTS: Final = "discover_hosts.sh"

SSH_VOLUME: Final = "ssh-auth"
ROOT_SSH_PATH: Final = "/root/.ssh"
"""Keys that are mounted here get a mode that sshd insists on for root."""
SSH_PRIVATE_KEY: Final = "ssh-privatekey"
SSH_PUBLIC_KEY: Final = "ssh-publickey"

VOLCANO_QUEUE_ANNOTATION: Final = "scheduling.volcano.sh/queue-name"
VOLCANO_GROUP_ANNOTATION: Final = "scheduling.k8s.io/group-name"
PLUGINS_GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"

FINALIZER: Final = "corral.dev/mpijob-cleanup"
POLICY_LABEL: Final = "corral.dev/policy"
"""On namespaces: ``baseline`` (also if absent) or ``restricted``."""
REQUIRED_LABELS_ANNOTATION: Final = "corral.dev/required-labels"
"""On namespaces: labels that every job has to have, with commas between them."""
NETWORK_POLICY_ANNOTATION: Final = "corral.dev/network-policy"
"""On MPIJobs: ``Isolated``, ``Restricted`` or ``None`` (also if absent)."""


def launcher_name(job: str) -> str:
    """The Job, and the host name of its pod."""
    return f"{job}-launcher"


def worker_name(job: str, index: int) -> str:
    """The pod, and its host name."""
    return f"{job}-worker-{index}"


def worker_index(job: str, pod: str) -> int | None:
    """The index in a worker's name; none where it is no worker of this job.

    The name is what counts: labels of workers are shifted where the launcher is one too.
    """
    prefix, _, index = pod.rpartition("-")
    if prefix != f"{job}-worker" or not index.isascii() or not index.isdigit():
        return None
    return int(index) if str(int(index)) == index else None


def config_map_name(job: str) -> str:
    return f"{job}-config"


def secret_name(job: str) -> str:
    return f"{job}-ssh"


def selector_labels(job: str) -> dict[str, str]:
    """What selects the launcher and all workers."""
    return {OPERATOR_NAME_LABEL: OPERATOR_NAME, JOB_NAME_LABEL: job}


def pod_labels(job: str, role: str) -> dict[str, str]:
    return {**selector_labels(job), JOB_ROLE_LABEL: role}
