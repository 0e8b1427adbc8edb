"""The topics that there are, and taking those of a deployment away."""

from __future__ import annotations

from confluent_kafka import KafkaException as Failure
from confluent_kafka.admin import AdminClient

from corral.podtools.kafka.client import Access, KafkaError, remove
from corral.podtools.kafka.names import Names

__all__ = ["listed", "remove_made"]


def listed(access: Access, *, patience: float = 20.0) -> list[str]:
    """The names of all topics. Raises KafkaError."""
    try:
        return sorted(AdminClient(access.settings()).list_topics(timeout=patience).topics)
    except Failure as error:
        why = error.args[0].str()
        raise KafkaError(f"topics at {access.servers} cannot be listed: {why}") from error


def remove_made(access: Access, deployments: list[Names], *, patience: float = 20.0) -> list[str]:
    """Take away what was made for deployments and for nobody else; which. Raises KafkaError."""
    there = listed(access, patience=patience)
    made = sorted({topic for names in deployments for topic in names.made(there)})
    remove(access, made)
    return made
