"""Everything an installation consists of, as plain objects in the order in which they are applied.

Definitions, a namespace that takes restricted pods only, the operator's rights (`rbac`), roles for
people (`user_roles`), a policy that bounds what the operator does with them (`guard`),
NetworkPolicies (`network`), two replicas behind Services, a disruption budget, what tells of spot
machines that will be taken (`notices`), and webhook configurations whose certificate authority the
operator fills in. The configurations come last: until the operator serves, nothing waits for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral import __version__
from corral.api import all_crds
from corral.kube.types import Obj
from corral.operator import rbac
from corral.operator.endpoint import PORT_NAME
from corral.operator.families import FAMILIES
from corral.operator.guard import guard_objects
from corral.operator.network import network_policy
from corral.operator.notices import notice_objects
from corral.operator.process import all_hooks
from corral.operator.settings import (
    NAMESPACE,
    REPORTS_PORT,
    REPORTS_SERVICE,
    SECRET,
    WEBHOOKS_SERVICE,
    ProcessSettings,
)
from corral.operator.user_roles import user_roles
from corral.runtime.webhooks.configurations import by_service, webhook_configurations

__all__ = ["InstallSettings", "cluster_rules", "install_objects", "local_objects"]

METRICS_SERVICE: Final = "corral-operator-metrics"
_SELECTOR: Final = {"app.kubernetes.io/name": "corral-operator"}
_LABELS: Final = {**_SELECTOR, "app.kubernetes.io/part-of": "corral"}
_PORTS: Final = ProcessSettings()
"""The defaults of a process: containers are run with them."""


@dataclass(frozen=True, slots=True)
class InstallSettings:
    """What differs between installations."""

    namespace: str = NAMESPACE
    image: str = f"corral:{__version__}"
    replicas: int = 2
    workers: int = 10
    log_format: str = "json"
    tenants: tuple[str, ...] = ()
    """Namespaces in which pods are created and Secrets read; empty: all of them."""
    allow_metadata: bool = False
    """Whether the operator's pods may reach the metadata service of their machine."""


def cluster_rules() -> tuple[rbac.Rule, ...]:
    """The rights that the operator needs in the whole cluster."""
    families = (rule for family in FAMILIES for rule in family.rules)
    return (*rbac.CLUSTER_RULES, *rbac.merged(families))


def install_objects(settings: InstallSettings | None = None) -> list[Obj]:
    """The objects of an installation, new ones each time."""
    chosen = settings or InstallSettings()
    namespace = chosen.namespace
    subject = rbac.service_account(namespace)
    return [
        *all_crds(),
        _namespace(namespace),
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _meta(rbac.NAME, namespace),
            # the token is mounted by the Deployment alone
            "automountServiceAccountToken": False,
        },
        *rbac.access_objects(
            cluster_rules(),
            subject,
            shared=(*rbac.namespace_rules(), *rbac.KUBELET_TOKEN_RULES),
            namespace=namespace,
            tenants=chosen.tenants,
        ),
        *rbac.token_access(subject),
        *rbac.kubelet_access(namespace),
        *user_roles(),
        *guard_objects(namespace),
        _service(WEBHOOKS_SERVICE, namespace, "https", 443, "webhooks"),
        _service(REPORTS_SERVICE, namespace, PORT_NAME, REPORTS_PORT, "reports"),
        _service(METRICS_SERVICE, namespace, "metrics", 8081, "health"),
        _budget(namespace),
        network_policy(
            rbac.NAME,
            namespace,
            _SELECTOR,
            _served(),
            labels=_LABELS,
            allow_metadata=chosen.allow_metadata,
        ),
        _deployment(chosen),
        *notice_objects(namespace, chosen.image),
        *webhook_configurations(
            all_hooks(),
            by_service(WEBHOOKS_SERVICE, namespace),
            name=rbac.CONFIGURATIONS,
            inject=SECRET,
        ),
    ]


def _served() -> list[int]:
    found = (_PORTS.health_port, _PORTS.webhook_port, _PORTS.report_port)
    return [port for port in found if port]


def local_objects(user: str) -> list[Obj]:
    """What an operator beside an embedded API server needs: all but kinds, Pods and webhooks."""
    rules = (*cluster_rules(), *rbac.LOCAL_RULES, *rbac.AGENT_RULES)
    return [
        _namespace(NAMESPACE),
        *rbac.access_objects(
            rules,
            rbac.user(user),
            shared=(*rbac.namespace_rules(), *rbac.LOCAL_NAMESPACE_RULES),
        ),
        *user_roles(),
        _unselective(_service(REPORTS_SERVICE, NAMESPACE, PORT_NAME, REPORTS_PORT, "reports")),
    ]


def _unselective(service: Obj) -> Obj:
    """Without a selector: its endpoints are written by the operator."""
    spec = {key: value for key, value in service["spec"].items() if key != "selector"}
    return {**service, "spec": spec}


def _meta(name: str, namespace: str = "") -> Obj:
    out: Obj = {"name": name, "labels": dict(_LABELS)}
    return {**out, "namespace": namespace} if namespace else out


def _namespace(name: str) -> Obj:
    meta = _meta(name)
    meta["labels"] |= {
        "pod-security.kubernetes.io/enforce": "restricted",
        "pod-security.kubernetes.io/warn": "restricted",
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}


def _service(name: str, namespace: str, port_name: str, port: int, target: str) -> Obj:
    ports = [{"name": port_name, "port": port, "protocol": "TCP", "targetPort": target}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(name, namespace),
        "spec": {"selector": dict(_SELECTOR), "ports": ports},
    }


def _budget(namespace: str) -> Obj:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta(rbac.NAME, namespace),
        "spec": {
            "minAvailable": 1,
            "selector": {"matchLabels": dict(_SELECTOR)},
            # one that is broken anyway must not keep a node from being drained
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _deployment(settings: InstallSettings) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(rbac.NAME, settings.namespace),
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": dict(_SELECTOR)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": {
                "metadata": {"labels": dict(_LABELS)},
                "spec": _pod(settings),
            },
        },
    }


def _pod(settings: InstallSettings) -> Obj:
    return {
        "serviceAccountName": rbac.NAME,
        "automountServiceAccountToken": True,
        "terminationGracePeriodSeconds": 45,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "topologySpreadConstraints": [
            _spread("kubernetes.io/hostname"),
            _spread("topology.kubernetes.io/zone"),
        ],
        "containers": [_container(settings)],
        # the ssl module reads certificates from files only
        "volumes": [{"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}}],
    }


def _spread(key: str) -> Obj:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(_SELECTOR)},
    }


def _container(settings: InstallSettings) -> Obj:
    return {
        "name": "operator",
        "image": settings.image,
        "command": ["corral", "operator"],
        "args": [
            f"--namespace={settings.namespace}",
            f"--workers={settings.workers}",
            f"--log-format={settings.log_format}",
            f"--courier-image={settings.image}",
        ],
        "ports": [
            {"name": "health", "containerPort": _PORTS.health_port},
            {"name": "webhooks", "containerPort": _PORTS.webhook_port},
            {"name": "reports", "containerPort": _PORTS.report_port},
        ],
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5, "failureThreshold": 2},
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }


def _probe(path: str) -> Obj:
    return {"httpGet": {"path": path, "port": "health"}, "timeoutSeconds": 5}
