"""When virtual clients answer, and which of them fail: by a seed, not by chance. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

__all__ = ["Arrivals"]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Seconds are those of the simulation."""

    latency: float = 1.0
    """How long a client takes, in the middle."""
    spread: float = 0.0
    """How much clients differ: of the logarithm of the time; 0: not at all."""
    failing: float = 0.0
    """The share of the clients that fail in a round."""
    seed: int = 0

    def seconds(self, client: str, number: int) -> float:
        """How long a client takes in a round."""
        if not self.spread:
            return self.latency
        chance = Random(f"{self.seed}/time/{number}/{client}")
        return self.latency * math.exp(self.spread * chance.gauss())

    def fails(self, client: str, number: int) -> bool:
        if not self.failing:
            return False
        return Random(f"{self.seed}/fail/{number}/{client}").random() < self.failing
