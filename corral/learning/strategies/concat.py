"""concat: payloads joined as they are, in the order of the participants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.learning.errors import AggregationFailed
from corral.learning.strategies.base import Collector, Limits, Outcome, Strategy
from corral.learning.tensors import Model, Update


class Concat(Strategy):
    """Takes opaque bytes; the engine joins them (`Aggregation.finish`)."""

    name: ClassVar[str] = "concat"

    def collector(self, example: Model, limits: Limits) -> Collector:
        raise AggregationFailed("concat joins bytes, it does not take models")

    def finish(self, collector: Collector, current: Model | None, state: Model | None) -> Outcome:
        raise AggregationFailed("concat joins bytes, it does not make models")


def in_order(updates: Sequence[Update], participants: Sequence[str]) -> list[Update]:
    """Participants as listed, then everybody else by name."""
    rank = {client: number for number, client in enumerate(participants)}
    return sorted(updates, key=lambda update: (rank.get(update.client, len(rank)), update.client))
