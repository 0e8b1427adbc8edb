"""The objects a cluster of ours begins with, beside those that every cluster has.

Who may do what: the workload controllers run as one user with the roles of the controllers they
are; nodes also read the pods and services that names and service addresses are made of.
"""

from __future__ import annotations

from typing import Final

from corral.cluster.registry.local import USER as REGISTRY
from corral.kube.types import Obj
from corral.oci.own import PULL_AUDIENCE

__all__ = ["NODES_GROUP", "access_objects", "initial_objects"]

NODES_GROUP: Final = "corral:nodes"
"""Nodes of ours."""

_RBAC: Final = "rbac.authorization.k8s.io"
_REGISTRY: Final = "registry.corral.dev"
_MANAGER: Final = "system:kube-controller-manager"
_ROLES: Final = (
    "cronjob-controller",
    "daemon-set-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoint-controller",
    "endpointslice-controller",
    "endpointslicemirroring-controller",
    "ephemeral-volume-controller",
    "horizontal-pod-autoscaler",
    "job-controller",
    "node-controller",
    "persistent-volume-binder",
    "pod-garbage-collector",
    "pv-protection-controller",
    "pvc-protection-controller",
    "replicaset-controller",
    "replication-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
)
"""Of the workload controllers."""

_PATCHED: Final = {
    "": "pods pods/status nodes nodes/status replicationcontrollers/status endpoints "
    "persistentvolumeclaims persistentvolumeclaims/status persistentvolumes/status",
    "apps": "deployments/status replicasets replicasets/status statefulsets/status "
    "daemonsets/status controllerrevisions",
    "batch": "jobs jobs/status cronjobs/status",
    "autoscaling": "horizontalpodautoscalers/status",
    "discovery.k8s.io": "endpointslices",
    "policy": "poddisruptionbudgets/status",
}
"""What ours patch where kube-controller-manager replaces whole objects: group → resources."""


def initial_objects() -> list[Obj]:
    """Fresh objects; one that is there already is left alone."""
    from corral.cluster.node.wasm import runtime_class
    from corral.cluster.scheduler import crds
    from corral.cluster.workloads.claims.names import storage_class

    return [*access_objects(), storage_class(), runtime_class(), *crds()]


def access_objects() -> list[Obj]:
    """Roles and bindings."""
    manager = {"kind": "User", "name": _MANAGER, "apiGroup": _RBAC}
    bindings = [
        _binding(f"corral:workloads:{role}", f"system:controller:{role}", manager)
        for role in _ROLES
    ]
    patches = [
        {"apiGroups": [group], "resources": resources.split(), "verbs": ["patch", "update"]}
        for group, resources in _PATCHED.items()
    ]
    folders = [
        {
            "apiGroups": [""],
            "resources": ["persistentvolumes"],
            "verbs": ["create", "delete", "get", "list", "watch", "patch", "update"],
        },
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "list", "watch", "delete"],
        },
    ]
    nodes = {"kind": "Group", "name": NODES_GROUP, "apiGroup": _RBAC}
    read = ["get", "list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["pods", "services", "namespaces"], "verbs": read},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": read},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        # modules are pulled with the rights of a pod's service account
        {
            "apiGroups": [""],
            "resources": [PULL_AUDIENCE],
            "verbs": ["request-serviceaccounts-token-audience"],
        },
    ]
    scheduler = {"kind": "User", "name": "system:kube-scheduler", "apiGroup": _RBAC}
    registry = {"kind": "User", "name": REGISTRY, "apiGroup": _RBAC}
    groups = [
        {
            "apiGroups": ["scheduling.volcano.sh", "scheduling.x-k8s.io"],
            "resources": ["podgroups", "podgroups/status"],
            "verbs": [*read, "patch", "update"],
        },
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "verbs": read,
        },
    ]
    return [
        *bindings,
        _role("corral:workloads", [*patches, *folders]),
        _binding("corral:workloads", "corral:workloads", manager),
        _role("corral:node", rules),
        _binding("corral:node", "corral:node", nodes),
        _role("corral:scheduler", groups),
        _binding("corral:scheduler", "corral:scheduler", scheduler),
        _binding("corral:registry", "system:auth-delegator", registry),
        _part_of("view", "corral:registry:view", _repositories("get")),
        _part_of("edit", "corral:registry:edit", _repositories("get", "create", "delete")),
    ]


def _repositories(*verbs: str) -> Obj:
    """Repositories of the registry whose names begin with a namespace."""
    return {"apiGroups": [_REGISTRY], "resources": ["repositories"], "verbs": list(verbs)}


def _part_of(role: str, name: str, rule: Obj) -> Obj:
    """A role that one of Kubernetes' roles for people takes in."""
    label = f"{_RBAC}/aggregate-to-{role}"
    part = _role(name, [rule])
    return {**part, "metadata": {**part["metadata"], "labels": {label: "true"}}}


def _role(name: str, rules: list[Obj]) -> Obj:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }


def _binding(name: str, role: str, subject: Obj) -> Obj:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [dict(subject)],
    }
