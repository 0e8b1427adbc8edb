"""How an agent is to run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corral.cluster.node.container.images import ImageMap
from corral.cluster.node.isolation import Mode
from corral.cluster.node.resources import Gpu
from corral.kube.types import Obj

__all__ = ["AgentConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """One node. Times are seconds."""

    name: str
    """Of the Node object."""
    data_dir: Path
    """Everything the agent keeps; one agent for each folder."""
    isolation: Mode | None = None
    """The most isolation to use; None for the best that this machine lets us have."""
    address: str = "127.0.0.1"
    """Where the API server reaches the agent, and what it listens on."""
    port: int = 0
    """Of the agent's HTTPS server; 0 for any that is free."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """More labels of the Node; with a node's own credentials only those it may set."""
    taints: Sequence[Obj] = ()
    """Of the Node when it is made."""
    images: ImageMap = field(default_factory=ImageMap)
    registries: Mapping[str, str] = field(default_factory=dict)
    """Where registries in ``oci://`` references are reached: name → URL; others as hosts."""
    allowed_endpoints: Sequence[str] = ()
    """CIDR-or-host[:port] of registries that pods may name though they are not public."""
    gpus: Sequence[Gpu] | None = None
    """The devices to offer; None to look for them."""
    max_pods: int = 250
    max_processes: int = 4096
    """Of one container, threads included."""
    expose: Sequence[Path] = ()
    """Paths of the machine that containers see besides what programs need; read-only."""
    host_access: Collection[str] = ()
    """What pods may have of the machine: words of `security.HOST_ACCESS`."""
    job_folders: Sequence[Path] = ()
    """Folders where controllers keep what jobs write, each in <namespace>/<job>/<uid>: pods of the
    namespace may mount that."""
    client_ca_file: Path | None = None
    """Who may speak to the agent's HTTPS server by certificate; others need a token."""
    cluster_domain: str = "cluster.local"
    max_log_bytes: int = 10 * 1024 * 1024
    """Size at which a container's log is rotated."""
    max_log_files: int = 5
    serve: bool = True
    """Whether the agent's HTTPS server runs (logs, exec, port-forward, metrics)."""
    cloud: str = ""
    """Whose machine this is: its announcements are written onto the Node; empty: nobody's."""
    metadata: str = ""
    """Where the machine's metadata is, if not where its cloud always has it."""
    heartbeat: float = 10.0
    """Between renewals of the node's Lease."""
    status_period: float = 300.0
    """Between writes of a Node status in which nothing has changed."""
