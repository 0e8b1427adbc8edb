"""What rounds of a subsampled Gaussian mechanism cost, in Rényi differential privacy.

The cost of one round is bounded at every whole order from 2 to 256 (Mironov, Talwar, Zhang, 2019,
for Poisson sampling), costs add up over rounds, and are turned into (epsilon, delta) by the best
order (Canonne, Kamath, Steinke, 2020). All of it is a true upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from corral.learning.errors import BudgetExhausted, InvalidConfig

ORDERS = tuple(range(2, 257))


@dataclass(frozen=True)
class Budget:
    """What a job may spend."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not self.epsilon > 0:
            raise InvalidConfig("epsilon must be more than 0")
        if not 0 < self.delta < 1:
            raise InvalidConfig("delta must be between 0 and 1")


class Accountant:
    """The cost so far; `spent` is plain data that can be kept and given back."""

    def __init__(self, spent: Sequence[float] = ()) -> None:
        if spent and len(spent) != len(ORDERS):
            raise InvalidConfig(f"{len(spent)} costs for {len(ORDERS)} orders")
        self.spent = tuple(spent) or (0.0,) * len(ORDERS)

    def after(self, sampling: float, noise: float, *, rounds: int = 1) -> Accountant:
        """The account after more rounds; this one stays as it is."""
        costs = _costs(sampling, noise)
        return Accountant([old + rounds * new for old, new in zip(self.spent, costs, strict=True)])

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon that is true at this delta."""
        best = min(
            cost + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            for order, cost in zip(ORDERS, self.spent, strict=True)
        )
        return max(best, 0.0) if any(self.spent) else 0.0

    def spend(self, sampling: float, noise: float, *, budget: Budget) -> Accountant:
        """The account after one more round; raises `BudgetExhausted` when it may not be."""
        account = self.after(sampling, noise)
        epsilon = account.epsilon(budget.delta)
        if epsilon > budget.epsilon:
            raise BudgetExhausted(
                f"another round would cost epsilon {epsilon:.3f} of {budget.epsilon:g}"
                f" at delta {budget.delta:g}"
            )
        return account

    def rounds_left(self, sampling: float, noise: float, *, budget: Budget) -> int:
        """How many rounds of this kind the budget still holds (at most a million)."""
        low, high = 0, 1_000_000
        while low < high:
            middle = (low + high + 1) // 2
            cost = self.after(sampling, noise, rounds=middle).epsilon(budget.delta)
            low, high = (middle, high) if cost <= budget.epsilon else (low, middle - 1)
        return low


@lru_cache(maxsize=64)
def _costs(sampling: float, noise: float) -> tuple[float, ...]:
    """What one round costs at every order; jobs ask for the same again and again."""
    return tuple(_cost(order, sampling, noise) for order in ORDERS)


def _cost(order: int, sampling: float, noise: float) -> float:
    """Rényi divergence of one round at a whole order."""
    if not 0 < sampling <= 1:
        raise InvalidConfig("the sampled part of the clients must be in (0, 1]")
    if not noise > 0:
        return math.inf
    if sampling == 1:
        return order / (2 * noise**2)
    terms = [
        _log_choose(order, k)
        + k * math.log(sampling)
        + (order - k) * math.log1p(-sampling)
        + (k * k - k) / (2 * noise**2)
        for k in range(order + 1)
    ]
    top = max(terms)
    return max(top + math.log(math.fsum(math.exp(term - top) for term in terms)), 0.0) / (order - 1)


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
