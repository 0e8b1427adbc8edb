"""How the cluster that MPIJobs run in is set up, as far as their objects depend on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["SSHD", "VOLCANO", "ObjectSettings"]

VOLCANO: Final = "volcano"
SSHD: Final = ("/usr/sbin/sshd", "-De")


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """What the builders need to know beside the job."""

    cluster_domain: str = ""
    """Ends the names of hosts, such as ``cluster.local``; empty: they end with ``.svc``."""
    gang_scheduler: str = ""
    """``volcano``, the name of a scheduler with scheduler-plugins, or empty: no PodGroups."""
    worker_command: tuple[str, ...] = SSHD
    """What a worker runs that has neither command nor arguments."""
    remote_agent: str = ""
    """The program that a launcher starts processes on workers with; empty: ssh."""
