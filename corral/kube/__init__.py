"""Async client for the Kubernetes wire protocol. Nothing of Corral's own kinds is in here.

Start with `KubeClient` (`client`), configured by `load_config` (`kubeconfig`); errors are in
`errors`, resource constants in `resources`. Names below are loaded when first used, so that the
pure modules (`errors`, `types`, `selectors`, …) can be imported without the network stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.kube.client import KubeClient
    from corral.kube.connection.config import ClusterConfig, ConfigError, ExecPlugin, Impersonation
    from corral.kube.connection.kubeconfig import in_cluster_config, load_config, load_kubeconfig
    from corral.kube.connection.transport import (
        ClientSettings,
        IdleTimeout,
        KubeConnectionError,
        Transport,
    )
    from corral.kube.discovery import ApiResource, Discovery, UnknownKind
    from corral.kube.errors import ApiError, error_from_status
    from corral.kube.listing import ListRequest
    from corral.kube.podstreams.logs import LogRequest
    from corral.kube.podstreams.portforward import PodConnection, PortForward
    from corral.kube.podstreams.streams import ExecResult, Output, RemoteProcess, StreamRequest
    from corral.kube.resources import Resource, resource
    from corral.kube.types import Obj
    from corral.kube.watch import (
        ResumingWatch,
        WatchEvent,
        WatchRequest,
        is_initial_events_end,
        watch_events,
    )

_HOMES = {
    "client": "KubeClient",
    "connection.config": "ClusterConfig ConfigError ExecPlugin Impersonation",
    "discovery": "ApiResource Discovery UnknownKind",
    "errors": "ApiError error_from_status",
    "connection.kubeconfig": "in_cluster_config load_config load_kubeconfig",
    "listing": "ListRequest",
    "podstreams.logs": "LogRequest",
    "podstreams.portforward": "PodConnection PortForward",
    "resources": "Resource resource",
    "podstreams.streams": "ExecResult Output RemoteProcess StreamRequest",
    "connection.transport": "ClientSettings IdleTimeout KubeConnectionError Transport",
    "types": "Obj",
    "watch": "ResumingWatch WatchEvent WatchRequest is_initial_events_end watch_events",
}

__all__ = [
    "ApiError",
    "ApiResource",
    "ClientSettings",
    "ClusterConfig",
    "ConfigError",
    "Discovery",
    "ExecPlugin",
    "ExecResult",
    "IdleTimeout",
    "Impersonation",
    "KubeClient",
    "KubeConnectionError",
    "ListRequest",
    "LogRequest",
    "Obj",
    "Output",
    "PodConnection",
    "PortForward",
    "RemoteProcess",
    "Resource",
    "ResumingWatch",
    "StreamRequest",
    "Transport",
    "UnknownKind",
    "WatchEvent",
    "WatchRequest",
    "error_from_status",
    "in_cluster_config",
    "is_initial_events_end",
    "load_config",
    "load_kubeconfig",
    "resource",
    "watch_events",
]

__getattr__ = lazily(__name__, _HOMES)
