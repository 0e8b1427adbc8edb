"""How the controllers of the family are added to a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.families.kafkaml.settings import KafkaMLSettings

if TYPE_CHECKING:
    from corral.runtime import Manager

__all__ = ["register"]


def register(manager: Manager, settings: KafkaMLSettings) -> None:
    """Add all of them."""
    from corral.families.kafkaml import listening
    from corral.families.kafkaml.configurations import Configurations
    from corral.families.kafkaml.datasources import Datasources
    from corral.families.kafkaml.deployments.family import Deployments
    from corral.families.kafkaml.inferences import Inferences
    from corral.families.kafkaml.models import Models
    from corral.runtime.family import wiring

    for family in (Models, Configurations, Datasources, Inferences):
        wiring.register(manager, family(settings))
    wiring.register(manager, Deployments(settings, manager.client))
    listening.register(manager, settings)
