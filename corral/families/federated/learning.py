"""What can be set about the controllers of federated learning, and how they are added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.oci import ClientSettings, Endpoint
    from corral.runtime import Manager

__all__ = ["LearningSettings", "register"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings:
    """Of one operator process; durations in seconds, sizes in bytes."""

    registry: str = ""
    """Where models and updates are kept, as oci://HOST/PATH; empty: jobs must say."""
    registries: Mapping[str, Endpoint] = field(default_factory=dict)
    """Names of registries → the servers that they stand for."""
    client: ClientSettings | None = None
    """How patient one call of a registry is; a round tries again until its deadline."""
    workers: int = 10
    """Jobs, and rounds, that are worked on at the same time."""
    timeout: float | None = None
    """For one look at one object: it may wait for a registry; None: no limit."""
    resync: float = 300.0
    """How often everything is looked at though nothing has changed."""
    aggregations: int = 1
    """Rounds that are aggregated at the same time: each needs memory for its model."""
    spool: Path | None = None
    """Where updates lie while they are folded in; the system's place for such files if None."""
    max_update: int = 16 << 30
    """The largest update that is fetched."""
    retry: float = 1.0
    """The first wait after a registry did not answer; doubles up to ``retry_cap``."""
    retry_cap: float = 30.0
    grace: float = 60.0
    """How long an aggregation may wait for a registry though the round's deadline is over."""
    clean_tries: int = 20
    """How often updates that are used up are tried to be deleted."""
    upload_limit: float = 600.0
    """How long a ModelCheckpoint may name a model that is not in its registry."""
    field_manager: str = "corral-federated"


def register(manager: Manager, settings: LearningSettings) -> None:
    """Add the controllers of FederatedJobs, TrainingRounds and ModelCheckpoints to a manager."""
    from corral.families.federated.jobs.family import FederatedJobs
    from corral.families.federated.metrics import LearningMetrics
    from corral.families.federated.modelcheckpoints import ModelCheckpoints
    from corral.families.federated.reconciles import counted
    from corral.families.federated.rounds.reconciler import register as rounds
    from corral.runtime.family import wiring

    metrics = LearningMetrics(manager.metrics.registry) if manager.metrics else None
    wiring.register(manager, FederatedJobs(settings), counted=counted)
    rounds(manager, settings, metrics=metrics)
    wiring.register(manager, ModelCheckpoints(settings, manager.client), counted=counted)
