"""How the controllers of ``propeller.absmach.io`` work: every figure with its default and unit."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FederatedSettings"]


@dataclass(frozen=True, slots=True)
class FederatedSettings:
    """Of one operator process; durations in seconds."""

    registry: str = ""
    """Where models and updates are kept, as ``oci://registry.corral.local``; empty: nowhere, so an
    update must fit into a termination message or an annotation."""
    registry_map: tuple[str, ...] = ()
    """``NAME=URL`` of registries that are reached elsewhere than their names say."""
    courier_image: str = "corral/courier"
    """Has Python and this package; carries models and updates beside a task."""
    module_image: str = "corral/module"
    """For tasks whose module comes with the task: an image that need not hold anything."""
    workers: int = 10
    """Objects of each kind that are worked on at the same time."""
    resync: float = 300.0
    """How often everything is looked at though nothing has changed."""
    timeout: float = 120.0
    """For one look at one object."""
    field_manager: str = "corral-federated"
    backoff_limit: int = 3
    """Failures of a task that are answered by another try, where it says nothing."""
    refresh: float = 30.0
    """How often groups look at their proplets though nothing has changed."""
    heartbeat_timeout: float = 40.0
    """A proplet that has not been alive for this long loses its tasks, where no group says."""
    waiting_retry: float = 5.0
    """How often a task that waits for a proplet asks again though nothing has changed."""
    poll: float = 10.0
    """How often a running task is asked for partial results and readings."""
    delivery_grace: int = 300
    """For an update to be delivered when its task has ended."""
    seed: int = 0
    """Of the random choice of proplets."""
    log_timeout: float = 3.0
    """For the end of a task's log."""
    log_lines: int = 40
    log_bytes: int = 262_144
