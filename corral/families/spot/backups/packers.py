"""The pod that stores what a kubelet has written on its node. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from corral.kube.types import Obj
from corral.oci.own import AUDIENCE
from corral.podtools.commands import SNAPSHOTS, python_command
from corral.runtime.owners import owner_reference

__all__ = ["packer_pod"]

_FILES: Final = "/checkpoints"
_TOKEN: Final = "/var/run/secrets/corral"
_LOGIN: Final = "/var/run/secrets/corral-registry"


def packer_pod(
    backup: Obj,
    *,
    node: str,
    container: str,
    file: str,
    image: str,
    started: float,
    courier_image: str,
    registries: Mapping[str, str],
    secret: str | None,
    rootfs: str,
) -> Obj:
    """A pod on a node that stores one file of the kubelet's folder as an image, and removes it.

    Its name follows from the run, so a second one is never made. The files are root's, as all of a
    container's memory is in them, so the pod is root's too; it has the folder and nothing else.
    """
    metadata = backup["metadata"]
    path = PurePosixPath(file)
    notes = {
        "io.kubernetes.cri-o.annotations.checkpoint.name": container,
        "io.kubernetes.cri-o.annotations.checkpoint.rootfsImageName": rootfs,
        "org.criu.checkpoint.container.name": container,
        "dev.corral.backup": metadata["name"],
    }
    env = {
        "CORRAL_FILE": f"{_FILES}/{path.name}",
        "CORRAL_IMAGE": image,
        "CORRAL_CREATED": str(int(started)),
        "CORRAL_NOTES": json.dumps({key: value for key, value in notes.items() if value}),
        "CORRAL_REGISTRY_TOKEN": f"{_TOKEN}/token",
        "CORRAL_TERMINATION_LOG": "/dev/termination-log",
    }
    if registries:
        env["CORRAL_REGISTRIES"] = json.dumps(dict(registries))
    token = {
        "serviceAccountToken": {"path": "token", "expirationSeconds": 3600, "audience": AUDIENCE}
    }
    volumes: list[Obj] = [
        {"name": "files", "hostPath": {"path": str(path.parent), "type": "Directory"}},
        {"name": "token", "projected": {"sources": [token]}},
    ]
    mounts: list[Obj] = [
        {"name": "files", "mountPath": _FILES},
        {"name": "token", "mountPath": _TOKEN, "readOnly": True},
    ]
    if secret:
        volumes.append({"name": "login", "secret": {"secretName": secret}})
        mounts.append({"name": "login", "mountPath": _LOGIN, "readOnly": True})
        env["CORRAL_REGISTRY_LOGIN"] = _LOGIN
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{metadata['name'][:200]}-pack-{container[:20]}-{int(started)}",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_reference(backup)],
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": "pack",
                    "image": courier_image,
                    "command": python_command(SNAPSHOTS, "push"),
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "env": [{"name": name, "value": value} for name, value in env.items()],
                    "volumeMounts": mounts,
                    "securityContext": {
                        "runAsUser": 0,
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"], "add": ["DAC_OVERRIDE"]},
                    },
                    "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
                }
            ],
            "volumes": volumes,
        },
    }
