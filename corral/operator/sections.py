"""The settings of every family, made of those of the process.

What means the same to all families (`_SHARED`) is forwarded by construction: a family whose
settings have such a field is given it, and none can be forgotten. What is a family's own is named
in its function here. A family's modules are loaded when its settings are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from corral.operator import rbac

if TYPE_CHECKING:
    from corral.families.federated.learning import LearningSettings
    from corral.families.federated.settings import FederatedSettings
    from corral.families.kafkaml.settings import KafkaMLSettings
    from corral.families.mpijob import MPISettings
    from corral.families.spot.settings import SpotSettings
    from corral.families.trainingjob import TrainingSettings
    from corral.operator.settings import ProcessSettings

__all__ = [
    "Surroundings",
    "Token",
    "federated_settings",
    "kafkaml_settings",
    "learning_settings",
    "mpi_settings",
    "section",
    "spot_settings",
    "training_settings",
]

T = TypeVar("T")
Token = Callable[[], str] | None
"""Who the operator is to registries of the cluster's own; None: nobody."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What families are told beside the settings of the process."""

    settings: ProcessSettings
    authority: str
    """The certificate authority of the report endpoint, in PEM."""

    @property
    def pod_registry_map(self) -> tuple[str, ...]:
        """``NAME=URL`` of registries, as they are reached from within pods."""
        return tuple(f"{name}={url}" for name, url in self.settings.pod_registries.items())


_SHARED: Final[Mapping[str, Callable[[Surroundings], Any]]] = {
    "courier_image": lambda around: around.settings.courier_image,
    "egress": lambda around: around.settings.egress,
    "local_root": lambda around: around.settings.local_root,
    "registry": lambda around: around.settings.registry,
    "report_ca": lambda around: around.authority,
    "report_url": lambda around: around.settings.reports_to,
    "resync": lambda around: around.settings.resync,
    "workers": lambda around: around.settings.workers,
}
"""By the names of fields."""


def section(kind: type[T], around: Surroundings, **own: Any) -> T:
    """The settings of a family: what is shared, where it has a field of that name, and its own."""
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    shared = {name: value(around) for name, value in _SHARED.items() if name in names}
    return kind(**{**shared, **own})


def training_settings(around: Surroundings) -> TrainingSettings:
    from corral.families.trainingjob import TrainingSettings

    return section(TrainingSettings, around)


def mpi_settings(around: Surroundings) -> MPISettings:
    from corral.families.mpijob import MPISettings, ObjectSettings

    settings = around.settings
    return section(
        MPISettings,
        around,
        objects=ObjectSettings(
            cluster_domain=settings.cluster_domain, gang_scheduler=settings.gang_scheduler
        ),
        agent=settings.mpi_agent,
        # Where it is used at all there are process nodes, though they may not have joined yet.
        agent_by_default=settings.mpi_agent,
    )


def federated_settings(around: Surroundings) -> FederatedSettings:
    from corral.families.federated.settings import FederatedSettings

    return section(FederatedSettings, around, registry_map=around.pod_registry_map)


def learning_settings(around: Surroundings, token: Token = None) -> LearningSettings:
    from corral.families.federated.learning import LearningSettings
    from corral.oci.registries import endpoints
    from corral.oci.settings import ClientSettings

    settings = around.settings
    return section(
        LearningSettings,
        around,
        registries=endpoints(settings.registry_map, token=token),
        client=ClientSettings(egress=settings.egress),
    )


def kafkaml_settings(around: Surroundings) -> KafkaMLSettings:
    from corral.families.kafkaml.settings import KafkaMLSettings

    settings = around.settings
    return section(
        KafkaMLSettings,
        around,
        kafka=settings.kafka_for_pods,
        own_kafka=settings.kafka,
        secret=settings.kafka_secret,
        registry_map=around.pod_registry_map,
    )


def spot_settings(around: Surroundings, token: Token = None) -> SpotSettings:
    from corral.families.spot.settings import SpotSettings

    settings = around.settings
    return section(
        SpotSettings,
        around,
        registries=settings.pod_registries,
        registry_map=settings.registry_map,
        registry_token=token,
        kubelet_ca=settings.kubelet_ca or None,
        kubelet_account=f"{settings.namespace}/{rbac.KUBELETS}",
        machines=replace(settings.machines, workers=settings.workers, resync=settings.resync),
    )
