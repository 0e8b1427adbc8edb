"""What the launcher's pod and the workers' pods have in common.

Only the first container of a template is touched. What the user wrote comes first: variables,
volumes and mounts of ours are put behind it, and labels of ours win.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corral.families.mpijob import names
from corral.families.mpijob.objects.podgroup import join_group
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView, without_nulls
from corral.kube.types import Obj

__all__ = ["ROLE_VARIABLE", "add_env", "add_ssh", "add_volume", "prepared", "variable"]

ROLE_VARIABLE: Final = "K_MPI_JOB_ROLE"
_SSH_ITEMS = (
    (names.SSH_PRIVATE_KEY, "id_rsa"),
    (names.SSH_PUBLIC_KEY, "id_rsa.pub"),
    (names.SSH_PUBLIC_KEY, "authorized_keys"),
)


def prepared(view: JobView, replica: Obj, role: str, settings: ObjectSettings) -> Obj:
    """A new template of labels, annotations and the pod, with all that both roles need."""
    source: Obj = replica["template"]
    metadata: Obj = source.get("metadata") or {}
    template: Obj = {
        "metadata": {
            "labels": {**(metadata.get("labels") or {}), **names.pod_labels(view.name, role)},
        },
        "spec": without_nulls(source["spec"]),
    }
    if metadata.get("annotations"):
        template["metadata"]["annotations"] = dict(metadata["annotations"])
    join_group(template, view, settings)
    pod: Obj = template["spec"]
    pod["subdomain"] = view.name
    pod["restartPolicy"] = replica["restartPolicy"]
    if pod.get("hostNetwork"):
        # With the node's resolver, hosts of the job would not be found.
        pod["dnsPolicy"] = "ClusterFirstWithHostNet"
    return template


def variable(name: str, value: str) -> Obj:
    """A variable; an empty value is left out, as in Kubernetes' own JSON."""
    return {"name": name, "value": value} if value else {"name": name}


def add_env(pod: Obj, variables: Iterable[Obj]) -> None:
    container: Obj = pod["containers"][0]
    container["env"] = [*(container.get("env") or ()), *variables]


def add_ssh(pod: Obj, view: JobView) -> None:
    """The keys, where sshd and ssh look for them."""
    source: Obj = {
        "secretName": names.secret_name(view.name),
        "items": [{"key": key, "path": path} for key, path in _SSH_ITEMS],
    }
    if view.ssh_path == names.ROOT_SSH_PATH:
        source["defaultMode"] = 0o600
    add_volume(pod, {"name": names.SSH_VOLUME, "secret": source}, view.ssh_path)


def add_volume(pod: Obj, volume: Obj, path: str) -> None:
    """A volume of the pod that its first container has at a path."""
    pod["volumes"] = [*(pod.get("volumes") or ()), volume]
    container: Obj = pod["containers"][0]
    mount = {"name": volume["name"], "mountPath": path}
    container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]
