"""What a strategy is, and what the families of them share.

A strategy is made from its name and its configuration, which is checked at once: every parameter it
knows has a default and a range, and an unknown one is an error. It sees a round as three calls:
`collector` gives what takes the updates, `finish` turns what was collected, the current global
model and the strategy's own state into the next global model and the next state. A strategy object
holds no state of rounds: whoever keeps models keeps the state beside them, so a process that
was killed goes on exactly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from corral.learning.averages import Average
from corral.learning.collected import Collected
from corral.learning.errors import InvalidConfig
from corral.learning.tensors import Model, Update


@dataclass(frozen=True)
class Number:
    """A parameter of a strategy: its default, its range, and whether it is whole."""

    default: float
    low: float = 0.0
    high: float = float("inf")
    whole: bool = False
    open: bool = False  # the upper end itself is not allowed

    def check(self, name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidConfig(f"{name} must be a number, not {value!r}")
        if self.whole and value != int(value):
            raise InvalidConfig(f"{name} must be a whole number, not {value!r}")
        above = value >= self.high if self.open else value > self.high
        if not value >= self.low or above:
            bracket = ")" if self.open else "]"
            raise InvalidConfig(f"{name} must be in [{self.low:g}, {self.high:g}{bracket}")
        return value


@dataclass(frozen=True)
class Limits:
    """How much memory updates that must be seen together may take, and where the rest goes."""

    memory: int
    folder: Path | None
    expected: int


class Collector(Protocol):
    """What takes the updates of one round."""

    def add(self, updates: Sequence[Update]) -> list[int]:
        """Takes updates of one layout; the indexes of those with values that are not finite."""


@dataclass(frozen=True)
class Outcome:
    """The next global model, and what the strategy wants to be given in the next round."""

    model: Model
    state: Model | None = None


class Strategy(ABC):
    """One way to make a global model of updates."""

    name: ClassVar[str]
    parameters: ClassVar[Mapping[str, Number]] = {}
    needs_current: ClassVar[bool] = False
    """Whether the next model depends on the current one beside the updates."""
    squares: ClassVar[bool] = False
    """Whether values are squared: those whose square is no number are refused, one by one."""

    def __init__(self, config: Mapping[str, object] | None = None) -> None:
        given = dict(config or {})
        unknown = sorted(set(given) - set(self.parameters))
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise InvalidConfig(f"{self.name} has no parameter {unknown[0]!r} (it has: {known})")
        self.config = {
            key: number.check(key, given.get(key, number.default))
            for key, number in self.parameters.items()
        }

    def client_config(self) -> dict[str, float]:
        """What clients must be told."""
        return {}

    @abstractmethod
    def collector(self, example: Model, limits: Limits) -> Collector:
        """What takes the updates of a round."""

    @abstractmethod
    def finish(self, collector: Collector, current: Model | None, state: Model | None) -> Outcome:
        """The round's result; the collector is used up."""


class AveragingCollector:
    """Adds updates to the weighted mean."""

    def __init__(self, example: Model, limits: Limits) -> None:
        self.average = Average(example, expected=limits.expected)

    def add(self, updates: Sequence[Update]) -> list[int]:
        models = [update.model for update in updates if update.model is not None]
        return self.average.add(models, [update.samples for update in updates])


class Averaging(Strategy):
    """Strategies that need the mean of the updates and nothing else."""

    def collector(self, example: Model, limits: Limits) -> Collector:
        return AveragingCollector(example, limits)

    def finish(self, collector: Collector, current: Model | None, state: Model | None) -> Outcome:
        assert isinstance(collector, AveragingCollector)
        return self.combine(collector.average.take(), current, state)

    def combine(self, mean: Model, current: Model | None, state: Model | None) -> Outcome:
        return Outcome(mean)


class KeepingCollector:
    """Keeps updates until the round ends."""

    def __init__(self, example: Model, limits: Limits) -> None:
        self.updates = Collected(example, memory=limits.memory, folder=limits.folder)

    def add(self, updates: Sequence[Update]) -> list[int]:
        bad = []
        for index, update in enumerate(updates):
            assert update.model is not None
            if not self.updates.add(update.client, update.model):
                bad.append(index)
        return bad


class Robust(Strategy):
    """Strategies that compare the updates with each other; every client has one voice.

    Sample counts are what clients say of themselves, so they give no weight here.
    """

    def collector(self, example: Model, limits: Limits) -> Collector:
        return KeepingCollector(example, limits)

    def finish(self, collector: Collector, current: Model | None, state: Model | None) -> Outcome:
        assert isinstance(collector, KeepingCollector)
        try:
            return Outcome(self.reduce(collector.updates))
        finally:
            collector.updates.close()

    @abstractmethod
    def reduce(self, updates: Collected) -> Model:
        """The result of all updates."""
