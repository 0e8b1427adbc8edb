"""How the controllers of ``kafkaml.corral.dev`` work: every figure with its default and unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from corral.egress.policy import EgressPolicy, EndpointRefused

__all__ = ["KafkaMLSettings"]


@dataclass(frozen=True, slots=True)
class KafkaMLSettings:
    """Of one operator process; durations in seconds."""

    kafka: str = ""
    """The bootstrap servers that pods use; empty: every deployment must name its own."""
    own_kafka: str = ""
    """The same as the operator itself reaches them; as pods do if empty."""
    secret: str = ""
    """The Secret of each namespace that logs in there, where an object names none; empty: none."""
    registry: str = ""
    """Where models are kept, as ``oci://registry.corral.local``."""
    registry_map: tuple[str, ...] = ()
    """``NAME=URL`` of registries that pods reach elsewhere than their names say."""
    courier_image: str = "corral/courier"
    images: Mapping[str, str] = field(
        default_factory=lambda: {
            "numpy": "corral/kafkaml-numpy",
            "tf": "corral/kafkaml-tensorflow",
            "pth": "corral/kafkaml-pytorch",
        }
    )
    """What models of a framework are checked, trained and asked in."""
    server_image: str = "corral/kafkaml-server"
    workers: int = 4
    resync: float = 300.0
    timeout: float = 60.0
    field_manager: str = "corral-kafkaml"
    client_ttl: int = 100
    """Seconds for which the Job of a client stays after its end."""
    client_backoff: int = 1
    """Failures of a client that are answered by another try."""
    server_backoff: int = 10
    log_timeout: float = 3.0
    """For the end of a server's log, where it says how far it is."""
    log_lines: int = 5
    log_bytes: int = 262_144
    topics_patience: float = 60.0
    """For topics that go with their deployment: how long that waits for a broker."""
    poll: float = 5.0
    """How often a running deployment is looked at though nothing has changed."""
    listen: float = 1.0
    """How often announcements of data are looked for."""
    listen_again: float = 5.0
    """The same, where a broker does not answer."""
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    """Which brokers beside its own the operator connects to itself: only those it names. A broker
    sends its clients on to others, and those cannot be checked."""
    announced: int = 1000
    """Announced Datasources that a namespace keeps; older ones that nobody uses go."""

    def check_servers(self, servers: str) -> None:
        """Whether the operator itself connects to bootstrap servers that a deployment names.

        Raises:
            EndpointRefused: it does not.
        """
        if servers in (self.kafka, self.own_kafka):
            return
        for server in servers.split(","):
            host, _, port = server.strip().rpartition(":")
            number = int(port) if port.isdecimal() and len(port) < 6 else 0
            if not self.egress.names(host.strip("[]"), number):
                raise EndpointRefused(
                    f"the operator does not connect to the broker {server.strip()}; an "
                    "administrator can allow it (the operator's --allow-endpoint)"
                )
