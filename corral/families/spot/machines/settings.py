"""How the controller of machines works: every figure with its default and unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.clouds.sweep import GRACE_S
from corral.egress.policy import EgressPolicy

__all__ = ["LocalVms", "MachineSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalVms:
    """Machines that are processes of this one (``spec.local``)."""

    folder: Path
    """Where they are kept; whoever uses the same folder sees the same machines."""
    authority: Path | None = None
    """A folder with ca.crt and ca.key, by which the API server knows nodes; None: where the
    operator's kubeconfig finds the server's own."""
    options: tuple[str, ...] = ()
    """More words for ``corral node``."""
    groups: tuple[str, ...] = ("system:nodes", "corral:nodes")
    """What their nodes belong to, to the API server."""
    stop_grace_s: float = 10.0
    """How long a machine that is deleted may take to end its pods."""
    spot_price: float = 0.3
    on_demand_price: float = 1.0
    """An hour, of every machine type."""
    most: int = 32
    """How many there can be in all; each one is a node agent with its pods."""
    most_per_namespace: int = 8
    """How many jobs of one namespace can have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSettings:
    """Of one operator process; durations in seconds."""

    local: LocalVms | None = None
    """None: ``spec.local`` is refused."""
    cloud_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """More options of clouds (`corral.clouds.opening`), before what objects say: endpoints, say."""
    egress: EgressPolicy = field(default_factory=EgressPolicy)
    """What is called of what Secrets name beside public servers."""
    lent: tuple[str, ...] = ()
    """``NAMESPACE=CLOUD[:ACCOUNT]``: whose jobs without a Secret use the operator's own identity,
    and in which project (gcp) or subscription (azure); ``*`` stands for every namespace."""
    join_namespaces: tuple[str, ...] = ()
    """Whose machines the operator makes join tokens for: their authors can make nodes of the
    cluster. Others name a Secret with a token that was made for them."""
    owner: str = ""
    """On every machine of ours; empty: made of the cluster's own id."""
    workers: int = 10
    resync: float = 300.0
    """How often everything is looked at though nothing has changed."""
    timeout: float = 60.0
    """For one look at one object."""
    work_s: float = 1200.0
    """For one request to a cloud, its waiting included."""
    look: float = 30.0
    """How often a machine is looked at though its cloud says nothing."""
    boot: float = 3.0
    """How often while its cloud is making it."""
    prices: float = 300.0
    """How often prices are asked for."""
    retry: float = 1.0
    """The first wait before a cloud is asked again; doubles."""
    retry_cap: float = 60.0
    join: float = 900.0
    """How long a machine may take to become a node."""
    silent: float = 180.0
    """How long a machine's node may not be ready before the machine counts as lost."""
    sweep: float = 60.0
    """How often clouds are searched for machines that nothing owns."""
    sweep_grace: float = GRACE_S
    """How long such a machine must have been seen."""
    kept: int = 20
    """How many machines that are over a status names."""
    field_manager: str = "corral-spot-machines"
