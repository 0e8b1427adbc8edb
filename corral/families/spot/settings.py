"""How the controllers of spot jobs work: every figure with its default and unit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corral.families.spot.machines.settings import MachineSettings

__all__ = ["SpotSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotSettings:
    """Of one operator process; durations in seconds."""

    report_url: str | None = None
    """Where copies report progress and ask for checkpoint addresses; None: nowhere."""
    report_ca: str = ""
    """The certificate authority of the report endpoint, in PEM."""
    local_root: Path | None = None
    """Where checkpoints of ``checkpointStorage.type: local`` lie; for clusters on this machine."""
    machines: MachineSettings = field(default_factory=MachineSettings)
    courier_image: str = "corral/courier"
    """What fetches images of checkpoints: has Python and this package."""
    registries: Mapping[str, str] = field(default_factory=dict)
    """Name → URL of registries, as pods reach them."""
    registry_map: tuple[str, ...] = ()
    """``NAME=URL`` of registries, as they are reached from here."""
    registry_token: Callable[[], str] | None = field(default=None, repr=False)
    """Who the operator is to the cluster's own registry."""
    kubelet_ca: str | None = None
    """A file with the authorities of kubelets' certificates; None: those of the API server."""
    kubelet_account: str = ""
    """``NAMESPACE/NAME`` of the ServiceAccount whose tokens kubelets are shown where the operator
    has no client certificate; empty: none, and then kubelets are not asked."""
    workers: int = 10
    """Objects of each kind that are worked on at the same time."""
    resync: float = 300.0
    """How often everything is looked at though nothing has changed."""
    timeout: float = 120.0
    """For one look at one object."""
    field_manager: str = "corral-spot"
    kept_placements: int = 20
    """How many machines that have ended a job's status names."""
    kept_copies: int = 3
    """How many Jobs of a copy that have failed stay, so that their logs can be read."""
    retry: float = 1.0
    """The first wait before a copy that failed by itself is started again; doubles."""
    retry_cap: float = 300.0
    apart: float = 0.05
    """How much more a machine may cost that is not in the zone of another copy."""
    notice_margin: float = 1.5
    """What must be left of a notice beside the checkpoint that is made in it."""
    cost_period: float = 60.0
    """How often what a job costs is written though nothing else has changed."""
    boot_s: float = 240.0
    """About how long a machine takes to be a node, where no machine of the job was one yet."""
