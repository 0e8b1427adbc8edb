"""How the controllers of the family are added to a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.families.kafkaml.settings import KafkaMLSettings

if TYPE_CHECKING:
    from corral.runtime import Manager

__all__ = ["register"]


def register(manager: Manager, settings: KafkaMLSettings) -> None:
    """Add all of them."""
    from corral.families.kafkaml import deployments, inferences, listening, models, records

    models.register(manager, settings)
    records.register(manager, settings)
    deployments.register(manager, settings)
    listening.register(manager, settings)
    inferences.register(manager, settings)
