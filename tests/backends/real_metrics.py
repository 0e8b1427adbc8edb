"""metrics-server beside the real control plane: ``kubectl top`` and autoscalers have figures."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.auth.pki import Pki

FRONT_PROXY = "front-proxy-client"
"""Who kube-apiserver is to servers of other API groups."""


def aggregation_flags(pki: Pki) -> tuple[str, ...]:
    """What kube-apiserver needs to pass requests on to servers of other API groups."""
    front = pki.issue_client_cert(FRONT_PROXY)
    return (
        f"--requestheader-client-ca-file={pki.ca.cert_file}",
        f"--requestheader-allowed-names={FRONT_PROXY}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={front.cert_file}",
        f"--proxy-client-key-file={front.key_file}",
    )


def server_flags(kubeconfig: str, cert_folder: str, *, port: int) -> tuple[str, ...]:
    """What metrics-server is started with; nodes are asked at the address and port they say."""
    return (
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={cert_folder}",
        "--kubelet-insecure-tls",
        "--kubelet-use-node-status-port",
        "--kubelet-preferred-address-types=InternalIP",
        "--kubelet-request-timeout=5s",
        "--metric-resolution=10s",
    )


def registration(port: int) -> list[tuple[str, dict[str, Any]]]:
    """Paths and objects that make kube-apiserver ask metrics-server for metrics.k8s.io."""
    name = {"name": "metrics-server", "namespace": "kube-system"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": name,
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]},
    }
    group = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1beta1.metrics.k8s.io"},
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {**name, "port": port},
        },
    }
    return [
        ("/api/v1/namespaces/kube-system/services", service),
        ("/apis/apiregistration.k8s.io/v1/apiservices", group),
    ]
