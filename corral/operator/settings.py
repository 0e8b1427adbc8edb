"""How an operator process runs: every figure with its default and unit.

The namespace holds what the replicas share: the Lease and the Secret with the certificates.
"""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from corral.egress.policy import EgressPolicy
from corral.families.spot.machines.settings import MachineSettings
from corral.runtime.leadership.election import ElectionSettings
from corral.runtime.sharing import WHOLE, Share

__all__ = [
    "LEASE",
    "NAMESPACE",
    "REPORTS_PORT",
    "REPORTS_SERVICE",
    "SECRET",
    "WEBHOOKS_SERVICE",
    "ProcessSettings",
    "own_identity",
]

NAMESPACE: Final = "corral-system"
LEASE: Final = "corral-operator"
SECRET: Final = "corral-operator-certificates"
WEBHOOKS_SERVICE: Final = "corral-operator-webhooks"
REPORTS_SERVICE: Final = "corral-operator-reports"
REPORTS_PORT: Final = 8443
"""Of the Service. Not a privileged one: nodes that are no root's offer services too."""


def own_identity() -> str:
    """A name that no other process has, nor this one after a restart."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """One replica of the operator."""

    namespace: str = NAMESPACE
    """Where the Lease, the Secret and the Services are."""
    leader_elect: bool = True
    """Off where there is only one replica, ever: it need not wait for a lease to run out."""
    election: ElectionSettings = field(default_factory=ElectionSettings)
    identity: str = field(default_factory=own_identity)
    share: Share = WHOLE
    """A leader has the first share and, while it leads, starts a partner for each of the others;
    see `partners`."""
    workers: int = 10
    """Reconciles at the same time, of each kind."""
    resync: float = 300.0
    """Seconds after which everything is looked at again."""
    gang_scheduler: str = ""
    """Who schedules the pods of an MPIJob together: ``volcano``, or the name of a scheduler with
    scheduler-plugins; empty: nobody."""
    cluster_domain: str = ""
    """Ends the names of hosts in MPIJobs, such as ``cluster.local``; empty: they end in ``svc``."""

    mpi_agent: bool = False
    """Whether MPIJobs on process nodes are launched by our agent; takes `rbac.AGENT_RULES`."""

    health_host: str = "0.0.0.0"
    health_port: int | None = 8081
    """Health and metrics; None serves neither, 0 takes any free port."""
    webhook_host: str = "0.0.0.0"
    """The address the webhook server listens at."""
    webhook_port: int | None = 9443
    """None: no webhooks."""
    webhook_url_host: str = ""
    """The address by which the API server reaches this very process; empty: by the Service."""
    report_host: str = "0.0.0.0"
    report_port: int | None = 9444
    """None: no report endpoint, so jobs have no progress; 0 takes any free port."""
    report_url: str = ""
    """What pods are told; empty: the Service."""
    report_address: str = ""
    """Where the Service is told to lead; empty: it has a selector, or is not used."""
    store_endpoints: tuple[str, ...] = ()
    """Servers that the operator's own credentials may be sent to beside the providers' own."""
    store_buckets: tuple[str, ...] = ()
    """Addresses below which they may be used, such as ``s3://training``; none: nowhere, so that
    storage without a Secret is refused."""

    allow_endpoints: tuple[str, ...] = ()
    """``CIDR-or-host[:port]`` of servers that are called though users name them and they are not
    public: stores, registries, token services, brokers."""

    registry: str = ""
    """Below which models and updates are kept as artifacts, such as
    ``oci://registry.corral.local``; empty: nowhere, so nothing larger than a message travels."""
    registry_map: tuple[str, ...] = ()
    """``NAME=URL``: where registries of these names are reached from here; others as hosts."""
    pod_registry_map: tuple[str, ...] = ()
    """The same from within pods; empty: as from here."""
    courier_image: str = "corral/courier"
    """What carries models and updates beside tasks: has Python and this package."""

    kafka: str = ""
    """Bootstrap servers of the Kafka that deployments use, HOST:PORT with commas between; empty:
    there is none."""
    pod_kafka: str = ""
    """The same from within pods; empty: as from here."""
    kafka_secret: str = ""
    """The Secret of each namespace that logs in there, where an object names none; empty: none."""

    machines: MachineSettings = field(default_factory=MachineSettings)
    """Of spot jobs: how they are made."""

    kubelet_ca: str = ""
    """A file with the authorities of kubelets' certificates, which checkpoint containers; empty:
    those of the API server."""
    cert_dir: Path | None = None
    """A folder with tls.crt, tls.key and ca.crt; None: an authority of our own in a Secret."""
    local_root: Path | None = None
    """Where checkpoints of ``storage.local`` lie; for clusters on this machine."""
    local_folders: tuple[tuple[str, Path], ...] = ()
    """Namespaces and folders that their jobs may name in ``storage.local`` and in which the
    operator looks after checkpoints."""
    handle_signals: bool = True

    @property
    def egress(self) -> EgressPolicy:
        """Which servers are called that users name. Raises ValueError."""
        return EgressPolicy.of(self.allow_endpoints)

    @property
    def is_partner(self) -> bool:
        """Whether it works for a leader: it serves nothing, and is never asked who leads."""
        return self.share.index > 0

    @property
    def pod_registries(self) -> dict[str, str]:
        """Name → URL of registries, as pods are told (``CORRAL_REGISTRIES``, as JSON)."""
        pairs = (pair.partition("=") for pair in self.pod_registry_map or self.registry_map)
        return {name: url for name, _, url in pairs}

    @property
    def kafka_for_pods(self) -> str:
        """Bootstrap servers, as pods are told."""
        return self.pod_kafka or self.kafka

    @property
    def reports_to(self) -> str | None:
        """The URL that pods report to."""
        if self.report_port is None:
            return None
        service = f"{REPORTS_SERVICE}.{self.namespace}.svc"
        return (self.report_url or f"https://{service}:{REPORTS_PORT}").rstrip("/")

    @property
    def report_url_host(self) -> str:
        """The host of a URL that was given; empty where it is the Service."""
        return urlsplit(self.report_url).hostname or "" if self.report_url else ""
