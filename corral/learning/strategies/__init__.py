"""The strategies by name: `strategy(name, config)`; see `base` for what one is."""

from __future__ import annotations

from collections.abc import Mapping

from corral.learning.errors import InvalidConfig
from corral.learning.strategies.base import Averaging, Outcome, Robust, Strategy
from corral.learning.strategies.bulyan import Bulyan
from corral.learning.strategies.concat import Concat
from corral.learning.strategies.fedadagrad import FedAdagrad
from corral.learning.strategies.fedadam import FedAdam
from corral.learning.strategies.fedavg import FedAvg
from corral.learning.strategies.fedavgm import FedAvgM
from corral.learning.strategies.fedprox import FedProx
from corral.learning.strategies.fedyogi import FedYogi
from corral.learning.strategies.krum import Krum
from corral.learning.strategies.median import Median
from corral.learning.strategies.multi_krum import MultiKrum
from corral.learning.strategies.trimmed_mean import TrimmedMean

STRATEGIES: dict[str, type[Strategy]] = {
    kind.name: kind
    for kind in (
        FedAvg,
        FedProx,
        FedAvgM,
        FedAdam,
        FedAdagrad,
        FedYogi,
        Median,
        TrimmedMean,
        Krum,
        MultiKrum,
        Bulyan,
        Concat,
    )
}


def strategy(name: str, config: Mapping[str, object] | None = None) -> Strategy:
    """The strategy of a name ("" is fedavg); raises `InvalidConfig`."""
    kind = STRATEGIES.get((name or "fedavg").lower())
    if kind is None:
        raise InvalidConfig(f"unknown algorithm {name!r} (there are: {', '.join(STRATEGIES)})")
    return kind(config)


__all__ = ["STRATEGIES", "Averaging", "Outcome", "Robust", "Strategy", "strategy"]
