"""Asynchronous rounds: clients send when they are done; every few updates make a new model.

After FedBuff (Nguyen et al., 2022): an update is a *change* of the version its client started
from; a stale one counts less, by 1/sqrt(1 + how many versions ago), and one that is too stale not
at all. When `size` changes are there, their mean times `learning_rate` moves the model. Within one
buffer the order of arrival does not matter, bit for bit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corral.learning.averages import Average
from corral.learning.errors import AggregationFailed, InvalidConfig, UpdateRejected
from corral.learning.tensors import Model, Update, Vector, matches

UNIT = 1 << 16
"""The weight of a change that is not stale: weights are whole numbers."""


@dataclass(frozen=True)
class BufferSettings:
    size: int = 10
    """Changes that make a new version."""

    learning_rate: float = 1.0
    max_staleness: int = 20
    """Versions; an older change is refused."""

    def __post_init__(self) -> None:
        if not 1 <= self.size < 1 << 14:
            raise InvalidConfig("a buffer takes 1 to 16383 updates")
        if not self.learning_rate > 0 or self.max_staleness < 0:
            raise InvalidConfig("learning_rate must be more than 0, max_staleness not negative")


class Buffered:
    """The current model, its version, and the changes that wait for the next one."""

    def __init__(
        self, model: Model, *, version: int = 0, settings: BufferSettings | None = None
    ) -> None:
        self.model = model
        self.version = version
        self.settings = settings or BufferSettings()
        self._begin()

    def _begin(self) -> None:
        self._average = Average(self.model, expected=self.settings.size * UNIT)
        self._counted: set[tuple[str, int]] = set()

    @property
    def waiting(self) -> int:
        return len(self._counted)

    def add(self, update: Update, *, started_from: int) -> bool:
        """Counts a change of version `started_from`; True when it made a new version."""
        staleness = self.version - started_from
        reason = self._refuse(update, started_from, staleness)
        if reason:
            raise UpdateRejected(reason, client=update.client)
        assert update.model is not None
        weight = max(round(UNIT / math.sqrt(1 + staleness)), 1)
        if self._average.add([update.model], [weight]):
            raise UpdateRejected("it holds a NaN or an infinity", client=update.client)
        self._counted.add((update.client, started_from))
        if self.waiting < self.settings.size:
            return False
        self._advance()
        return True

    def _refuse(self, update: Update, started_from: int, staleness: int) -> str:
        if update.model is None:
            return "it has no model"
        if staleness < 0:
            return f"version {started_from} does not exist yet"
        if staleness > self.settings.max_staleness:
            return f"it is {staleness} versions old"
        if (update.client, started_from) in self._counted:
            return "it has been counted already"
        return matches(self.model.layout, update.model.layout)

    def _advance(self) -> None:
        share = self._average.weight / (UNIT * self.settings.size)
        change = self._average.take()
        rate = self.settings.learning_rate * share
        vectors: list[Vector] = []
        with np.errstate(over="ignore"):
            for old, step in zip(self.model.vectors, change.vectors, strict=True):
                np.multiply(step, rate, out=step)
                np.add(step, old, out=step)
                vectors.append(step)
        model = self.model.like(vectors)
        if not model.is_finite():
            self._begin()
            raise AggregationFailed("the new version would be too large for its type")
        self.model = model
        self.version += 1
        self._begin()
