"""A FederatedJob without a cluster: the rounds that its controllers would run, on one machine.

What a round is, which updates count, when they are enough and what they become is decided by the
same functions as in a cluster; only tasks, time and the registry are played. Time is virtual:
nothing waits. Where every participant takes part in every round, the models are those of the
cluster, bit for bit.
"""

from corral.families.federated.simulator.arrivals import Arrivals
from corral.families.federated.simulator.jobs import (
    CannotSimulate,
    Setting,
    Simulation,
    with_clients,
)

__all__ = ["Arrivals", "CannotSimulate", "Setting", "Simulation", "with_clients"]
