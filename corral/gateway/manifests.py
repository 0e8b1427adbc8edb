"""The gateway of an installation, as plain objects.

It has no rights: its service account is bound to nothing, and not even its token is given to the
pod. Where the API server is and how it proves to be it are in a ConfigMap that anybody may read. It
serves with the certificate of the Secret ``corral-gateway-tls`` where there is one (cert-manager
may keep it), else with one of its own, which lives as long as the pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from corral import __version__
from corral.kube.types import Obj

__all__ = ["LABELS", "NAME", "PORTS", "SELECTOR", "GatewayInstall", "gateway_objects"]

NAME: Final = "corral-gateway"
SECRET: Final = "corral-gateway-tls"
SELECTOR: Final = {"app.kubernetes.io/name": NAME}
LABELS: Final = {**SELECTOR, "app.kubernetes.io/part-of": "corral"}
_REST: Final = 8443
_GRPC: Final = 8444
PORTS: Final = (_REST, _GRPC)
_CLUSTER: Final = "/etc/corral/cluster"
_GIVEN: Final = "/etc/corral/tls"


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayInstall:
    """What differs between installations."""

    namespace: str
    image: str = f"corral:{__version__}"
    replicas: int = 2


def gateway_objects(settings: GatewayInstall) -> list[Obj]:
    """The objects, in the order in which they are applied; the namespace is there already."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": _meta(settings),
            "automountServiceAccountToken": False,
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _meta(settings),
            "data": {"kubeconfig": _KUBECONFIG},
        },
        _service(settings),
        _deployment(settings),
    ]


_KUBECONFIG: Final = f"""\
apiVersion: v1
kind: Config
current-context: here
clusters:
- name: here
  cluster: {{server: "https://kubernetes.default.svc", certificate-authority: {_CLUSTER}/ca.crt}}
users: []
contexts:
- name: here
  context: {{cluster: here}}
"""


def _meta(settings: GatewayInstall) -> Obj:
    return {"name": NAME, "namespace": settings.namespace, "labels": dict(LABELS)}


def _service(settings: GatewayInstall) -> Obj:
    def port(name: str, number: int) -> Obj:
        return {"name": name, "port": number, "protocol": "TCP", "targetPort": name}

    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _meta(settings),
        "spec": {
            "selector": dict(SELECTOR),
            "ports": [port("https", 443), port("grpc", _GRPC)],
        },
    }


def _deployment(settings: GatewayInstall) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _meta(settings),
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": dict(SELECTOR)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1},
            },
            "template": {"metadata": {"labels": dict(LABELS)}, "spec": _pod(settings)},
        },
    }


def _pod(settings: GatewayInstall) -> Obj:
    sources = [
        {"configMap": {"name": NAME, "items": [{"key": "kubeconfig", "path": "kubeconfig"}]}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return {
        "serviceAccountName": NAME,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings)],
        "volumes": [
            {"name": "cluster", "projected": {"sources": sources}},
            {"name": "tls", "secret": {"secretName": SECRET, "optional": True}},
            {"name": "tmp", "emptyDir": {"medium": "Memory", "sizeLimit": "16Mi"}},
        ],
    }


def _container(settings: GatewayInstall) -> Obj:
    hosts = [f"{NAME}.{settings.namespace}{end}" for end in ("", ".svc", ".svc.cluster.local")]
    return {
        "name": "gateway",
        "image": settings.image,
        "command": ["corral", "gateway"],
        "args": [
            f"--kubeconfig={_CLUSTER}/kubeconfig",
            f"--listen=0.0.0.0:{_REST}",
            f"--grpc-listen=0.0.0.0:{_GRPC}",
            f"--given-certs={_GIVEN}",
            "--cert-dir=/tmp/certs",
            *(f"--host={host}" for host in hosts),
        ],
        "ports": [
            {"name": "https", "containerPort": _REST},
            {"name": "grpc", "containerPort": _GRPC},
        ],
        "startupProbe": {**_probe("/healthz"), "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {**_probe("/healthz"), "periodSeconds": 10, "failureThreshold": 3},
        "readinessProbe": {**_probe("/readyz"), "periodSeconds": 5, "failureThreshold": 2},
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "cluster", "mountPath": _CLUSTER, "readOnly": True},
            {"name": "tls", "mountPath": _GIVEN, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _probe(path: str) -> Obj:
    return {"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "timeoutSeconds": 6}
