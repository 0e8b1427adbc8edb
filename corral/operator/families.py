"""The families of kinds that an operator looks after.

A family brings its controllers (`register`), its webhooks, and the rights that it needs. Their
modules are loaded when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corral.operator import rbac, sections
from corral.operator.sections import Surroundings

if TYPE_CHECKING:
    from corral.kube.client import KubeClient
    from corral.operator.settings import ProcessSettings
    from corral.runtime import Manager
    from corral.runtime.webhooks import Hooks

__all__ = ["FAMILIES", "Family", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Family:
    """Controllers, webhooks and rights."""

    name: str
    register: Callable[[Manager, Surroundings], None]
    hooks: Callable[[Hooks, KubeClient | None, ProcessSettings], None]
    """The client is for rules that depend on the cluster; without one, those of every cluster."""
    rules: tuple[rbac.Rule, ...]
    """In the whole cluster."""
    shared: bool = False
    """Whether several processes may share its keys: its controllers know of each other by the API
    only."""


def _register_trainingjob(manager: Manager, around: Surroundings) -> None:
    from corral.families.trainingjob import register
    from corral.families.trainingjob.checkpoints import controller
    from corral.operator.reporting import store_rules

    training = sections.training_settings(around)
    register(manager, training)
    controller.register(manager, training, rules=store_rules(around.settings))


def _hook_trainingjob(hooks: Hooks, client: KubeClient | None, settings: ProcessSettings) -> None:
    from corral.families.trainingjob.webhooks import register_hooks

    register_hooks(hooks)


def _register_mpijob(manager: Manager, around: Surroundings) -> None:
    from corral.families.mpijob import register

    register(manager, sections.mpi_settings(around))


def _hook_mpijob(hooks: Hooks, client: KubeClient | None, settings: ProcessSettings) -> None:
    from time import monotonic

    from corral.families.mpijob.webhooks import ClientContexts, register_hooks

    source = None
    if client is not None:
        source = ClientContexts(client, clock=monotonic, gang_scheduler=settings.gang_scheduler)
    register_hooks(hooks, source)


def _register_federated(manager: Manager, around: Surroundings) -> None:
    from corral.families.federated import learning, wiring

    wiring.register(manager, sections.federated_settings(around))
    learning.register(manager, sections.learning_settings(around, _own_token(manager)))


def _own_token(manager: Manager) -> Callable[[], str] | None:
    """Who the operator is to registries of the cluster's own: who it is to the API server."""
    config = manager.client.config
    if config.token_file:
        return lambda: Path(config.token_file).read_text().strip()
    return (lambda: config.token) if config.token else None


def _register_kafkaml(manager: Manager, around: Surroundings) -> None:
    from corral.families.kafkaml import wiring

    wiring.register(manager, sections.kafkaml_settings(around))


def _register_spot(manager: Manager, around: Surroundings) -> None:
    from corral.families.spot import wiring

    wiring.register(manager, sections.spot_settings(around, _own_token(manager)))


def _hook_spot(hooks: Hooks, client: KubeClient | None, settings: ProcessSettings) -> None:
    from corral.families.spot.webhooks import register_hooks

    register_hooks(hooks)


def _hook_kafkaml(hooks: Hooks, client: KubeClient | None, settings: ProcessSettings) -> None:
    from corral.families.kafkaml.webhooks import register_hooks

    register_hooks(hooks)


def _hook_federated(hooks: Hooks, client: KubeClient | None, settings: ProcessSettings) -> None:
    from corral.families.federated.webhooks import register_hooks

    register_hooks(hooks)


FAMILIES: tuple[Family, ...] = (
    Family(
        "trainingjob", _register_trainingjob, _hook_trainingjob, rbac.TRAINING_RULES, shared=True
    ),
    Family("mpijob", _register_mpijob, _hook_mpijob, rbac.MPI_RULES, shared=True),
    Family("spot", _register_spot, _hook_spot, rbac.SPOT_RULES),
    Family("federated", _register_federated, _hook_federated, rbac.FEDERATED_RULES),
    Family("kafkaml", _register_kafkaml, _hook_kafkaml, rbac.KAFKAML_RULES),
)
