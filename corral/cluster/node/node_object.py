"""The Node object of this machine, as a kubelet would describe it."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from corral import __version__
from corral.cluster.marks import ISOLATION_LABEL, PLAIN
from corral.cluster.node.config import AgentConfig
from corral.cluster.node.resources import Gpu, gpu_labels
from corral.cluster.node.timestamps import format_time
from corral.kube.types import Obj

__all__ = ["node_labels", "node_object", "node_status"]

KUBELET_VERSION: Final = f"v1.37.1+corral-{__version__}"
RUNTIME_LABEL: Final = "corral.dev/runtime"
"""Sets our nodes apart from those that run images."""
HOST_PATH_LABEL: Final = "corral.dev/host-path"
"""Whether pods may mount folders of the machine."""
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory",
     "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)  # fmt: skip


def architecture() -> str:
    machine = platform.machine()
    return _ARCHITECTURES.get(machine, machine)


def node_labels(
    config: AgentConfig, gpus: Sequence[Gpu], *, isolation: str = PLAIN
) -> dict[str, str]:
    """Those that every node has, those of its devices, and those it was given."""
    return {
        "kubernetes.io/hostname": config.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": architecture(),
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": architecture(),
        RUNTIME_LABEL: "process",
        ISOLATION_LABEL: isolation,
        HOST_PATH_LABEL: "allowed" if "path" in config.host_access else "refused",
        **gpu_labels(gpus),
        **config.labels,
    }


def node_object(config: AgentConfig, labels: Mapping[str, str], status: Obj) -> Obj:
    """To be created."""
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": config.name, "labels": dict(labels), "annotations": annotations},
        "spec": {"taints": list(config.taints)} if config.taints else {},
        "status": status,
    }


def node_status(
    config: AgentConfig,
    *,
    capacity: Mapping[str, str],
    port: int,
    old: Obj,
    now: float,
    ready: bool = True,
    problem: str = "",
) -> Obj:
    """What is written every few minutes, or when something has changed."""
    return {
        "addresses": [
            {"type": "InternalIP", "address": config.address},
            {"type": "Hostname", "address": config.name},
        ],
        "capacity": dict(capacity),
        "allocatable": dict(capacity),
        "conditions": _conditions(old, now, ready=ready, problem=problem),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        "nodeInfo": _node_info(),
        "declaredFeatures": ["ExtendWebSocketsToKubelet"],
    }


def _conditions(old: Obj, now: float, *, ready: bool, problem: str) -> list[Obj]:
    before = {condition["type"]: condition for condition in old.get("conditions") or ()}
    stamp = format_time(now)
    result: list[Obj] = []
    for kind, status, reason, message in _CONDITIONS:
        if kind == "Ready" and not ready:
            status, reason, message = "False", "KubeletNotReady", problem
        known = before.get(kind)
        since = known["lastTransitionTime"] if known and known["status"] == status else stamp
        result.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": stamp,
                "lastTransitionTime": since,
                "reason": reason,
                "message": message,
            }
        )
    return result


def _node_info() -> Obj:
    return {
        "machineID": _read("/etc/machine-id"),
        "systemUUID": _read("/sys/class/dmi/id/product_uuid"),
        "bootID": _read("/proc/sys/kernel/random/boot_id"),
        "kernelVersion": os.uname().release,
        "osImage": _os_image(),
        "containerRuntimeVersion": f"corral://{__version__}",
        "kubeletVersion": KUBELET_VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": architecture(),
    }


def _os_image() -> str:
    for line in _read("/etc/os-release").splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip('"')
    return socket.gethostname()


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
