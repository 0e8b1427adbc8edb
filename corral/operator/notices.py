"""``corral notices`` on every spot machine of a cluster: the objects of a DaemonSet.

Nobody connects to its pods; they ask the metadata service of their machine.

Machines of ours and those that cluster-autoscaler, Karpenter or a cloud's own node groups make are
told from others by the labels that these have. Its rights are those to Nodes that an announcement
takes, and no others.
"""

from __future__ import annotations

from typing import Final

from corral.api.spot.kinds import CLOUD_LABEL, INSTANCE_LABEL
from corral.kube.types import Obj
from corral.operator.network import network_policy

__all__ = ["notice_objects"]

NAME: Final = "corral-notices"
_RBAC: Final = "rbac.authorization.k8s.io"
_LABELS: Final = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/part-of": "corral"}
_SPOT: Final = {
    "karpenter.sh/capacity-type": "spot",
    "cloud.google.com/gke-spot": "true",
    "eks.amazonaws.com/capacityType": "SPOT",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Labels of spot machines that others make."""


def notice_objects(namespace: str, image: str) -> list[Obj]:
    """A service account with its rights, a NetworkPolicy, and the DaemonSet."""
    meta = {"name": NAME, "namespace": namespace, "labels": dict(_LABELS)}
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    rules = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    ]
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": meta,
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": rules,
        },
        {
            "apiVersion": f"{_RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": NAME},
            "subjects": [account],
        },
        network_policy(
            NAME,
            namespace,
            {"app.kubernetes.io/name": NAME},
            (),
            labels=_LABELS,
            allow_metadata=True,
        ),
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": dict(meta),
            "spec": {
                "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
                "updateStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {"maxUnavailable": "25%"},
                },
                "template": {"metadata": {"labels": dict(_LABELS)}, "spec": _pod(image)},
            },
        },
    ]


def _pod(image: str) -> Obj:
    ours = [
        {"key": INSTANCE_LABEL, "operator": "Exists"},
        # node agents of ours tell themselves
        {"key": CLOUD_LABEL, "operator": "NotIn", "values": ["local"]},
    ]
    theirs = [[{"key": k, "operator": "In", "values": [v]}] for k, v in _SPOT.items()]
    terms = [{"matchExpressions": expressions} for expressions in (ours, *theirs)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": True,
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 5,
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"operator": "Exists"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "notices",
                "image": image,
                "command": ["corral", "notices"],
                "env": [
                    {
                        "name": "NODE_NAME",
                        "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                    }
                ],
                "resources": {
                    "requests": {"cpu": "10m", "memory": "64Mi"},
                    "limits": {"memory": "128Mi"},
                },
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
            }
        ],
        # the ssl module reads certificates from files only
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }
