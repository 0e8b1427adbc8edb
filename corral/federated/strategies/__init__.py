"""The strategies by name: `strategy(name, config)`; see `base` for what one is."""

from __future__ import annotations

from collections.abc import Mapping

from corral.federated.errors import InvalidConfig
from corral.federated.strategies.base import Averaging, Outcome, Robust, Strategy
from corral.federated.strategies.bulyan import Bulyan
from corral.federated.strategies.concat import Concat
from corral.federated.strategies.fedadagrad import FedAdagrad
from corral.federated.strategies.fedadam import FedAdam
from corral.federated.strategies.fedavg import FedAvg
from corral.federated.strategies.fedavgm import FedAvgM
from corral.federated.strategies.fedprox import FedProx
from corral.federated.strategies.fedyogi import FedYogi
from corral.federated.strategies.krum import Krum
from corral.federated.strategies.median import Median
from corral.federated.strategies.multi_krum import MultiKrum
from corral.federated.strategies.trimmed_mean import TrimmedMean

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
