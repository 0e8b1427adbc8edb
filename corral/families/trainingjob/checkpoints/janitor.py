"""The pod that deletes checkpoints on a claim when no pod of the job runs. No I/O.

It mounts the claim and runs ``corral.inpod.remove`` out of the image of the job, which has the
package if it ever made a checkpoint. It has no token and no rights, and the security context of the
job's pods, so that the files are its own to delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from corral.api.training.kinds import GROUP, TRAININGJOBS
from corral.api.training.template import merged_template
from corral.families.trainingjob.names import MANAGED_BY, MANAGED_BY_LABEL, claim_name
from corral.families.trainingjob.objects.security import harden
from corral.families.trainingjob.objects.storage import mount_path
from corral.kube.types import Obj
from corral.runtime.owners import set_owner

__all__ = ["JANITOR_LABEL", "janitor_name", "janitor_pod", "janitor_removes"]

JANITOR_LABEL: Final = f"{GROUP}/checkpoint-janitor"
"""On the pod: the job whose checkpoints it deletes. It has no other label of the job."""
_VOLUME: Final = "checkpoints"
_MODULE: Final = "corral.inpod.remove"
DEADLINE: Final = 3600
"""Seconds that it may take."""
_KEPT: Final = (
    "nodeSelector", "tolerations", "affinity", "imagePullSecrets", "runtimeClassName",
    "securityContext",
)  # fmt: skip


def janitor_name(job: str) -> str:
    return f"{job}-janitor"


def janitor_pod(job: Obj, identifiers: Sequence[str], *, namespace: Obj, user: int | None) -> Obj:
    """The pod; ``namespace`` is the metadata of the job's, ``user`` as in `harden`."""
    metadata = job["metadata"]
    template = merged_template(job["spec"]).get("spec") or {}
    first = template["containers"][0]
    folder = mount_path(job["spec"])
    container: Obj = {
        "name": "janitor",
        "image": first["image"],
        "command": ["python3", "-m", _MODULE, folder, *identifiers],
        "volumeMounts": [{"name": _VOLUME, "mountPath": folder}],
        "resources": {
            "requests": {"cpu": "10m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi"},
        },
    }
    for key in ("securityContext", "imagePullPolicy"):
        if key in first:
            container[key] = first[key]
    claim = {"claimName": claim_name(metadata["name"])}
    spec: Obj = {
        **{key: template[key] for key in _KEPT if key in template},
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
        "volumes": [{"name": _VOLUME, "persistentVolumeClaim": claim}],
    }
    harden(spec, namespace, user=user)
    pod: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": janitor_name(metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {JANITOR_LABEL: metadata["name"], MANAGED_BY_LABEL: MANAGED_BY},
        },
        "spec": spec,
    }
    set_owner(pod, TRAININGJOBS.stamp(job))
    return pod


def janitor_removes(pod: Obj) -> frozenset[str]:
    """The checkpoints that a janitor was made for."""
    command = pod["spec"]["containers"][0].get("command") or []
    return frozenset(command[4:])
