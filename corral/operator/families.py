"""The families of kinds that an operator looks after.

A family brings its controllers (`register`), its webhooks, and the rights that it needs. Their
modules are loaded when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corral.operator import rbac

if TYPE_CHECKING:
    from corral.kube.client import KubeClient
    from corral.operator.settings import ProcessSettings
    from corral.runtime import Manager
    from corral.runtime.webhooks import Hooks

__all__ = ["FAMILIES", "Family", "Surroundings"]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What families are told beside the settings of the process."""

    settings: ProcessSettings
    authority: str
    """The certificate authority of the report endpoint, in PEM."""


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


def _register_trainingjob(manager: Manager, surroundings: Surroundings) -> None:
    from corral.families.trainingjob import TrainingSettings, register
    from corral.families.trainingjob.checkpoints import controller
    from corral.operator.reporting import store_rules

    settings = surroundings.settings
    training = TrainingSettings(
        report_url=settings.reports_to,
        report_ca=surroundings.authority,
        workers=settings.workers,
        resync=settings.resync,
        local_root=settings.local_root,
    )
    register(manager, training)
    controller.register(manager, training, rules=store_rules(settings))


def _hook_trainingjob(hooks: Hooks, client: KubeClient | None, settings: ProcessSettings) -> None:
    from corral.families.trainingjob.webhooks import register_hooks

    register_hooks(hooks)


def _register_mpijob(manager: Manager, surroundings: Surroundings) -> None:
    from corral.families.mpijob import MPISettings, ObjectSettings, register

    settings = surroundings.settings
    objects = ObjectSettings(
        cluster_domain=settings.cluster_domain, gang_scheduler=settings.gang_scheduler
    )
    mpi = MPISettings(
        objects=objects,
        agent=settings.mpi_agent,
        # Where it is used at all there are process nodes, though they may not have joined yet.
        agent_by_default=settings.mpi_agent,
        workers=settings.workers,
        resync=settings.resync,
    )
    register(manager, mpi)


def _hook_mpijob(hooks: Hooks, client: KubeClient | None, settings: ProcessSettings) -> None:
    from time import monotonic

    from corral.families.mpijob.webhooks import ClientContexts, register_hooks

    source = None
    if client is not None:
        source = ClientContexts(client, clock=monotonic, gang_scheduler=settings.gang_scheduler)
    register_hooks(hooks, source)


def _register_federated(manager: Manager, surroundings: Surroundings) -> None:
    from corral.families.federated import learning, wiring
    from corral.families.federated.settings import FederatedSettings
    from corral.oci.registries import endpoints
    from corral.oci.settings import ClientSettings

    settings = surroundings.settings
    tasks = FederatedSettings(
        registry=settings.registry,
        registry_map=tuple(f"{name}={url}" for name, url in settings.pod_registries.items()),
        courier_image=settings.courier_image,
        workers=settings.workers,
        resync=settings.resync,
    )
    wiring.register(manager, tasks)
    learning.register(
        manager,
        learning.LearningSettings(
            registry=settings.registry,
            registries=endpoints(settings.registry_map, token=_own_token(manager)),
            client=ClientSettings(egress=settings.egress),
            workers=settings.workers,
            resync=settings.resync,
        ),
    )


def _own_token(manager: Manager) -> Callable[[], str] | None:
    """Who the operator is to registries of the cluster's own: who it is to the API server."""
    config = manager.client.config
    if config.token_file:
        return lambda: Path(config.token_file).read_text().strip()
    return (lambda: config.token) if config.token else None


def _register_kafkaml(manager: Manager, surroundings: Surroundings) -> None:
    from corral.families.kafkaml import wiring
    from corral.families.kafkaml.settings import KafkaMLSettings

    settings = surroundings.settings
    kafkaml = KafkaMLSettings(
        kafka=settings.kafka_for_pods,
        own_kafka=settings.kafka,
        secret=settings.kafka_secret,
        registry=settings.registry,
        registry_map=tuple(f"{name}={url}" for name, url in settings.pod_registries.items()),
        resync=settings.resync,
        egress=settings.egress,
    )
    wiring.register(manager, kafkaml)


def _register_spot(manager: Manager, surroundings: Surroundings) -> None:
    from corral.families.spot import wiring
    from corral.families.spot.settings import SpotSettings

    settings = surroundings.settings
    spot = SpotSettings(
        report_url=settings.reports_to,
        report_ca=surroundings.authority,
        local_root=settings.local_root,
        courier_image=settings.courier_image,
        registries=settings.pod_registries,
        registry_map=settings.registry_map,
        registry_token=_own_token(manager),
        kubelet_ca=settings.kubelet_ca or None,
        kubelet_account=f"{settings.namespace}/{rbac.KUBELETS}",
        workers=settings.workers,
        resync=settings.resync,
        machines=settings.machines,
    )
    wiring.register(manager, spot)


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
